"""The sections of a range, each made when it is needed: a section is read from the cells of a rollup or from the events.

The catalog's entries are read when a section needs them. So an answer that ends early reads few of them, memory holds few
of them, and the entries of the events are not read where rollups answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.forms.field_columns import DATA
from tidetable.ports import CatalogReader, NotedSeries, Rollups, Tables
from tidetable.query.batches import TimeUp
from tidetable.query.explain import explain_query
from tidetable.query.indexed_series import Stretch, find_stretches, is_noted, read_series, read_stretch
from tidetable.query.model import Query, Reader
from tidetable.query.plan import MAX_LOOKED, plan_query
from tidetable.query.scans import Gap, Plan
from tidetable.query.session import ReadSession
from tidetable.query.whole import WholeBatch, WholeReader
from tidetable.rollup_model.definition import Definition
from tidetable.times import to_text

# Sections are made before the first of them is read, until they have this many entries (about 28 read units). So most
# ranges are refused before anything is read.
_MADE_AHEAD = 512
# The most entries of a section of events; and those of the first Query for the sections of events.
_MOST_ENTRIES, _AT_ONCE = 256, 64
# If the next section of events begins so much later, the entries before it are not read.
_FAR = timedelta(days=10)
# Returns the beginning of the first period whose series are noted; None if there is none.
FindSince = Callable[[], datetime | None]


class Section(NamedTuple):
    """A section of a range. It is read from the rollup ``definition`` or, if that is None, from the events.

    A section with a ``stretch`` is read by the noted series of its period, not in the order of time. Its plan is empty.
    """

    start: datetime
    query: Query
    plan: Plan
    definition: Definition | None
    stretch: Stretch | None = None


def find_begin(query: Query) -> datetime:
    """Find the instant at which a page of a query begins."""
    return query.start if query.after is None else query.after.time


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


@dataclass(slots=True)
class CatalogWalk:
    """Reads the catalog for the sections of one answer. ``looked`` counts the entries."""

    catalog: CatalogReader
    consistent: bool
    looked: int = 0

    def read(self, stream: str, start: datetime, end: datetime, at_once: int) -> Iterator[Entry]:
        """Yield the entries whose periods overlap ``[start, end]``, oldest first, ``at_once`` by the first Query."""
        walk = self.catalog.walk(stream, start, end, ascending=True, consistent=self.consistent, at_once=at_once)
        for entry in walk:
            self.looked += 1
            yield entry


@dataclass(slots=True)
class EventSections:
    """Makes the sections of a query that are read from the events. ``find_since`` is called if series are needed."""

    query: Query
    walk: CatalogWalk
    find_since: FindSince
    _coming: Iterator[Entry] = field(default_factory=lambda: iter(()))
    _last: Entry | None = None

    def make(self, start: datetime, end: datetime) -> Iterator[Section]:
        """Make the sections of ``[start, end)``, in the order of time. Each call has a later span than the last."""
        entries = self._find_entries(start, end)
        following = list(islice(entries, _MOST_ENTRIES))
        while start < end:
            some, following = following, list(islice(entries, _MOST_ENTRIES))
            stop = some[-1].period.end if following else end
            yield from self._split(msgspec.structs.replace(self.query, start=start, end=stop, after=None), some)
            start = stop

    def _find_entries(self, start: datetime, end: datetime) -> Iterator[Entry]:
        """Yield the entries whose periods overlap ``[start, end)``. An entry may overlap several spans."""
        if self._last is None or start - self._last.period.end > _FAR:
            self._coming = self.walk.read(self.query.stream, start, self.query.end, _AT_ONCE)
            self._last = next(self._coming, None)
        while self._last is not None and self._last.period.start < end:
            if start < self._last.period.end:
                yield self._last
            if end <= self._last.period.end:
                return
            self._last = next(self._coming, None)

    def _split(self, query: Query, entries: Sequence[Entry]) -> Iterator[Section]:
        """Split a query where its events must be read by the noted series of a period."""
        stretches, at = find_stretches(query, entries), query.start
        since = self.find_since() if stretches else None
        for stretch in stretches:
            if is_noted(stretch.entry, since):
                if at < stretch.start:
                    yield _make_section(query, at, stretch.start, entries)
                narrowed = msgspec.structs.replace(query, start=stretch.start, end=stretch.end)
                yield Section(stretch.start, narrowed, Plan((), ()), None, stretch)
                at = stretch.end
        if at < query.end:
            yield _make_section(query, at, query.end, entries)


def _make_section(query: Query, start: datetime, end: datetime, entries: Sequence[Entry]) -> Section:
    query = msgspec.structs.replace(query, start=start, end=end)
    return Section(start, query, plan_query(query, entries), None)


class Choice:
    """The sections of a range, in the order of time, and for each rollup the reason why it is not used, or None.

    The sections can be iterated once. Meanwhile ``gaps`` gets their gaps, and ``reasons`` become complete. ``check``
    raises ProblemError for a section that cannot be read.
    """

    def __init__(
        self,
        sections: Iterable[Section],
        reasons: Mapping[str, str | None],
        walk: CatalogWalk,
        check: Callable[[Section], None] = lambda _: None,
    ) -> None:
        self.reasons = reasons
        self.gaps: list[Gap] = []
        self._walk = walk
        coming, ahead = self._take_gaps(sections, check), list[Section]()
        while walk.looked < _MADE_AHEAD and (section := next(coming, None)) is not None:
            ahead.append(section)
        self.sections: Iterator[Section] = chain(ahead, coming)

    def _take_gaps(self, sections: Iterable[Section], check: Callable[[Section], None]) -> Iterator[Section]:
        for section in sections:
            check(section)
            self.gaps += section.plan.gaps
            yield section

    @property
    def looked(self) -> int:
        """The number of the catalog's entries that were read for the sections so far."""
        return self._walk.looked

    def list_gaps(self, stopped: datetime | None) -> list[Gap]:
        """List the gaps of the part of the range before ``stopped``; None if the whole range was read."""
        return [gap for gap in self.gaps if stopped is None or gap.start < stopped]

    def explain(self, query: Query, stream: Stream, reader: Reader, tables: Tables, now: datetime) -> dict[str, Any]:
        """Describe what reading the sections would read, and estimate the cost; of ``MAX_LOOKED`` periods at the most."""
        shown, end = list[Section](), None
        for section in self.sections:
            if shown and self._walk.looked > MAX_LOOKED:
                end = section.start
                break
            shown.append(section)
        plan = Plan([scan for section in shown for scan in section.plan.scans], self.list_gaps(end))
        document = explain_query(query, stream, reader, tables, now, plan) | self.document(reader, shown)
        return document if end is None else document | {"explained_to": to_text(end)}

    def document(self, reader: Reader, sections: Iterable[Section]) -> dict[str, Any]:
        """Describe the used rollups, and the cost of the sections that are read by noted series."""
        rollups = [{"rollup": name, "used": reason is None, "reason": reason} for name, reason in self.reasons.items()]
        document: dict[str, Any] = {"rollups": rollups} if rollups else {}
        noted = [
            _show_stretch(section.query, section.stretch, reader.rolled.rollups)
            for section in sections
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
