"""The planner: a pure function from a query and the catalog's entries to what is to be read, in the answer's order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from tidetable.catalog import Entry
from tidetable.conditions import Condition
from tidetable.errors import TableMissing
from tidetable.keys import Index, Layout, Packing, escape
from tidetable.keys.pack import key_range
from tidetable.ports import ArchiveRange, CatalogReader, KeyRange
from tidetable.query.access import Access, access_to
from tidetable.query.model import (
    ArchiveScan,
    Gap,
    IndexScan,
    PackScan,
    Plan,
    Position,
    Projection,
    Query,
    Scan,
    TableScan,
)
from tidetable.query.spread import spread_over_series, suffixes_of, suffixes_of_hashes
from tidetable.times import to_text

_Answer = TypeVar("_Answer")
# Times are whole microseconds.
_MOMENT = timedelta(microseconds=1)


def read_planned(
    catalog: CatalogReader,
    stream: str,
    start: datetime,
    end: datetime,
    read: Callable[[Sequence[Entry], bool], _Answer],
    *,
    consistent: bool = False,
) -> _Answer:
    """Read by the catalog's entries; if a table vanishes meanwhile, once more by the entries as they are then.

    The table may just have been archived, which the catalog, read consistently, knows. The second ``read`` is called with True
    and leaves a gap for a table that is missing still. TableMissing if a table vanishes while the second one reads it.
    """
    try:
        return read(catalog.entries(stream, start, end, consistent=consistent), False)
    except TableMissing:
        return read(catalog.entries(stream, start, end, consistent=True), True)


@dataclass(frozen=True, slots=True)
class _Scans:
    """The scans of a query, each made when it is its turn: a long range may have many, of which a page needs a few."""

    query: Query
    segments: Sequence[tuple[Entry, datetime, datetime]]

    def __iter__(self) -> Iterator[Scan]:
        query = self.query
        for entry, start, end in self.segments if query.ascending else reversed(self.segments):
            yield from _scans_of(query, _access(query, entry.layout), entry, start, end)


def plan_query(query: Query, entries: Sequence[Entry]) -> Plan:
    """Turn a query into key ranges: one for each suffix of each bucket that it meets."""
    gaps: list[Gap] = []
    segments = []
    for entry, start, end in covered(query.start, query.end, entries, gaps):
        if not entry.live and entry.archived is None:
            gaps.append(Gap(start, end, entry.absence))
        elif entry.live and _access(query, entry.layout) is None:
            gaps.append(Gap(start, end, "no index"))
        else:
            segments.append((entry, start, end))
    gaps.sort(key=lambda gap: gap.start)
    return Plan(_Scans(query, segments), gaps)


def covered(
    start: datetime, end: datetime, entries: Sequence[Entry], gaps: list[Gap]
) -> Iterator[tuple[Entry, datetime, datetime]]:
    """The entries whose periods meet a range, oldest first, with the part that they meet; the rest is added to the gaps."""
    at = start
    for entry in sorted(entries, key=lambda entry: entry.period.start):
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


def _scans_of(query: Query, access: Access | None, entry: Entry, start: datetime, end: datetime) -> Iterator[Scan]:
    """A period's scans, as far as they lie ahead."""
    layout = entry.layout
    if not entry.live and entry.archived is not None:
        if _ahead(start, end, query):
            low, high, after = _edges(query, layout.across(query.series), start, end)
            facts, versions = entry.archived, query.projection.versions
            conditions, names = query.conditions, query.names
            archive = ArchiveRange(facts.manifest, low, high, query.series, after, versions, conditions, names=names)
            yield ArchiveScan(entry=entry, start=start, end=end, keys=archive)
    elif access is not None and access.index is not None and not access.index.replica:
        if _ahead(start, end, query):
            yield _index_scan(query, access, access.index, entry, start, end)
    elif access is not None:
        for first, last in _slices(query, layout, start, end):
            if not _ahead(first, last, query):
                continue
            if layout.pack is not None:
                yield _pack_scan(query, access, layout.pack, entry, first, last)
            else:
                low, high, after = _edges(query, layout, first, last)
                keys = KeyRange(entry.table, "", low, high, after, access.index, access.conditions)
                scan = TableScan(entry=entry, start=first, end=last, conditions=access.conditions, keys=keys)
                if layout.partition_by == "series" and query.series is None:
                    yield replace(scan, series_ranges=spread_over_series(query, layout, keys))
                else:
                    partition = layout.logical(first, query.series or "")
                    yield replace(scan, partitions=[partition], suffixes=suffixes_of(query.names, layout))


