"""Aggregates from rollups.

Choose the sections of a range that rollups answer, and explain why they do not answer the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache, partial

from tidetable.config import Stream
from tidetable.errors import StoreUnavailable, TableMissing, TableThrottled
from tidetable.events import Event
from tidetable.forms.field_columns import Row
from tidetable.ports.rollups import Span
from tidetable.query.aggregates.aggregate_parameters import SERIES, Aggregation
from tidetable.query.aggregates.steps import find_fitting_spans
from tidetable.query.model import Reader
from tidetable.query.rollup_sources import (
    choose_by_state,
    list_definitions,
    read_events_alone,
    refuse_unnoted,
    refuse_unordered,
)
from tidetable.query.sections import CatalogWalk, Choice
from tidetable.rollup_model.cells import Cell, parse_cell
from tidetable.rollup_model.definition import Definition
from tidetable.statistics import list_kept
from tidetable.times import from_text


def choose_sections(aggregation: Aggregation, stream: Stream, reader: Reader, *, consistent: bool) -> Choice:
    """Choose the sources of an aggregate: the coarsest rollups that fit, and the events for the rest of the range.

    With ``consistent`` the catalog is read with strong consistency. A section raises ProblemError if it needs events that
    neither a key nor noted series can find.
    """
    query, walk = aggregation.query, CatalogWalk(reader.catalog, consistent)
    definitions = list_definitions(query.stream, reader)
    if reader.copies is not None and stream.rollup:
        reason = f"their state is in {reader.copies.origin} alone"
        reasons = {f"{stream.name}-{rollup.name}": reason for rollup in stream.rollup}
        return read_events_alone(query, walk, reasons, check=partial(refuse_unordered, stream, reader.copies))
    if reader.rolled is None or not definitions:
        return read_events_alone(query, walk, {})
    read_state = cache(partial(reader.rolled.rollups.read_state, query.stream, (query.start, query.end)))

    def find_since() -> datetime | None:
        return read_state().noted_since

    if not aggregation.rollups:
        reasons = {definition.stream: "rollups=false reads the events" for definition in definitions}
        return read_events_alone(query, walk, reasons, find_since, partial(refuse_unnoted, stream, find_since))
    try:
        # Read the state before anything else: an event with a later mark was also acknowledged later.
        state = read_state()
    except (StoreUnavailable, TableMissing, TableThrottled) as error:
        # The events give the same answer, at a higher cost. Where they need noted series, the state is read once more.
        reasons = {definition.stream: f"its state cannot be read: {error}" for definition in definitions}
        return read_events_alone(query, walk, reasons, find_since)
    misfit, spans = partial(find_misfit, aggregation), partial(_find_spans, aggregation)
    return choose_by_state(query, stream, state, reader, misfit, consistent=consistent, find_spans=spans)


def _find_spans(aggregation: Aggregation, definition: Definition) -> Sequence[Span] | None:
    """Find the spans of the range whose steps have the edges of buckets; None if all steps have."""
    query, step = aggregation.query, aggregation.step
    if step is None or not step.by_calendar:
        return None
    return find_fitting_spans(step, query.tz, query.start, query.end, definition.every)


def find_misfit(aggregation: Aggregation, definition: Definition) -> str | None:
    """Find the reason why the cells of a rollup cannot answer an aggregate; None if they can."""
    names, by = aggregation.query.names, set(definition.by)
    step = aggregation.step
    if step is not None and step.length % definition.every:
        return "step is not a multiple of its every"
    if _find_spans(aggregation, definition) == []:
        return f"no step of {aggregation.query.tz or 'UTC'} has the edges of its buckets"
    if names.ids or names.id_prefix:
        return "it does not hold ids"
    if (names.series or names.series_prefix) and SERIES not in by:
        return "its by lacks series"
    compared = [condition.field for condition in aggregation.query.conditions]
    if SERIES in compared:
        # In ``by`` this name is the event's series. A condition compares a field of data that has the same name.
        return "it does not hold the field series of data"
    fields = [*aggregation.by, *compared]
    lacking = sorted({name for name in fields if name not in by})
    if lacking:
        return f"its by lacks {', '.join(lacking)}"
    if aggregation.field is not None and aggregation.field not in definition.fields:
        return f"its fields lack {aggregation.field}"
    stats = sorted(list_kept(aggregation.stats) - definition.kept_statistics)
    return f"its stats lack {', '.join(stats)}" if stats else None


def read_cells(
    rows: Iterable[Row], definition: Definition, aggregation: Aggregation, reader: Reader
) -> Iterator[tuple[str, Cell]]:
    """Read the cells of rows that meet the conditions, each with its time as text."""
    conditions = aggregation.query.conditions
    fields = () if aggregation.field is None else (aggregation.field,)
    for time, series, id, data in rows:
        cell = parse_cell(definition, Event(series, from_text(time), id, data), reader.sketches, fields)
        if cell is not None and (not conditions or all(condition.holds(cell.data) for condition in conditions)):
            yield time, cell
