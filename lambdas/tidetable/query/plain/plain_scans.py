"""Plan the scans of indexes, and the ranges of several series."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from tidetable.catalog import Entry
from tidetable.conditions import Condition
from tidetable.layout import Index, Layout, escape
from tidetable.ports import KeyRange
from tidetable.query.access_path import AccessPath
from tidetable.query.index_scans import GatherScan, IndexScan
from tidetable.query.model import Projection, Query
from tidetable.query.scans import find_edges
from tidetable.times import MOMENT


def plan_index_scan(
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
    low, high, after = find_edges(query, layout.index_order, start, end)
    conditions, names = path.conditions, query.names
    suffixes = index.list_suffixes(names.ids)
    if index.local:
        suffixes = layout.list_suffixes(names.series, names.ids, names.series_prefix)
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


def spread_over_series(query: Query, layout: Layout, whole: KeyRange) -> list[KeyRange]:
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
