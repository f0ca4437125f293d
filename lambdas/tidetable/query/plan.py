"""The planner: a pure function from a query and the catalog's entries to what is to be read, in the answer's order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from tidetable.catalog import Entry
from tidetable.conditions import ANY, Condition, Names
from tidetable.keys import Index, Layout, escape, unescape
from tidetable.keys.layout import NEWEST
from tidetable.periods import Period
from tidetable.ports import ArchiveRange, KeyRange
from tidetable.query.access import Access, access_to
from tidetable.query.cursor import Position
from tidetable.query.params import Query
from tidetable.query.rows import Shape
from tidetable.query.spread import spread_over_series, suffixes_of, suffixes_of_hashes
from tidetable.times import from_text, to_text

Source = Literal["table", "index", "replica", "archive"]


@dataclass(frozen=True, slots=True)
class Stage:
    """Ranges whose events lie between ``start`` and ``end``, apart from every other stage's, and so can be merged alone.

    There is a range like ``keys`` for each suffix of each of the logical ``partitions``. ``index`` is the index that they are
    of; ``conditions`` are those that the ranges do not answer by themselves, of which the service leaves out what it can tell.
    Where the partitions are several series each range begins at a place of its own: these are ``spread``.
    ``fetches`` says that the index does not hold what the query shows or asks.
    """

    entry: Entry
    start: datetime
    end: datetime
    keys: KeyRange | None = None
    partitions: Sequence[str] = ()
    suffixes: Sequence[int] = ()
    archive: ArchiveRange | None = None
    index: Index | None = None
    conditions: tuple[Condition, ...] = ()
    fetches: bool = False
    spread: Sequence[KeyRange] = ()

    @property
    def count(self) -> int:
        """How many ranges there are."""
        return len(self.spread) or len(self.partitions) * len(self.suffixes)

    @property
    def ranges(self) -> list[KeyRange]:
        """Its ranges, made anew."""
        keys = self.keys
        if keys is None or self.spread:
            return list(self.spread)
        return [replace(keys, pk=f"{one}#{suffix}") for one in self.partitions for suffix in self.suffixes]

    @property
    def source(self) -> Source:
        """Where its events come from."""
        if self.archive is not None:
            return "archive"
        return "table" if self.index is None else "replica" if self.index.replica else "index"

    @property
    def place(self) -> str:
        """The attribute that its items are in the order of."""
        return "sk" if self.index is None else self.index.sk

    @property
    def copied(self) -> str | None:
        """The attribute that holds what its index has of an event's data, if that is all that is needed."""
        index = self.index
        return None if index is None or index.project is None or self.fetches else index.copy

    def position_of(self, place: str, query: Query) -> Position:
        """The place of an event in the order of events, from its sort key; of an archive, the key that it had in its table."""
        if self.source == "index":
            time, series, id = place.split("#")
            return Position(from_text(time), unescape(series), unescape(id))
        layout = self.entry.layout.across(query.series)
        if "#" not in place.removeprefix(NEWEST):
            return Position(from_text(place.removeprefix(NEWEST)))
        time, series, id = layout.names_of({"pk": f"{escape(query.series or '')}#0", "sk": place})
        return Position(from_text(time), series, id)

    def names_left(self, query: Query) -> Names:
        """The conditions on names that the ranges do not answer by themselves; an archive's reader answers them all."""
        if self.archive is not None:
            return ANY
        by_series = self.source != "index" and self.entry.layout.partition_by == "series"
        return query.names._replace(series=()) if by_series else query.names

    def filtered_by(self, query: Query) -> list[str]:
        """What more is read than the query asks for, by what is left out of it again."""
        conditions = [f"where.{one.field}" for one in self.conditions]
        return [*self.names_left(query).parameters, *conditions]


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of the range for which there is no table, yet or any more."""

    start: datetime
    end: datetime
    reason: str


def cut_gap(period: Period, start: datetime, end: datetime) -> Gap:
    """The gap of a period whose table is missing, as far as a range meets it."""
    return Gap(max(period.start, start), min(period.end, end), "table missing")


@dataclass(frozen=True, slots=True)
class Plan:
    """The stages in the order of the answer, and what no stage covers."""

    stages: Stages
    gaps: Sequence[Gap]


@dataclass(frozen=True, slots=True)
class Stages:
    """The stages of a query, each made when it is its turn: a long range may have many, of which a page needs a few."""

    query: Query
    parts: Sequence[tuple[Entry, datetime, datetime]]

    def __iter__(self) -> Iterator[Stage]:
        query = self.query
        for entry, start, end in self.parts if query.ascending else reversed(self.parts):
            yield from _stages(query, _access(query, entry.layout), entry, start, end)


def plan_query(query: Query, entries: Sequence[Entry]) -> Plan:
    """Turn a query into key ranges: one for each suffix of each bucket that it meets."""
    gaps: list[Gap] = []
    parts = []
    for entry, start, end in covered(query.start, query.end, entries, gaps):
        if not entry.live and entry.archived is None:
            gaps.append(Gap(start, end, entry.absence))
        elif entry.live and _access(query, entry.layout) is None:
            gaps.append(Gap(start, end, "no index"))
        else:
            parts.append((entry, start, end))
    gaps.sort(key=lambda gap: gap.start)
    return Plan(Stages(query, parts), gaps)


def covered(
    start: datetime, end: datetime, entries: Sequence[Entry], gaps: list[Gap]
) -> Iterator[tuple[Entry, datetime, datetime]]:
    """The entries whose periods meet a range, oldest first, with the part that they meet; the rest is added to the gaps."""
    at = start
    for entry in sorted(entries, key=lambda one: one.period.start):
        first, last = max(start, entry.period.start), min(end, entry.period.end)
        if first >= last:
            continue
        if at < first:
            gaps.append(Gap(at, first, "no table"))
        at = last
        yield entry, first, last
    if at < end:
        gaps.append(Gap(at, end, "no table"))


def _access(query: Query, layout: Layout) -> Access | None:
    return access_to(layout, query.names, query.conditions, consistent=query.consistent, low=query.low_priority)


def _stages(query: Query, access: Access | None, entry: Entry, start: datetime, end: datetime) -> Iterator[Stage]:
    """A period's stages, as far as they lie ahead."""
    layout = entry.layout
    if not entry.live and entry.archived is not None:
        if _ahead(start, end, query):
            low, high, after = _edges(query, layout.across(query.series), start, end)
            facts, versions = entry.archived, query.shape.versions
            conditions, names = query.conditions, query.names
            keys = ArchiveRange(facts.manifest, low, high, query.series, after, versions, conditions, names=names)
            yield Stage(entry, start, end, archive=keys)
    elif access is not None and access.index is not None and not access.index.replica:
        if _ahead(start, end, query):
            yield _index_stage(query, access, access.index, entry, start, end)
    elif access is not None:
        for first, last in _slices(query, layout, start, end):
            if _ahead(first, last, query):
                low, high, after = _edges(query, layout, first, last)
                whole = KeyRange(entry.table, "", low, high, after, access.index, access.conditions)
                table = Stage(entry, first, last, whole, index=access.index, conditions=access.conditions)
                if layout.partition_by == "series" and query.series is None:
                    yield replace(table, spread=spread_over_series(query, layout, whole))
                else:
                    partition = layout.logical(first, query.series or "")
                    yield replace(table, partitions=[partition], suffixes=suffixes_of(query.names, layout))


