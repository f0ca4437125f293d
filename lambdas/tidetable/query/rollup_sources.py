"""The sources of a range: choose the sections that rollups answer and the sections that events answer, with the reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from tidetable.catalog import Entry, GapReason
from tidetable.config import Stream
from tidetable.ports import RollupState
from tidetable.ports.rollups import Span
from tidetable.problems import refuse_request
from tidetable.query.model import Query, Reader
from tidetable.query.plan import plan_query
from tidetable.query.scans import Gap, Plan
from tidetable.query.sections import CatalogWalk, Choice, EventSections, FindSince, Section, find_begin
from tidetable.query.whole import make_query
from tidetable.rollup_model.cover import (
    CoveredSpan,
    DefinitionVersion,
    Usable,
    cover_with_rollups,
    intersect_spans,
    list_usable,
    list_versions,
)
from tidetable.rollup_model.definition import Definition
from tidetable.times import EPOCH, to_text

if TYPE_CHECKING:
    from tidetable.copies.reader import Copies

# Returns the reason why the cells of a rollup cannot answer a query; None if they can.
FindMisfit = Callable[[Definition], str | None]
# Returns the spans of a range in which the cells of a rollup can answer a query; None if they can in all of it.
FindSpans = Callable[[Definition], Sequence[Span] | None]
# The most entries of a rollup's stream that are in memory, about 28 read units.
_WINDOW = 512
_DAY = timedelta(days=1)
_UNUSED = "the range has no sealed bucket of this rollup without a mark, or a coarser rollup answers these buckets"


def list_definitions(stream: str, reader: Reader) -> Sequence[Definition]:
    """List the rollups of a stream."""
    return () if reader.rolled is None else reader.rolled.definitions.get(stream, ())


def read_events_alone(
    query: Query,
    walk: CatalogWalk,
    reasons: Mapping[str, str | None],
    find_since: FindSince = lambda: None,
    check: Callable[[Section], None] = lambda _: None,
) -> Choice:
    """Choose not to use rollups, for these reasons. Periods that begin at ``find_since()`` or later are noted."""
    sections = EventSections(query, walk, find_since).make(find_begin(query), query.end)
    return Choice(sections, reasons, walk, check)


def choose_by_state(
    query: Query,
    stream: Stream,
    state: RollupState,
    reader: Reader,
    find_misfit: FindMisfit,
    *,
    consistent: bool,
    find_spans: FindSpans = lambda _: None,
) -> Choice:
    """Choose the sources of a range: the coarsest rollups that fit, and the events for the rest of the range.

    ``state`` must be read before anything else: an event with a later mark was also acknowledged later. With
    ``consistent`` the catalog is read with strong consistency. A section raises ProblemError if it needs events that
    neither a key nor noted series can find.
    """
    reasons: dict[str, str | None] = {}
    versions_of: dict[Definition, Sequence[DefinitionVersion]] = {}
    for definition in list_definitions(query.stream, reader):
        versions = [
            version
            for version in list_versions(definition, state)
            if version.start < query.end and query.start < version.end and find_misfit(version.definition) is None
        ]
        reasons[definition.stream] = find_misfit(definition) or _UNUSED
        if versions:
            versions_of[definition] = versions
    walk = CatalogWalk(reader.catalog, consistent)
    sections = _make_sections(query, state, versions_of, walk, find_spans, reasons)
    return Choice(sections, reasons, walk, partial(refuse_unnoted, stream, lambda: state.noted_since))


def _make_sections(
    query: Query,
    state: RollupState,
    versions_of: Mapping[Definition, Sequence[DefinitionVersion]],
    walk: CatalogWalk,
    find_spans: FindSpans,
    reasons: dict[str, str | None],
) -> Iterator[Section]:
    """Make the sections of a range, some days at a time: the lengths of buckets divide a day."""
    events = EventSections(query, walk, lambda: state.noted_since)
    start = find_begin(query)
    while start < query.end:
        end, entries_of = _read_window(start, query.end, [definition.stream for definition in versions_of], walk)
        usable = [
            rollup
            for definition, versions in versions_of.items()
            for rollup in _limit_usable(list_usable(versions, state, entries_of[definition.stream]), find_spans)
        ]
        # If buckets are equally long, the rollup with fewer groups is read.
        usable.sort(key=lambda rollup: (len(rollup.definition.by), len(rollup.definition.fields)))
        for span in cover_with_rollups(start, end, usable):
            if span.definition is None:
                yield from events.make(span.start, span.end)
            else:
                reasons[span.definition.stream] = None
                yield _make_cells(query, span, span.definition, entries_of[span.definition.stream], state)
        start = end


def _read_window(
    start: datetime, end: datetime, streams: Sequence[str], walk: CatalogWalk
) -> tuple[datetime, Mapping[str, Sequence[Entry]]]:
    """Read the entries of rollups from ``start`` on. Return them, and the midnight up to which all were read."""
    stop, entries_of = end, dict[str, Sequence[Entry]]()
    for stream in streams:
        entries = list(islice(walk.read(stream, start, end, _WINDOW + 1), _WINDOW + 1))
        if len(entries) > _WINDOW:
            last = entries[-1].period.start
            stop = min(stop, last - (last - EPOCH) % _DAY)
        entries_of[stream] = entries
    return stop, entries_of


def _make_cells(
    query: Query, span: CoveredSpan, definition: Definition, entries: Sequence[Entry], state: RollupState
) -> Section:
    start, end, _ = span
    cells = make_query(definition.stream, start, end, query.names._replace(ids=(), id_prefix=""))
    plan = plan_query(cells, entries)
    lost = intersect_spans([(mark.bucket, mark.bucket + mark.length) for mark in state.lost], [(start, end)])
    gaps = [Gap(first, last, GapReason.LATE_EVENTS_DELETED) for first, last in lost]
    return Section(start, cells, Plan(plan.scans, [*plan.gaps, *gaps]), definition)


def _limit_usable(usable: Sequence[Usable], find_spans: FindSpans) -> list[Usable]:
    """Limit rollups to the spans in which they can answer the query."""
    limited = []
    for rollup in usable:
        spans = find_spans(rollup.definition)
        limited.append(rollup if spans is None else rollup._replace(spans=intersect_spans(rollup.spans, spans)))
    return limited


def refuse_unordered(stream: Stream, copies: Copies, section: Section) -> None:
    """Raise ProblemError if a reader must read events of unknown series: only the origin has the list of series."""
    if any(gap.reason is GapReason.NO_INDEX for gap in section.plan.gaps):
        detail = (
            f"{stream.name} is partitioned by series, and a reader has neither its rollups nor its list of series: add series=,"
            f" or ask {copies.origin}"
        )
        raise refuse_request(400, "needs_series", detail)


def refuse_unnoted(stream: Stream, find_since: FindSince, section: Section) -> None:
    """Raise ProblemError if a stream is partitioned by series, and series of the needed events are not noted."""
    if stream.key.partition_by != "series":
        return
    for gap in section.plan.gaps:
        if gap.reason is GapReason.NO_INDEX:
            since = find_since()
            listed = (
                f"that begins at {to_text(since)} or later"
                if since is not None
                else "after the next run of the refresher"
            )
            detail = (
                f"{stream.name} is partitioned by series: add series=. Without it, the events that are in no sealed bucket of"
                f" a rollup are found by the list of their period's series. The period that holds {to_text(gap.start)} has no"
                f" such list; the first with a list is the one {listed}. Set from after the periods without a list. An"
                " archived period needs none"
            )
            raise refuse_request(400, "needs_series", detail)
