"""The planner: a pure function makes scans, in the order of the answer, from a query and the catalog's entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from tidetable.catalog import Entry, GapReason
from tidetable.conditions import Condition
from tidetable.layout import Index, Layout, escape
from tidetable.ports import KeyRange
from tidetable.query.access_path import AccessPath, choose_access_path
from tidetable.query.earlier import make_archive_range
from tidetable.query.model import Projection, Query
from tidetable.query.packs.scan import plan_pack_scan
from tidetable.query.scans import ArchiveScan, Gap, GatherScan, IndexScan, Plan, Scan, TableScan
from tidetable.times import MOMENT, to_text


class _Scans(msgspec.Struct, frozen=True):
    """The scans of a query. Each is made when it is needed: a long range may have many, and a page needs only a few."""

    query: Query
    segments: Sequence[tuple[Entry, datetime, datetime, AccessPath | None]]

    def __iter__(self) -> Iterator[Scan]:
        query = self.query
        for segment in self.segments if query.ascending else reversed(self.segments):
            yield from _plan_scans(query, *segment)


def plan_query(query: Query, entries: Sequence[Entry]) -> Plan:
    """Plan a query: one key range for each suffix of each bucket that overlaps its range of time."""
    gaps: list[Gap] = []
    segments = []
    for entry, start, end in cover_range(query.start, query.end, entries, gaps):
        path = find_access_path(query, entry, start, end) if entry.live else None
        if entry.live and path is None:
            gaps.append(Gap(start, end, GapReason.NO_INDEX))
        elif not entry.live and entry.archived is None:
            gaps.append(Gap(start, end, entry.absence))
        else:
            segments.append((entry, start, end, path))
    gaps.sort(key=lambda gap: gap.start)
    return Plan(_Scans(query, segments), gaps)


def cover_range(
    start: datetime, end: datetime, entries: Sequence[Entry], gaps: list[Gap]
) -> Iterator[tuple[Entry, datetime, datetime]]:
    """Yield the entries whose periods overlap a range, oldest first, with the overlaps.

    Times without an entry become gaps.
    """
    at = start
    for entry in sorted(entries, key=lambda entry: entry.period.start):
        first, last = max(start, entry.period.start), min(end, entry.period.end)
        if first >= last:
            continue
        if at < first:
            gaps.append(Gap(at, first, GapReason.NO_TABLE))
        at = last
        yield entry, first, last
    if at < end:
        gaps.append(Gap(at, end, GapReason.NO_TABLE))


def find_access_path(query: Query, entry: Entry, start: datetime, end: datetime) -> AccessPath | None:
    """Find the way in which a query reads ``[start, end)`` of a period; None if there is no way without a scan."""
    layout = entry.layout
    whole = timedelta(seconds=layout.bucket) if layout.bucket else entry.period.end - entry.period.start
    options = {"consistent": query.consistent, "low": query.low_priority}
    return choose_access_path(layout, query.names, query.conditions, share=(end - start) / whole, **options)


def _plan_scans(query: Query, entry: Entry, start: datetime, end: datetime, path: AccessPath | None) -> Iterator[Scan]:
    """Plan the scans of a period that may hold events after the query's position; an archive has no ``path``."""
    if path is None:
        if entry.archived is not None and _is_ahead(start, end, query):
            low, high, after = _find_edges(query, entry.layout.find_ordering_layout(query.series), start, end)
            keys = make_archive_range(query, entry.archived.manifest, low, high, after)
            yield ArchiveScan(entry=entry, start=start, end=end, keys=keys)
        return
    index = path.index
    if index is not None and not (index.replica or index.local):
        if _is_ahead(start, end, query):
            yield _plan_index_scan(query, path, index, entry, path.partitions, start, end)
        return
    for partitions, first, last in _slice_range(query, entry.layout, start, end):
        if not _is_ahead(first, last, query):
            continue
        if index is not None and index.local:
            yield _plan_index_scan(query, path, index, entry, partitions, first, last)
        else:
            scan = _plan_table_scan if entry.layout.pack is None else plan_pack_scan
            yield scan(query, path, entry, partitions, first, last)


