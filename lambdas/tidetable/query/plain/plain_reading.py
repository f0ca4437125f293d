"""How plain items are read: an item per event, in the table, its read replica or its indexes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec.structs import replace

from tidetable.catalog import Entry
from tidetable.conditions import Condition
from tidetable.events import Item
from tidetable.layout import Key, Layout
from tidetable.ports import KeyRange, RangeRead
from tidetable.query.access_path import AccessPath, suggest_index
from tidetable.query.lookups import Lookup, LookupTable, group_series
from tidetable.query.model import Query
from tidetable.query.plain.in_order import GatherReader, IndexReader, TableReader
from tidetable.query.plain.plain_scans import plan_index_scan, spread_over_series
from tidetable.query.scans import GatherScan, IndexScan, LiveScan, TableScan, find_edges, is_ahead, slice_range
from tidetable.query.session import ReadPass, ReadSession
from tidetable.query.units import IndexUnit, Patience, ReadUnit
from tidetable.query.waves import AT_ONCE


class PlainReading:
    """Reads plain items."""

    def plan(self, query: Query, path: AccessPath, entry: Entry, start: datetime, end: datetime) -> Iterator[LiveScan]:
        """Plan the scans of ``[start, end)``: of a global index, or of each slice of the table."""
        index = path.index
        if index is not None and not (index.replica or index.local):
            if is_ahead(query, start, end):
                yield plan_index_scan(query, path, index, entry, path.partitions, start, end)
            return
        for partitions, first, last in slice_range(query, entry.layout, start, end):
            if index is not None and index.local:
                yield plan_index_scan(query, path, index, entry, partitions, first, last)
            else:
                yield _plan_table_scan(query, path, entry, partitions, first, last)

    def begin(self, scan: TableScan | IndexScan, reads: ReadPass) -> TableReader:
        """Begin to read a scan in the order of time."""
        if isinstance(scan, GatherScan):
            return GatherReader(scan, reads)
        return IndexReader(scan, reads) if isinstance(scan, IndexScan) else TableReader(scan, reads)

    def begin_unit(
        self,
        scan: TableScan | IndexScan,
        query: Query,
        session: ReadSession,
        fields: tuple[str, ...],
        patience: Patience,  # noqa: ARG002 - see FormReading
    ) -> ReadUnit:
        """Begin a whole read: the unit of settling is the item, but an index may have an event twice."""
        return (IndexUnit if isinstance(scan, IndexScan) else ReadUnit)(scan, query, session, fields)

    def find_event(self, table: LookupTable, key: Key, names: tuple[datetime, str, str] | None) -> Lookup:  # noqa: ARG002 - see FormReading
        """Find the item with the key."""
        store, name = table.session.reader.store, table.entry.table
        item = store.get_many(name, [key]).get(key) if table.consistent else store.get(name, key)
        return Lookup(item, damaged=False)

    def is_key_of(self, key: Key, plain_key: Key) -> bool:
        """True if it is the same key."""
        return key == plain_key

    def slice_latest(self, layout: Layout, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Return the whole range of a table by series: its newest item is read first."""
        if layout.partition_by == "series":
            yield start, end

    def group_latest(self, layout: Layout, series: Sequence[str]) -> Iterator[tuple[Sequence[str], int]]:
        """Group series so that a group's items fit into memory."""
        return group_series(layout, series)

    def find_latest(
        self, table: LookupTable, series: Sequence[str], start: datetime, end: datetime
    ) -> Iterator[tuple[str, Lookup]]:
        """Find the latest items: one item per suffix is read, all in parallel."""
        entry, session, consistent = table
        layout = entry.layout
        low, high = layout.make_edge(start), layout.make_edge(end)
        ranges = [
            (name, KeyRange(entry.table, layout.make_partition_key(start, name, suffix), low, high))
            for name in series
            for suffix in layout.list_suffixes((name,))
        ]
        best: dict[str, Item] = {}
        # An item of 400 KB may take 5 MB as objects of Python.
        for at in range(0, len(ranges), AT_ONCE):
            some = ranges[at : at + AT_ONCE]
            reads = [RangeRead(keys, 1) for _, keys in some]
            pages = session.reader.store.query_many(reads, ascending=False, consistent=consistent)
            for (name, _), page in zip(some, pages, strict=True):
                for item in session.take_page(page, entry, start, end).items:
                    if name not in best or item["sk"] > best[name]["sk"]:
                        best[name] = item
        yield from ((name, Lookup(item, damaged=False)) for name, item in best.items())

    def suggest_index(self, stream: str, layout: Layout, conditions: Sequence[Condition]) -> str:
        """Suggest an index, or what else a query without series needs."""
        return suggest_index(stream, layout, conditions)


def _plan_table_scan(
    query: Query, path: AccessPath, entry: Entry, partitions: Sequence[str], start: datetime, end: datetime
) -> TableScan:
    """Plan one range for each suffix of a bucket or a series. With several series, each range has its own start."""
    layout = entry.layout
    low, high, after = find_edges(query, layout, start, end)
    keys = KeyRange(entry.table, "", low, high, after, path.index, path.conditions)
    scan = TableScan(entry=entry, start=start, end=end, conditions=path.conditions, keys=keys)
    if layout.partition_by == "series" and query.series is None:
        return replace(scan, series_ranges=spread_over_series(query, layout, keys))
    return replace(scan, partitions=partitions, suffixes=layout.list_suffixes(query.names.series, query.names.ids))
