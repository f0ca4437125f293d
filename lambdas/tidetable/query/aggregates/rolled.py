"""Aggregates from rollups: which parts of a range rollups answer, and why they do not answer the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tidetable.catalog import Entry
from tidetable.conditions import Names
from tidetable.errors import StoreUnavailable, TableThrottled
from tidetable.events import Event
from tidetable.ports import RollupState, Sketches
from tidetable.query.aggregates.parse import SERIES, Aggregation
from tidetable.query.aggregates.stats import Cell, percentile_of
from tidetable.query.model import Query, Reader
from tidetable.query.plan import plan_query
from tidetable.query.read import ArchiveBatch, LiveBatch
from tidetable.query.scans import Gap, Plan, Scan
from tidetable.rollups.cells import Cell as RolledCell
from tidetable.rollups.cells import Numbers, parse_cell
from tidetable.rollups.collect import batch_events, make_query
from tidetable.rollups.cover import Segment, Usable, Version, cover, list_versions, readable_spans, usable_spans
from tidetable.rollups.definition import PERCENTILES, Definition
from tidetable.times import from_text


class Part(NamedTuple):
    """A part of an aggregate's range, and how it is read: from a rollup, or (None) from the events."""

    start: datetime
    query: Query
    plan: Plan
    definition: Definition | None


class Choice(NamedTuple):
    """The parts of an aggregate's range in the order of time; of each rollup why it is not used, None if it is."""

    parts: Sequence[Part]
    reasons: Mapping[str, str | None]

    @property
    def gaps(self) -> list[Gap]:
        """The gaps of all parts."""
        return [gap for part in self.parts for gap in part.plan.gaps]

    @property
    def plan(self) -> Plan:
        """All parts as one plan, to be explained."""
        return Plan([scan for part in self.parts for scan in part.plan.scans], self.gaps)

    def document(self) -> list[dict[str, Any]]:
        """The rollups as a plan shows them."""
        return [{"rollup": name, "used": reason is None, "reason": reason} for name, reason in self.reasons.items()]


def choose_parts(aggregation: Aggregation, reader: Reader, entries: Sequence[Entry], *, consistent: bool) -> Choice:
    """Choose what an aggregate is read from: the coarsest rollups that fit, and the events elsewhere.

    ``entries`` are the stream's own. With ``consistent`` the catalog is read so for the rollups, too.
    """
    query = aggregation.query
    begin = query.start if query.after is None else query.after.time
    whole = Part(begin, query, plan_query(query, entries), None)
    rolled = reader.rolled
    definitions = () if rolled is None else rolled.definitions.get(query.stream, ())
    if rolled is None or not definitions:
        return Choice([whole], {})
    if not aggregation.rollups:
        return Choice([whole], {one.stream: "rollups=false reads the events" for one in definitions})
    try:
        # Before anything else: what is marked later was acknowledged later.
        state = rolled.rollups.read_state(query.stream)
    except (StoreUnavailable, TableThrottled) as error:
        # The events say the same, and only cost more.
        return Choice([whole], {one.stream: f"its state cannot be read: {error}" for one in definitions})
    reasons: dict[str, str | None] = {}
    usable: list[Usable] = []
    entries_of = {query.stream: entries}
    for definition in definitions:
        reasons[definition.stream] = find_misfit(definition, aggregation)
        versions = _fitting(definition, aggregation, state)
        if versions:
            entries_of[definition.stream] = reader.catalog.entries(
                definition.stream, query.start, query.end, consistent=consistent
            )
            readable = readable_spans(entries_of[definition.stream])
            usable += [Usable(one.definition, usable_spans(one, state, readable)) for one in versions]
    segments = cover(begin, query.end, usable)
    used = {one.definition.stream for one in segments if one.definition is not None}
    for name, reason in reasons.items():
        if name in used:
            reasons[name] = None
        elif reason is None:
            reasons[name] = "no sealed bucket of it without a mark lies in the range, or a coarser rollup has them"
    if not used:
        return Choice([whole], reasons)
    return Choice([_part(query, segment, entries_of) for segment in segments], reasons)


