"""The planner: a pure function from a query and the catalog's entries to what is to be read, in the answer's order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tidetable.catalog import Entry
from tidetable.keys import Index, Layout
from tidetable.ports import ArchiveRange, KeyRange
from tidetable.query.cursor import Position
from tidetable.query.params import Query
from tidetable.times import to_text


@dataclass(frozen=True, slots=True)
class Stage:
    """Ranges whose events lie between ``start`` and ``end``, apart from every other stage's, and so can be merged alone."""

    entry: Entry
    start: datetime
    end: datetime
    ranges: tuple[KeyRange, ...] = ()
    archive: ArchiveRange | None = None

    @property
    def indexed(self) -> bool:
        """Whether an index answers it."""
        return any(keys.index is not None for keys in self.ranges)

    def filtered_by(self, query: Query) -> list[str]:
        """What more is read than the query asks for, by what is left out of it again; an archive's reader knows the series."""
        by_series = self.indexed or (self.archive is None and self.entry.layout.partition_by == "time")
        filters = ["series"] if query.series is not None and by_series else []
        return filters if query.where is None or self.indexed else [*filters, f"where.{query.where[0]}"]

    def filters(self, query: Query) -> bool:
        """Whether more is read than the query asks for."""
        return bool(self.filtered_by(query))


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
    at = query.start
    for entry in sorted(entries, key=lambda one: one.period.start):
        start, end = max(query.start, entry.period.start), min(query.end, entry.period.end)
        if start >= end:
            continue
        if at < start:
            gaps.append(Gap(at, start, "no table"))
        at = end
        if not entry.live and entry.archive is None:
            gaps.append(Gap(start, end, "deleted"))
        elif _unanswerable(query, entry):
            gaps.append(Gap(start, end, "no index"))
        else:
            stages += _stages(query, entry, start, end)
    if at < query.end:
        gaps.append(Gap(at, query.end, "no table"))
    ordered = stages if query.ascending else stages[::-1]
    return Plan([stage for stage in ordered if _ahead(stage, query)], gaps)


def _unanswerable(query: Query, entry: Entry) -> bool:
    """Whether only a scan of the period's table could answer: it is partitioned by series, older than the index asked for."""
    by_series = entry.live and entry.layout.partition_by == "series" and query.series is None
    return by_series and query.where is not None and entry.layout.index_on(query.where[0]) is None


def _stages(query: Query, entry: Entry, start: datetime, end: datetime) -> Iterator[Stage]:
    layout = entry.layout
    index = layout.index_on(query.where[0]) if query.where is not None and query.series is None else None
    if entry.live and index is not None and query.where is not None:
        yield Stage(entry, start, end, _index_ranges(query.where[1], index, query, entry, start, end))
    elif not entry.live and entry.archive is not None:
        low, high, after = _edges(query, layout, start, end)
        manifest, versions = entry.archive.manifest, query.shape.versions
        keys = ArchiveRange(manifest, low, high, query.series, after, versions)
        yield Stage(entry, start, end, archive=keys)
    elif layout.partition_by == "series":
        if query.series is not None:
            yield Stage(entry, start, end, _ranges(query, entry, start, end))
    else:
        bucket = layout.bucket_start(start)
        while bucket < end:
            following = bucket + timedelta(seconds=layout.bucket)
            inner = max(start, bucket), min(end, following)
            yield Stage(entry, *inner, _ranges(query, entry, *inner))
            bucket = following


def _ranges(query: Query, entry: Entry, start: datetime, end: datetime) -> tuple[KeyRange, ...]:
    layout = entry.layout
    low, high, after = _edges(query, layout, start, end)
    whole = KeyRange(entry.table, "", low, high, after)
    return tuple(
        replace(whole, pk=layout.partition(start, query.series or "", suffix))
        for suffix in layout.suffixes(query.series)
    )


def _index_ranges(
    value: str, index: Index, query: Query, entry: Entry, start: datetime, end: datetime
) -> tuple[KeyRange, ...]:
    """One range for each suffix of the value. An index sorts by time, series and id, whatever its table is partitioned by."""
    low, high = to_text(start), to_text(end)
    # Only the newest version of an event is in it, and its key there says no version.
    layout = replace(entry.layout, partition_by="time", versioned=False)
    after = None if query.after is None else place_of(query.after, layout)
    after = after if after is not None and low <= after <= high else None
    return tuple(
        KeyRange(entry.table, index.partition(value, suffix), low, high, after, index) for suffix in range(index.shards)
    )


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
