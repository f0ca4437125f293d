"""How plain items are read: an item per event, in the table, its read replica or its indexes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial

import msgspec
from msgspec.structs import replace

from tidetable.catalog import Entry
from tidetable.conditions import ANY, Condition, NameConditions
from tidetable.events import Item
from tidetable.layout import Key, Layout
from tidetable.ports import ItemColumns, KeyRange, Page, RangeRead
from tidetable.problems import refuse_request
from tidetable.query.access_path import AccessPath, suggest_index
from tidetable.query.batches import RowsBatch
from tidetable.query.earlier import make_rows
from tidetable.query.gather import gather_events
from tidetable.query.hydrate import match_conditions, read_base_items
from tidetable.query.index_scans import GatherScan, IndexScan
from tidetable.query.lookups import Lookup, LookupTable, group_series
from tidetable.query.merge import Merged, PlacedColumns, merge_ranges
from tidetable.query.model import EVERYTHING, Position, Query
from tidetable.query.plain.plain_scans import plan_index_scan, spread_over_series
from tidetable.query.rows import Rows
from tidetable.query.scans import LiveScan, TableScan, find_edges, is_ahead, slice_range
from tidetable.query.session import PageKind, ReadPass, ReadSession
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

    def begin(self, scan: TableScan | IndexScan, work: ReadPass) -> TableReader:
        """Begin to read a scan in the order of time. The data of plain events stays text if it is shown as stored."""
        texts = work.query.projection == EVERYTHING
        kind, reads = PageKind(texts=texts, decoded=not texts), scan.make_first_reads(work.demand.count)
        if isinstance(scan, GatherScan):
            return GatherReader(scan, work, kind._replace(whole=True), reads)
        if isinstance(scan, IndexScan):
            return IndexReader(scan, work, kind, reads)
        return TableReader(scan, work, kind, reads)

    def begin_unit(
        self,
        scan: TableScan | IndexScan,
        query: Query,
        session: ReadSession,
        fields: tuple[str, ...],
        patience: Patience,  # noqa: ARG002 - see FormReading
    ) -> ReadUnit:
        """Begin a whole read: the unit of settling is the item, but an index may have an event twice."""
        if isinstance(scan, IndexScan):
            return IndexUnit(scan, query, session, fields)
        return ReadUnit(scan, query, session, fields)

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
    names = query.names
    suffixes = layout.list_suffixes(names.series, names.ids, names.series_prefix)
    return replace(scan, partitions=partitions, suffixes=suffixes)


class TableReader(msgspec.Struct):
    """Reads the scan of a table or of its read replica in the order of time. Its ranges are read in parallel."""

    scan: TableScan | IndexScan
    work: ReadPass
    kind: PageKind
    reads: Sequence[RangeRead]

    def read(self, pages: Sequence[Page], edge: Position) -> Iterator[RowsBatch]:  # noqa: ARG002 - see ScanReader
        """Yield the events in order. ``pages`` answer the first reads."""
        scan, work = self.scan, self.work
        query, session = work.query, work.session
        names = ANY if query.names == ANY else scan.find_names_left(query)
        session.note_source(scan)
        work.demand.filtered = names != ANY or bool(scan.conditions)
        for placed, last in self._merge(pages, names):
            columns = ItemColumns(*placed[:3])
            rows: Iterable[Rows]
            if columns.are_text:
                # DynamoDB has filtered the events whose data is text.
                rows = [Rows(scan.entry, *columns)]
            else:
                rows = make_rows(self._complete(columns), scan.entry, query.projection, session)
            yield RowsBatch(rows, None if last is None else scan.find_position(last, query.series))

    def _merge(self, pages: Sequence[Page], names: NameConditions) -> Iterator[Merged]:
        """Merge the ranges. AWS: a filter cannot use attributes of the primary key, and an event's names are only there."""
        scan, work = self.scan, self.work
        merged = merge_ranges(
            self.reads,
            pages,
            partial(work.fetch, kind=self.kind, ranges=scan.count),
            work.demand.choose_due,
            ascending=work.query.ascending,
            of_series=isinstance(scan, TableScan) and bool(scan.series_ranges),
        )
        if names == ANY:
            return merged
        names_of = scan.entry.layout.parse_names
        return (
            Merged(placed.where([names.hold(*names_of(*key)[1:]) for key in zip(*placed[:2], strict=True)]), edge)
            for placed, edge in merged
        )

    def _complete(self, columns: ItemColumns) -> Sequence[Item]:
        """Return the events that meet all conditions."""
        return match_conditions(columns, self.scan, self.work.session).items()


class IndexReader(TableReader):
    """Reads the scan of an index. For a moment, an index may hold an event twice: under its old and its new value."""

    scan: IndexScan

    def _merge(self, pages: Sequence[Page], names: NameConditions) -> Iterator[Merged]:
        return self._cut(super()._merge(pages, names))

    def _cut(self, merged: Iterable[Merged]) -> Iterator[Merged]:
        """Cut items into as many as are wanted, if data that the index lacks is fetched for them."""
        scan = self.scan
        for placed, edge in merged:
            if not scan.fetches and (len(scan.partitions) > 1 or len(scan.heads) > 1):
                placed = PlacedColumns.of({entry[:2]: entry for entry in zip(*placed, strict=True)}.values())
            while scan.fetches and len(placed.sks) > (count := self.work.demand.count):
                # The table decides which of an event's two entries is the present entry, so both are fetched at once.
                one, other = zip(*placed.cut(count - 1, count + 1)[:2], strict=True)
                count += one == other
                yield Merged(placed.cut(0, count), placed.order[count - 1])
                placed = placed.cut(count)
            yield Merged(placed, edge)

    def _complete(self, columns: ItemColumns) -> Sequence[Item]:
        """Complete the events with the data that the index lacks, and return those that meet all conditions."""
        if self.scan.fetches:
            session, consistent = self.work.session, self.work.query.consistent
            columns = ItemColumns.of(read_base_items(columns.items(), self.scan, session, consistent=consistent))
        return super()._complete(columns)


class GatherReader(IndexReader):
    """Reads the ranges of an index that are not in the order of time."""

    scan: GatherScan

    def _merge(self, pages: Sequence[Page], names: NameConditions) -> Iterator[Merged]:
        fetch = partial(self.work.fetch, kind=self.kind, ranges=0)
        ascending = self.work.query.ascending
        gathered = gather_events(
            self.scan, self.reads, pages, fetch, names, ascending=ascending, check_time=self._check_time
        )
        return self._cut(gathered)

    def _check_time(self) -> None:
        """Raise ProblemError if no time is left for more pages: an incomplete gathering has no answer."""
        if self.work.session.has_time:
            return
        scan = self.scan
        levels = ", ".join(f"where.{field}" for field in scan.index.levels)
        detail = (
            f"the index {scan.index.name} holds more events of this value in {scan.entry.period.label} than an answer has time to"
            f" put in order: narrow from and to, or name all of its levels ({levels}), whose events are in order"
        )
        raise refuse_request(422, "too_much", detail)