def _slices(query: Query, layout: Layout, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The buckets that a range meets, in the answer's order; a table partitioned by series has none."""
    if layout.partition_by == "series":
        yield start, end
        return
    size, first = timedelta(seconds=layout.bucket), layout.bucket_start(start)
    count = -(-(end - first) // size)
    for number in range(count) if query.ascending else range(count - 1, -1, -1):
        yield max(start, first + number * size), min(end, first + (number + 1) * size)


def _pack_scan(
    query: Query, access: Access, packing: Packing, entry: Entry, start: datetime, end: datetime
) -> PackScan:
    """Both bounds of a table of packs: of the packs that may hold an event, and of the events that lie ahead."""
    layout, after = entry.layout, query.after
    low, high = layout.edge(start), layout.edge(end)
    first, last = start, end
    if after is not None:
        place = sort_key_of(after, layout.across(query.series))
        if query.ascending and place >= low:
            # Behind the place itself. A bare instant is before every event of its time.
            low, first = f"{place}\0" if after.id else place, after.time
        elif not query.ascending and place < high:
            high, last = place, after.time + _MOMENT
    by_series = layout.partition_by == "series"
    return PackScan(
        entry=entry,
        start=start,
        end=end,
        conditions=access.conditions,
        keys=KeyRange(entry.table, "", *key_range(first, last, packing.span)),
        partitions=[escape(series) for series in query.names.series] if by_series else [layout.logical(start, "")],
        low=low,
        high=high,
    )


def _index_scan(query: Query, access: Access, index: Index, entry: Entry, start: datetime, end: datetime) -> IndexScan:
    """One range for each suffix of each value. An index sorts by time, series and id, whatever its table is partitioned by."""
    low, high = to_text(start), to_text(end)
    # Only the newest version of an event is in it, and its key there says no version.
    layout = replace(entry.layout, partition_by="time", versioned=False)
    after = None if query.after is None else sort_key_of(query.after, layout)
    after = after if after is not None and low <= after <= high else None
    conditions = access.conditions
    return IndexScan(
        entry=entry,
        start=start,
        end=end,
        conditions=conditions,
        index=index,
        keys=KeyRange(entry.table, "", low, high, after, index, pushed_down(index, conditions)),
        partitions=access.partitions,
        suffixes=suffixes_of_hashes(query.names.ids, index.shards),
        fetches=fetches_from(index, query.projection, conditions),
    )


def pushed_down(index: Index, conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """The conditions that DynamoDB can filter by in an index: none, if the index lacks the field of one of them."""
    return conditions if index.holds(condition.top for condition in conditions) else ()


def fetches_from(index: Index, projection: Projection, conditions: Sequence[Condition]) -> bool:
    """Whether a query shows, or checks, more of an event than an index holds."""
    if index.project is None:
        return False
    everything = not (projection.fields or projection.only_fields) or projection.versions
    return everything or not index.holds([*projection.tops, *(condition.top for condition in conditions)])


def _edges(query: Query, layout: Layout, start: datetime, end: datetime) -> tuple[str, str, str | None]:
    """Sort keys begin with the time and go on with ``#``, so bare times include the start and leave out the end."""
    low, high = layout.edge(start), layout.edge(end)
    after = None if query.after is None else sort_key_of(query.after, layout)
    return low, high, after if after is not None and low <= after <= high else None


def _ahead(start: datetime, end: datetime, query: Query) -> bool:
    """Whether a part of the range may hold anything after the position."""
    if query.after is None:
        return True
    if query.ascending:
        return query.after.time < end
    bare = not query.after.id
    return start < query.after.time or (not bare and start == query.after.time)


def sort_key_of(position: Position, layout: Layout) -> str:
    """A position as a sort key of a layout; the bare instant sorts before every event of its time."""
    return layout.sort_key(*position) if position.id else layout.edge(position.time)