def _slices(query: Query, layout: Layout, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The buckets that a range meets, in the answer's order; a table partitioned by series has none."""
    if layout.partition_by == "series":
        yield start, end
        return
    size, first = timedelta(seconds=layout.bucket), layout.bucket_start(start)
    count = -(-(end - first) // size)
    for number in range(count) if query.ascending else range(count - 1, -1, -1):
        yield max(start, first + number * size), min(end, first + (number + 1) * size)


def _index_stage(query: Query, access: Access, index: Index, entry: Entry, start: datetime, end: datetime) -> Stage:
    """One range for each suffix of each value. An index sorts by time, series and id, whatever its table is partitioned by."""
    low, high = to_text(start), to_text(end)
    # Only the newest version of an event is in it, and its key there says no version.
    layout = replace(entry.layout, partition_by="time", versioned=False)
    after = None if query.after is None else place_of(query.after, layout)
    after = after if after is not None and low <= after <= high else None
    conditions = access.conditions
    keys = KeyRange(entry.table, "", low, high, after, index, told_by(index, conditions))
    fetches = fetches_from(index, query.shape, conditions)
    suffixes = suffixes_of_hashes(query.names.ids, index.shards)
    return Stage(
        entry, start, end, keys, access.partitions, suffixes, index=index, conditions=conditions, fetches=fetches
    )


def told_by(index: Index, conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """The conditions that the service can tell in an index: none, if one is about what the index does not hold."""
    return conditions if index.holds(one.top for one in conditions) else ()


def fetches_from(index: Index, shape: Shape, conditions: Sequence[Condition]) -> bool:
    """Whether more of an event is shown, or asked, than an index holds."""
    if index.project is None:
        return False
    everything = not (shape.fields or shape.bare) or shape.versions
    return everything or not index.holds([*shape.tops, *(one.top for one in conditions)])


def _edges(query: Query, layout: Layout, start: datetime, end: datetime) -> tuple[str, str, str | None]:
    """Sort keys begin with the time and go on with ``#``, so bare times include the start and leave out the end."""
    low, high = layout.edge(start), layout.edge(end)
    after = None if query.after is None else place_of(query.after, layout)
    return low, high, after if after is not None and low <= after <= high else None


def place_of(position: Position, layout: Layout) -> str:
    """A position as a sort key of a layout; the bare instant sorts before every event of its time."""
    if not position.id:
        return layout.edge(position.time)
    return layout.sort_key(*position)


def _ahead(start: datetime, end: datetime, query: Query) -> bool:
    """Whether a part of the range may hold anything after the position."""
    if query.after is None:
        return True
    if query.ascending:
        return query.after.time < end
    bare = not query.after.id
    return start < query.after.time or (not bare and start == query.after.time)