def _slice_range(
    query: Query, layout: Layout, start: datetime, end: datetime
) -> Iterator[tuple[Sequence[str], datetime, datetime]]:
    """Slice a range by the buckets, in the answer's order, each slice after its logical partitions.

    A layout by series gives the whole range, and the partitions of the query's series.
    """
    if layout.partition_by == "series":
        yield [escape(series) for series in query.names.series], start, end
        return
    size, first = timedelta(seconds=layout.bucket), layout.find_bucket(start)
    count = -(-(end - first) // size)
    for number in range(count) if query.ascending else range(count - 1, -1, -1):
        bucket = first + number * size
        yield [to_text(bucket)], max(start, bucket), min(end, bucket + size)


def _plan_table_scan(
    query: Query, path: AccessPath, entry: Entry, partitions: Sequence[str], start: datetime, end: datetime
) -> TableScan:
    """Plan one range for each suffix of a bucket or a series. With several series, each range has its own start."""
    layout = entry.layout
    low, high, after = _find_edges(query, layout, start, end)
    keys = KeyRange(entry.table, "", low, high, after, path.index, path.conditions)
    scan = TableScan(entry=entry, start=start, end=end, conditions=path.conditions, keys=keys)
    if layout.partition_by == "series" and query.series is None:
        return replace(scan, series_ranges=_spread_over_series(query, layout, keys))
    return replace(scan, partitions=partitions, suffixes=layout.list_suffixes(query.names.series, query.names.ids))


def _plan_index_scan(
    query: Query,
    path: AccessPath,
    index: Index,
    entry: Entry,
    partitions: Sequence[str],
    start: datetime,
    end: datetime,
) -> IndexScan:
    """Plan one range for each suffix of each value.

    An index is sorted by time, series and id, also if its table is not.
    """
    # An index holds only the newest version of an event, and its keys do not name a version.
    layout = entry.layout
    low, high, after = _find_edges(query, layout.index_order, start, end)
    conditions, names = path.conditions, query.names
    suffixes = layout.list_suffixes(names.series, names.ids) if index.local else index.list_suffixes(names.ids)
    scan = IndexScan(
        entry=entry,
        start=start,
        end=end,
        conditions=conditions,
        index=index,
        keys=KeyRange(entry.table, "", low, high, after, index, push_down(index, conditions)),
        partitions=partitions,
        suffixes=suffixes,
        heads=path.heads,
        fetches=needs_table_data(index, query.projection, conditions),
    )
    if not path.gathers:
        return scan
    # A filter on times saves the transfer of events outside the range, but it saves no read units.
    times = layout.make_edge(start), layout.make_edge(end)
    keys = replace(scan.keys, low=None, high=None, after=None, times=times)
    return GatherScan.of(replace(scan, keys=keys), low, high, after)


def _spread_over_series(query: Query, layout: Layout, whole: KeyRange) -> list[KeyRange]:
    """Make the ranges of several series in a table that is partitioned by series.

    Each range begins at its own place.
    """
    across = replace(whole, after=None)
    return [
        replace(keys, pk=f"{escape(series)}#{suffix}")
        for series in query.names.series
        if (keys := _find_series_range(query, layout, across, series)) is not None
        for suffix in layout.list_suffixes((series,), query.names.ids)
    ]


def _find_series_range(query: Query, layout: Layout, keys: KeyRange, series: str) -> KeyRange | None:
    """Find the range of one of several series, after the query's position; None if no event can be there.

    In the partition of a series, sort keys are time and id. At the time of the position, the order of the series
    decides. The series before the position's series are read to the end of that time. The series after it are not read
    yet at that time.
    """
    after = query.after
    if after is None or not after.id:
        place = None if after is None else layout.make_edge(after.time)
    elif series == after.series:
        place = layout.make_sort_key(after.time, series, after.id)
    else:
        # Compare the names as in keys, where a separator follows each name.
        follows = f"{escape(series)}#" > f"{escape(after.series)}#"
        place = layout.make_edge(after.time if follows else after.time + MOMENT)
    if place is None or (place < keys.low if query.ascending else place > keys.high):  # type: ignore[operator]
        return keys
    if place > keys.high if query.ascending else place < keys.low:  # type: ignore[operator]
        return None
    return replace(keys, after=place)


def push_down(index: Index, conditions: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Return the conditions that DynamoDB can filter by in an index: all, or none if the index lacks a field."""
    return conditions if index.holds(condition.top for condition in conditions) else ()


def needs_table_data(index: Index, projection: Projection, conditions: Sequence[Condition]) -> bool:
    """True if a query shows or checks fields of an event that the index does not hold."""
    if index.project is None:
        return False
    return projection.needs_whole or not index.holds([*projection.tops, *(condition.top for condition in conditions)])


def _find_edges(query: Query, layout: Layout, start: datetime, end: datetime) -> tuple[str, str, str | None]:
    """Find the bounds of sort keys, and the position's sort key if it lies between them.

    A sort key is a time, ``#`` and more. So bounds that are only times include the start and exclude the end.
    """
    low, high = layout.make_edge(start), layout.make_edge(end)
    after = None if query.after is None else query.after.make_sort_key(layout)
    return low, high, after if after is not None and low <= after <= high else None


def _is_ahead(start: datetime, end: datetime, query: Query) -> bool:
    """True if ``[start, end)`` may hold an event after the query's position."""
    if query.after is None:
        return True
    if query.ascending:
        return query.after.time < end
    return start < query.after.time or (bool(query.after.id) and start == query.after.time)
