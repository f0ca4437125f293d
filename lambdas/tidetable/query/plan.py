"""The planner: a pure function from a query and the catalog's entries to what is to be read, in the answer's order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from tidetable.catalog import Entry
from tidetable.conditions import Condition
from tidetable.keys import Index, Layout, escape, unescape
from tidetable.keys.layout import NEWEST
from tidetable.ports import ArchiveRange, KeyRange
from tidetable.query.access import Access, access_to
from tidetable.query.cursor import Position
from tidetable.query.params import Query
from tidetable.times import from_text, to_text

Source = Literal["table", "index", "replica", "archive"]


@dataclass(frozen=True, slots=True)
class Stage:
    """Ranges whose events lie between ``start`` and ``end``, apart from every other stage's, and so can be merged alone.

    ``index`` is the index that they are of; ``conditions`` are those that the ranges do not answer by themselves, of which
    the service leaves out what it can tell. ``fetches`` says that the index does not hold what the query shows or asks.
    """

    entry: Entry
    start: datetime
    end: datetime
    ranges: tuple[KeyRange, ...] = ()
    archive: ArchiveRange | None = None
    index: Index | None = None
    conditions: tuple[Condition, ...] = ()
    fetches: bool = False

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
        layout = self.entry.layout if self.archive is None else self.entry.layout.across(query.series)
        if "#" not in place.removeprefix(NEWEST):
            return Position(from_text(place.removeprefix(NEWEST)))
        time, series, id = layout.names_of({"pk": f"{escape(query.series or '')}#0", "sk": place})
        return Position(from_text(time), series, id)

    def by_series(self, query: Query) -> bool:
        """Whether other series are read than the one asked for; an archive's reader leaves those out."""
        mixed = self.archive is None and (self.source == "index" or self.entry.layout.partition_by == "time")
        return query.series is not None and mixed

    def filtered_by(self, query: Query) -> list[str]:
        """What more is read than the query asks for, by what is left out of it again."""
        conditions = [f"where.{one.field}" for one in self.conditions]
        return ["series", *conditions] if self.by_series(query) else conditions


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of the range for which there is no table, yet or any more."""

    start: datetime
    end: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The stages in the order of the answer, and what no stage covers."""

    stages: Sequence[Stage]
    gaps: Sequence[Gap]


def plan_query(query: Query, entries: Sequence[Entry]) -> Plan:
    """Turn a query into key ranges: one for each suffix of each bucket that it meets."""
    stages: list[Stage] = []
    gaps: list[Gap] = []
    for entry, start, end in covered(query.start, query.end, entries, gaps):
        access = _access(query, entry.layout)
        if not entry.live and entry.archive is None:
            gaps.append(Gap(start, end, "deleted"))
        elif entry.live and access is None:
            gaps.append(Gap(start, end, "no index"))
        else:
            stages += _stages(query, access, entry, start, end)
    ordered = stages if query.ascending else stages[::-1]
    gaps.sort(key=lambda gap: gap.start)
    return Plan([stage for stage in ordered if _ahead(stage, query)], gaps)


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
    return access_to(layout, query.series, query.conditions, consistent=query.consistent, low=query.low_priority)


def _stages(query: Query, access: Access | None, entry: Entry, start: datetime, end: datetime) -> Iterator[Stage]:
    layout = entry.layout
    if not entry.live and entry.archive is not None:
        low, high, after = _edges(query, layout.across(query.series), start, end)
        facts, versions = entry.archive, query.shape.versions
        keys = ArchiveRange(facts.manifest, low, high, query.series, after, versions, query.conditions)
        yield Stage(entry, start, end, archive=keys)
    elif access is not None and access.partitions and access.index is not None:
        yield _index_stage(query, access, access.index, entry, start, end)
    elif access is not None:
        for first, last in _slices(layout, start, end):
            ranges = _ranges(query, access, entry, first, last)
            yield Stage(entry, first, last, ranges, index=access.index, conditions=access.conditions)


def _slices(layout: Layout, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The buckets that a range meets; a table partitioned by series has none."""
    if layout.partition_by == "series":
        yield start, end
        return
    bucket = layout.bucket_start(start)
    while bucket < end:
        following = bucket + timedelta(seconds=layout.bucket)
        yield max(start, bucket), min(end, following)
        bucket = following


def _ranges(query: Query, access: Access, entry: Entry, start: datetime, end: datetime) -> tuple[KeyRange, ...]:
    layout = entry.layout
    low, high, after = _edges(query, layout, start, end)
    whole = KeyRange(entry.table, "", low, high, after, access.index, access.conditions)
    return tuple(
        replace(whole, pk=layout.partition(start, query.series or "", suffix))
        for suffix in layout.suffixes(query.series)
    )


def _index_stage(query: Query, access: Access, index: Index, entry: Entry, start: datetime, end: datetime) -> Stage:
    """One range for each suffix of each value. An index sorts by time, series and id, whatever its table is partitioned by."""
    low, high = to_text(start), to_text(end)
    # Only the newest version of an event is in it, and its key there says no version.
    layout = replace(entry.layout, partition_by="time", versioned=False)
    after = None if query.after is None else place_of(query.after, layout)
    after = after if after is not None and low <= after <= high else None
    conditions = access.conditions
    # What an index does not hold of an event, the service cannot look at.
    told = () if index.project is not None and any(one.top not in index.project for one in conditions) else conditions
    ranges = tuple(
        KeyRange(entry.table, f"{partition}#{suffix}", low, high, after, index, told)
        for partition in access.partitions
        for suffix in range(index.shards)
    )
    fetches = fetches_from(index, query, conditions)
    return Stage(entry, start, end, ranges, index=index, conditions=conditions, fetches=fetches)


def fetches_from(index: Index, query: Query, conditions: Sequence[Condition]) -> bool:
    """Whether a query needs more of an event than an index holds."""
    if index.project is None:
        return False
    shape = query.shape
    asked = {*shape.fields, *(one.top for one in conditions)}
    return not (shape.fields or shape.bare) or shape.versions or not asked <= set(index.project)


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


def _ahead(stage: Stage, query: Query) -> bool:
    """Whether the stage may hold anything after the position."""
    if query.after is None:
        return True
    if query.ascending:
        return query.after.time < stage.end
    bare = not query.after.id
    return stage.start < query.after.time or (not bare and stage.start == query.after.time)
