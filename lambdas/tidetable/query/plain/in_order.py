"""Read a scan of plain items in the order of time. Its ranges are read in parallel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from tidetable.conditions import ANY, NameConditions
from tidetable.ports import ItemColumns, Page, RangeRead
from tidetable.problems import refuse_request
from tidetable.query.batches import LiveBatch
from tidetable.query.gather import gather_events
from tidetable.query.hydrate import match_conditions, read_base_items
from tidetable.query.merge import Merged, PlacedColumns, merge_ranges
from tidetable.query.model import Position
from tidetable.query.scans import GatherScan, IndexScan, TableScan
from tidetable.query.session import PageKind, ReadPass


class TableReader(msgspec.Struct):
    """Reads the scan of a table or of its read replica. ``reads`` are those of the first pages."""

    scan: TableScan | IndexScan
    work: ReadPass
    reads: Sequence[RangeRead] = ()

    @property
    def kind(self) -> PageKind:
        """The kind of pages: the data of plain events stays text if it is shown as it is stored."""
        texts = self.work.query.projection.as_stored
        return PageKind(texts=texts, decoded=not texts)

    def begin(self) -> Sequence[RangeRead]:
        """Return the reads of the first pages."""
        self.reads = self.scan.make_first_reads(self.work.demand.count)
        return self.reads

    def read(self, pages: Sequence[Page], edge: Position) -> Iterator[LiveBatch]:  # noqa: ARG002 - see ScanReader
        """Yield the events in order. ``pages`` answer the first reads."""
        scan, work = self.scan, self.work
        names = scan.find_names_left(work.query)
        work.session.note_source(scan)
        work.demand.filtered = names != ANY or bool(scan.conditions)
        for placed, last in self._merge(pages, names):
            for (_, pks, sks, contents), reached in self._cut(placed, last):
                position = None if reached is None else scan.find_position(reached, work.query.series)
                yield LiveBatch(scan, self._complete(ItemColumns(pks, sks, contents)), position)

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
            Merged(placed.where([names.hold(*names_of(*key)[1:]) for key in zip(*placed[1:3], strict=True)]), edge)
            for placed, edge in merged
        )

    def _cut(self, placed: PlacedColumns, edge: str | None) -> Iterator[Merged]:
        """Cut items into batches, each with the place up to which the ranges were read."""
        yield Merged(placed, edge)

    def _complete(self, columns: ItemColumns) -> ItemColumns:
        """Return the events that meet all conditions. DynamoDB has filtered those whose data is text."""
        if columns.are_text:
            return columns
        return match_conditions(columns, self.scan, self.work.session)


class IndexReader(TableReader):
    """Reads the scan of an index. For a moment, an index may hold an event twice: under its old and its new value."""

    scan: IndexScan

    def _cut(self, placed: PlacedColumns, edge: str | None) -> Iterator[Merged]:
        """Cut items into as many as are wanted, if data that the index lacks is fetched for them."""
        scan = self.scan
        if not scan.fetches and (len(scan.partitions) > 1 or len(scan.heads) > 1):
            placed = PlacedColumns.of({entry[1:3]: entry for entry in zip(*placed, strict=True)}.values())
        while scan.fetches and len(placed.sks) > (count := self.work.demand.count):
            # The table decides which of an event's two entries is the present entry, so both are fetched at once.
            one, other = zip(*placed.cut(count - 1, count + 1)[1:3], strict=True)
            count += one == other
            yield Merged(placed.cut(0, count), placed.order[count - 1])
            placed = placed.cut(count)
        yield Merged(placed, edge)

    def _complete(self, columns: ItemColumns) -> ItemColumns:
        """Complete the events with the data that the index lacks."""
        if self.scan.fetches:
            session, consistent = self.work.session, self.work.query.consistent
            columns = ItemColumns.of(read_base_items(columns.items(), self.scan, session, consistent=consistent))
        return super()._complete(columns)


class GatherReader(IndexReader):
    """Reads the ranges of an index that are not in the order of time."""

    scan: GatherScan

    @property
    def kind(self) -> PageKind:
        """The kind of pages: all events of the ranges are compared."""
        return super().kind._replace(whole=True)

    def _merge(self, pages: Sequence[Page], names: NameConditions) -> Iterator[Merged]:
        return gather_events(
            self.scan,
            self.reads,
            pages,
            partial(self.work.fetch, kind=self.kind, ranges=0),
            names,
            ascending=self.work.query.ascending,
            check_time=self._check_time,
        )

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