def find_misfit(definition: Definition, aggregation: Aggregation) -> str | None:
    """The reason why the cells of a rollup do not say what an aggregate wants to know; None if they do."""
    names, by = aggregation.query.names, set(definition.by)
    if aggregation.step is not None and aggregation.step % definition.every:
        return "step is not a multiple of its every"
    if names.ids or names.id_prefix:
        return "it does not know ids"
    if (names.series or names.series_prefix) and SERIES not in by:
        return "its by lacks series"
    fields = [*aggregation.by, *(condition.field for condition in aggregation.query.conditions)]
    lacking = sorted({name for name in fields if name not in by})
    if lacking:
        return f"its by lacks {', '.join(lacking)}"
    if aggregation.field is not None and aggregation.field not in definition.fields:
        return f"its fields lack {aggregation.field}"
    stats = sorted(_needed(aggregation) - definition.kept)
    return f"its stats lack {', '.join(stats)}" if stats else None


def _needed(aggregation: Aggregation) -> set[str]:
    """The statistics that a rollup must keep."""
    needed = set()
    for stat in aggregation.stats:
        percentile = percentile_of(stat) is not None
        needed |= {"sum", "count"} if stat == "avg" else {PERCENTILES} if percentile else {stat}
    return needed


def _fitting(definition: Definition, aggregation: Aggregation, state: RollupState) -> list[Version]:
    """The versions of a rollup that fit, and have sealed something of the range."""
    query = aggregation.query
    return [
        one
        for one in list_versions(definition, state)
        if one.start < query.end and query.start < one.end and find_misfit(one.definition, aggregation) is None
    ]


def _part(query: Query, segment: Segment, entries_of: Mapping[str, Sequence[Entry]]) -> Part:
    start, end, definition = segment
    if definition is None:
        own = msgspec.structs.replace(query, start=start, end=end, after=None)
    else:
        names = Names(series=query.names.series, series_prefix=query.names.series_prefix)
        own = make_query(definition.stream, start, end, names)
    return Part(start, own, plan_query(own, entries_of[own.stream]), definition)


def read_cells(
    batch: LiveBatch | ArchiveBatch, definition: Definition, aggregation: Aggregation, reader: Reader
) -> Iterator[tuple[str, RolledCell]]:
    """The cells of a batch that meet the conditions, each with the text of its time."""
    conditions = aggregation.query.conditions
    fields = () if aggregation.field is None else (aggregation.field,)
    for time, series, id, data in batch_events(batch, reader):
        cell = parse_cell(definition, Event(series, from_text(time), id, data), reader.sketches, fields)
        if cell is not None and (not conditions or all(one.holds(cell.data) for one in conditions)):
            yield time, cell


def join_numbers(cell: Cell, numbers: Numbers, sketches: Sketches) -> None:
    """Take a rollup's numbers into account, which come after everything but cells of the same bucket."""
    cell.count += numbers.count
    cell.sum += numbers.sum
    if numbers.min is not None and (cell.min is None or numbers.min < cell.min):
        cell.min = numbers.min
    if numbers.max is not None and (cell.max is None or numbers.max > cell.max):
        cell.max = numbers.max
    if numbers.first is not None:
        place, number = numbers.first
        if cell.first is None or (cell.first_place and place < cell.first_place):
            cell.first, cell.first_place = number, place
    if numbers.last is not None:
        place, number = numbers.last
        if place >= cell.last_place:
            cell.last, cell.last_place = number, place
    if numbers.sketch is not None:
        if cell.sketch is None:
            cell.sketch = sketches.new()
        cell.sketch.merge(numbers.sketch)


def rollup_of(scan: Scan, aggregation: Aggregation) -> str | None:
    """The rollup that a scan reads; None for the stream's own events."""
    return None if scan.entry.stream == aggregation.query.stream else scan.entry.stream
