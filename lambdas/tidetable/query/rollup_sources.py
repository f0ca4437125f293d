"""The sections of a range: choose the sections that rollups answer and the sections that events answer, with the
reasons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tidetable.catalog import Entry, GapReason
from tidetable.config import Stream
from tidetable.forms.field_columns import DATA
from tidetable.ports import NotedSeries, Rollups, RollupState, Tables
from tidetable.ports.rollups import Span
from tidetable.problems import refuse_request
from tidetable.query.batches import TimeUp
from tidetable.query.explain import explain_query
from tidetable.query.indexed_series import Stretch, find_stretches, is_noted, read_series, read_stretch
from tidetable.query.model import Query, Reader
from tidetable.query.plan import plan_query
from tidetable.query.scans import Gap, Plan
from tidetable.query.session import ReadSession
from tidetable.query.whole import WholeBatch, WholeReader, make_query
from tidetable.rollup_model.cover import (
    CoveredSpan,
    Usable,
    cover_with_rollups,
    intersect_spans,
    list_usable,
    list_versions,
)
from tidetable.rollup_model.definition import Definition
from tidetable.times import to_text

if TYPE_CHECKING:
    from tidetable.copies.reader import Copies

# Returns the reason why the cells of a rollup cannot answer a query; None if they can.
FindMisfit = Callable[[Definition], str | None]
# Returns the spans of a range in which the cells of a rollup can answer a query; None if they can in all of it.
FindSpans = Callable[[Definition], Sequence[Span] | None]


class Section(NamedTuple):
    """A section of a range. It is read from the rollup ``definition`` or, if that is None, from the events.

    A section with a ``stretch`` is read by the noted series of its period, not in the order of time. Its plan is empty.
    """

    start: datetime
    query: Query
    plan: Plan
    definition: Definition | None
    stretch: Stretch | None = None


@dataclass(slots=True)
class SectionReader:
    """Reads the sections of a page, each by a scanner of its own. ``has_begun`` says that any section was read."""

    session: ReadSession
    has_begun: bool = False

    def read(self, section: Section, fields: Sequence[str], *, ids: bool = False) -> Iterator[WholeBatch | TimeUp]:
        """Read a section. ``fields``, and ``ids`` if it is true, are needed of events; cells are read completely."""
        self.has_begun = True
        if section.stretch is not None:
            noted = self._find_series(section.query, section.stretch)
            return read_stretch(section.query, section.stretch, noted, self.session, fields)
        if section.definition is not None:
            fields, ids = (DATA,), True
        return WholeReader(section.query, self.session, fields, ids=ids).read(section.plan.scans)

    def read_noted(self, query: Query, stretch: Stretch) -> NotedSeries:
        """The noted series of a stretch, without their events."""
        self.has_begun = True
        noted = self._find_series(query, stretch)
        self.session.cost.units += noted.units
        return noted

    def _find_series(self, query: Query, stretch: Stretch) -> NotedSeries:
        rolled = self.session.reader.rolled
        assert rolled is not None  # noqa: S101 - the state of rollups says what is noted
        return read_series(query, stretch, rolled.rollups)


class Choice(NamedTuple):
    """The sections of a range in the order of time, and for each rollup the reason why it is not used, or None."""

    sections: Sequence[Section]
    reasons: Mapping[str, str | None]

    @property
    def gaps(self) -> list[Gap]:
        """The gaps of all sections."""
        return [gap for section in self.sections for gap in section.plan.gaps]

    def explain(self, query: Query, stream: Stream, reader: Reader, tables: Tables, now: datetime) -> dict[str, Any]:
        """Describe what reading all sections would read, and estimate the cost."""
        plan = Plan([scan for section in self.sections for scan in section.plan.scans], self.gaps)
        return explain_query(query, stream, reader, tables, now, plan) | self.document(reader)

    def document(self, reader: Reader) -> dict[str, Any]:
        """Describe the used rollups, and the cost of the sections that are read by noted series."""
        rollups = [{"rollup": name, "used": reason is None, "reason": reason} for name, reason in self.reasons.items()]
        document: dict[str, Any] = {"rollups": rollups} if rollups else {}
        noted = [
            _show_stretch(section.query, section.stretch, reader.rolled.rollups)
            for section in self.sections
            if section.stretch is not None and reader.rolled is not None
        ]
        return document | ({"noted": noted} if noted else {})


def _show_stretch(query: Query, stretch: Stretch, rollups: Rollups) -> dict[str, Any]:
    series = len(read_series(query, stretch, rollups).series)
    requests = series * stretch.entry.layout.shards
    return {
        "period": stretch.entry.period.label,
        "from": to_text(stretch.start),
        "to": to_text(stretch.end),
        "series": series,
        "requests": requests,
        # AWS: a request takes at least half a unit, or one unit if it is strongly consistent.
        "least_units": requests * (1.0 if query.consistent else 0.5),
    }


def list_definitions(stream: str, reader: Reader) -> Sequence[Definition]:
    """List the rollups of a stream."""
    return () if reader.rolled is None else reader.rolled.definitions.get(stream, ())


def read_events_alone(
    query: Query, entries: Sequence[Entry], reasons: Mapping[str, str | None], since: datetime | None = None
) -> Choice:
    """Choose not to use rollups, for these reasons. Periods that begin at ``since`` or later are noted."""
    begin = query.start if query.after is None else query.after.time
    sections = _split_range(query, begin, entries, since)
    return Choice(sections or [Section(begin, query, plan_query(query, entries), None)], reasons)


def _split_range(query: Query, begin: datetime, entries: Sequence[Entry], since: datetime | None) -> list[Section]:
    """Split a query of events from ``begin`` on into sections; empty if no section must be read by noted series."""
    stretches = [
        stretch for stretch in find_stretches(query, entries) if is_noted(stretch.entry, since) and begin < stretch.end
    ]
    if not stretches:
        return []
    sections, at = list[Section](), begin
    for stretch in stretches:
        start = max(stretch.start, begin)
        if at < start:
            sections.append(_make_section(query, at, start, entries))
        narrowed = msgspec.structs.replace(query, start=start, end=stretch.end, after=None)
        sections.append(Section(start, narrowed, Plan((), ()), None, stretch._replace(start=start)))
        at = stretch.end
    if stretches and at < query.end:
        sections.append(_make_section(query, at, query.end, entries))
    return sections


def _make_section(query: Query, start: datetime, end: datetime, entries: Sequence[Entry]) -> Section:
    query = msgspec.structs.replace(query, start=start, end=end, after=None)
    return Section(start, query, plan_query(query, entries), None)


def choose_by_state(
    query: Query,
    stream: Stream,
    state: RollupState,
    reader: Reader,
    entries: Sequence[Entry],
    find_misfit: FindMisfit,
    *,
    consistent: bool,
    find_spans: FindSpans = lambda _: None,
) -> Choice:
    """Choose the sources of a range: the coarsest rollups that fit, and the events for the rest of the range.

    ``state`` must be read before anything else: an event with a later mark was also acknowledged later. ``entries`` are
    the entries of the stream itself. With ``consistent`` the entries of the rollups are read with strong consistency,
    too. Raises ProblemError if it needs events that neither a key nor noted series can find.
    """
    reasons: dict[str, str | None] = {}
    usable: list[Usable] = []
    entries_of = {query.stream: entries}
    for definition in list_definitions(query.stream, reader):
        name = definition.stream
        reasons[name] = find_misfit(definition)
        versions = [
            version
            for version in list_versions(definition, state)
            if version.start < query.end and query.start < version.end and find_misfit(version.definition) is None
        ]
        if versions:
            entries_of[name] = reader.catalog.entries(name, query.start, query.end, consistent=consistent)
            usable += _limit_usable(list_usable(versions, state, entries_of[name]), find_spans)
    # If buckets are equally long, the rollup with fewer groups is read.
    usable.sort(key=lambda rollup: (len(rollup.definition.by), len(rollup.definition.fields)))
    segments = cover_with_rollups(query.start if query.after is None else query.after.time, query.end, usable)
    used = {segment.definition.stream for segment in segments if segment.definition is not None}
    for name, reason in reasons.items():
        if name in used:
            reasons[name] = None
        elif reason is None:
            reasons[name] = (
                "the range has no sealed bucket of this rollup without a mark, or a coarser rollup answers these buckets"
            )
    since = state.noted_since
    if used:
        made = [_make_sections(query, segment, entries_of, state) for segment in segments]
        choice = Choice([section for sections in made for section in sections], reasons)
    else:
        choice = read_events_alone(query, entries, reasons, since)
    refuse_unnoted(stream, choice, since)
    return choice


def _limit_usable(usable: Sequence[Usable], find_spans: FindSpans) -> list[Usable]:
    """Limit rollups to the spans in which they can answer the query."""
    limited = []
    for rollup in usable:
        spans = find_spans(rollup.definition)
        limited.append(rollup if spans is None else rollup._replace(spans=intersect_spans(rollup.spans, spans)))
    return limited


def _make_sections(
    query: Query, segment: CoveredSpan, entries_of: Mapping[str, Sequence[Entry]], state: RollupState
) -> list[Section]:
    start, end, definition = segment
    if definition is None:
        narrowed = msgspec.structs.replace(query, start=start, end=end, after=None)
        entries = entries_of[query.stream]
        split = _split_range(narrowed, start, entries, state.noted_since)
        return split or [_make_section(query, start, end, entries)]
    cells = make_query(definition.stream, start, end, query.names._replace(ids=(), id_prefix=""))
    plan = plan_query(cells, entries_of[definition.stream])
    lost = intersect_spans([(mark.bucket, mark.bucket + mark.length) for mark in state.lost], [(start, end)])
    gaps = [Gap(first, last, GapReason.LATE_EVENTS_DELETED) for first, last in lost]
    return [Section(start, cells, Plan(plan.scans, [*plan.gaps, *gaps]), definition)]


def refuse_unordered(stream: Stream, choice: Choice, copies: Copies) -> None:
    """Raise ProblemError if a reader must read events of unknown series: only the origin has the list of series."""
    if any(gap.reason is GapReason.NO_INDEX for gap in choice.gaps):
        detail = (
            f"{stream.name} is partitioned by series, and a reader has neither its rollups nor its list of series: add series=,"
            f" or ask {copies.origin}"
        )
        raise refuse_request(400, "needs_series", detail)


def refuse_unnoted(stream: Stream, choice: Choice, since: datetime | None) -> None:
    """Raise ProblemError if a stream is partitioned by series, and series of the needed events are not noted."""
    if stream.key.partition_by != "series":
        return
    for gap in choice.gaps:
        if gap.reason is GapReason.NO_INDEX:
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
