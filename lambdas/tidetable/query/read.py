"""Read the scans of a plan, a few at a time. The ranges of a scan are read in parallel.

Events come in the order of the answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from datetime import datetime
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from tidetable.catalog import Entry
from tidetable.conditions import ANY
from tidetable.errors import ArchiveBusy, TableMissing
from tidetable.events import Item
from tidetable.ports import ArchivePage, ArchiveRange, CatalogReader, Columns, Page, RangeRead
from tidetable.problems import refuse
from tidetable.query.archives import ARCHIVES, read_archive_pages, wait_for_page
from tidetable.query.batches import ArchiveBatch, Batch, LiveBatch, TimeUp
from tidetable.query.gather import gather, make_first_gather_reads
from tidetable.query.hydrate import match_conditions, read_base_items
from tidetable.query.merge import Demand, Placed, make_first_reads, merge_ranges
from tidetable.query.model import RESERVE, Cost, Position, Query, Reader
from tidetable.query.scans import ArchiveScan, Gap, GatherScan, IndexScan, LiveScan, PackScan, Scan, TableScan
from tidetable.query.settle import PackWalk, count_events, make_damaged_gap, make_first_pack_reads
from tidetable.remaining import Remaining

_Answer = TypeVar("_Answer")
# At most this many scans are begun at once.
AHEAD = 8
# At most this many ranges are begun at once. A single scan of many series may have more.
_RANGES = 512
# The events per page of an archive, if only some fields are needed: fields take less space than whole events, and each
# page of an archive costs a call of a function.
_EVENTS_OF_FIELDS = 50_000


def read_planned(
    catalog: CatalogReader,
    stream: str,
    start: datetime,
    end: datetime,
    read: Callable[[Sequence[Entry], bool], _Answer],
    *,
    consistent: bool = False,
) -> _Answer:
    """Call ``read`` with the catalog's entries.

    If a table disappears meanwhile, read the entries anew and call ``read`` again. The table may just have been
    archived: a consistent read of the catalog shows this. The second call has the argument True; then ``read`` leaves a
    gap for a table that is still missing. Raises TableMissing if a table disappears during the second call.
    """
    try:
        return read(catalog.entries(stream, start, end, consistent=consistent), False)
    except TableMissing:
        return read(catalog.entries(stream, start, end, consistent=True), True)


class _Opening(NamedTuple):
    """A scan that has begun, with its first pages. The first page of an archive is still being read."""

    scan: Scan
    reads: Sequence[RangeRead] = ()
    pages: Sequence[Page] = ()
    archived: Future[ArchivePage] | None = None


class Scanner:
    """One pass over the scans of a plan.

    ``demand`` says how many events are still wanted, at first ``count``. ``fields`` are the needed fields of data; an
    empty list means all fields. If the scanner is ``forgiving``, a missing table is a gap in ``missing``; otherwise
    TableMissing is raised. A damaged pack is always a gap, in ``damaged``. An event is a gap there, too, if its needed
    data is missing or damaged.
    """

    def __init__(
        self,
        query: Query,
        reader: Reader,
        remaining: Remaining,
        *,
        count: int,
        fields: Sequence[str] = (),
        forgiving: bool = False,
    ) -> None:
        self._query = query
        self._reader = reader
        self._remaining = remaining
        self._fields = fields
        self._forgiving = forgiving
        self._entries: dict[str, Entry] = {}
        self.demand = Demand(count, filtered=False)
        self.missing: dict[str, Gap] = {}
        self.damaged: dict[tuple[str, str, str], Gap] = {}
        self.cost = Cost()
        self.sources: list[Scan] = []

    @property
    def gaps(self) -> list[Gap]:
        """The gaps that this pass has met."""
        return [*self.missing.values(), *self.damaged.values()]

    def read(self, scans: Iterable[Scan]) -> Iterator[Batch]:
        """Read the events of the scans, in order.

        Scans are begun one at a time, then two, then four. So if the first scan fills the page, no other scan costs
        reads, but a long empty range does not take one step per scan.
        """
        openings: deque[_Opening] = deque()
        coming, ahead, number = iter(scans), 1, 0
        pool = self._reader.pools(ARCHIVES)
        try:
            while following := [openings[0].scan] if openings else list(islice(coming, ahead)):
                scan = following[0]
                edge = Position(scan.start if self._query.ascending else scan.end)
                if number and self._remaining() < RESERVE:
                    yield TimeUp(edge)
                    return
                if not openings:
                    openings.extend(self._begin(following, pool))
                    ahead = min(2 * ahead, AHEAD, max(_RANGES // max(scan.count, 1), 1))
                current = openings.popleft()
                first = None if current.archived is None else wait_for_page(current.archived, self._remaining)
                if current.archived is not None and first is None:
                    if not number:
                        raise ArchiveBusy(f"the archive of {scan.entry.period.label} is slow")
                    yield TimeUp(edge)
                    return
                number += 1
                self.sources.append(scan)
                if isinstance(current.scan, PackScan):
                    yield from self._read_packs(current.scan, current)
                elif not isinstance(current.scan, ArchiveScan):
                    yield from self._read_live(current.scan, current)
                elif first is not None:
                    yield from self._read_archive(current.scan, first, pool)
        finally:
            # A full page does not wait for reads that were begun ahead.
            pool.shutdown(wait=False, cancel_futures=True)

    def _begin(self, scans: Sequence[Scan], pool: Executor) -> Iterator[_Opening]:
        """Begin some scans: read the first pages of all of them at the same time."""
        self._entries |= {scan.entry.table: scan.entry for scan in scans}
        archived = {
            number: pool.submit(self._read_page, scan.keys)
            for number, scan in enumerate(scans)
            if isinstance(scan, ArchiveScan)
        }
        reads = [_make_first_reads(scan, self.demand.count) for scan in scans]
        kinds = [isinstance(scan, PackScan) for scan in scans]
        pages: dict[bool, Iterator[Page]] = {}
        for packs in (False, True):
            due = [
                read for scan_reads, packed in zip(reads, kinds, strict=True) if packed is packs for read in scan_reads
            ]
            pages[packs] = iter(self._fetch(due, packs=packs))
        for number, scan in enumerate(scans):
            scan_pages = [next(pages[kinds[number]]) for _ in reads[number]]
            yield _Opening(scan, reads[number], scan_pages, archived.get(number))

    def _fetch(self, reads: Sequence[RangeRead], *, packs: bool = False) -> list[Page]:
        """Fetch the pages of some ranges. If the scanner is forgiving, the page of a missing table is empty."""
        if not reads:
            return []
        query = self._query
        answers = self._reader.store.query_many(
            reads,
            ascending=query.ascending,
            consistent=query.consistent,
            # Packs are read completely: DynamoDB cannot see the events in a pack.
            texts=query.projection.as_stored and not self._fields and not packs,
            fields=() if packs else self._fields,
        )
        pages: list[Page] = []
        for read, page in zip(reads, answers, strict=True):
            self.cost.add_page(page)
            if page is None:
                table = read.keys.table
                if not self._forgiving:
                    raise TableMissing(table)
                self.missing[table] = Gap.of_missing(self._entries[table], query.start, query.end)
                page = Page(Columns((), (), ()), more=False)
            if packs:
                self.cost.read += count_events(page) - page.read
            pages.append(page)
        return pages

    def _read_packs(self, scan: PackScan, opening: _Opening) -> Iterator[LiveBatch]:
        """Read the events of packs. Conditions that DynamoDB would filter by are checked here, after unpacking."""
        if not opening.reads:
            return
        query, demand, unpacker = self._query, self.demand, self._reader.unpacker
        names, names_of = scan.find_names_left(query), scan.entry.layout.names
        demand.filtered = names != ANY or bool(scan.conditions)

        def note_damaged(item: Item) -> None:
            gap = make_damaged_gap(scan, item)
            if gap is not None:
                self.damaged[scan.entry.table, item["pk"], item["sk"]] = gap

        walk = PackWalk(scan, unpacker.compressor, demand, note_damaged, ascending=query.ascending)
        for columns, reached in walk.read(opening.reads, opening.pages, partial(self._fetch, packs=True)):
            if names != ANY:
                columns = columns.where([names.hold(*names_of(*key)[1:]) for key in zip(*columns[:2], strict=True)])
            if scan.conditions or self._fields or not columns.are_text:
                columns = match_conditions(columns, scan, unpacker, self.cost, self._fields, self._note_lost(scan))
            if not query.projection.as_stored:
                columns = Columns.of(columns.items())
            yield LiveBatch(scan, columns, reached)

    def _read_live(self, scan: TableScan | IndexScan, opening: _Opening) -> Iterator[LiveBatch]:
        if not opening.reads:
            return
        query, demand = self._query, self.demand
        names, names_of = scan.find_names_left(query), scan.entry.layout.names
        demand.filtered = names != ANY or bool(scan.conditions)
        if isinstance(scan, GatherScan):
            fetch, check = self._fetch, self._check_gathering
            merged = gather(
                scan,
                opening.reads,
                opening.pages,
                fetch,
                names,
                ascending=query.ascending,
                check_time=lambda: check(scan),
            )
        else:
            of_series = not isinstance(scan, IndexScan) and bool(scan.series_ranges)
            merged = merge_ranges(
                opening.reads, opening.pages, self._fetch, demand, ascending=query.ascending, of_series=of_series
            )
        for entries, edge in merged:
            if names != ANY and not isinstance(scan, GatherScan):
                # AWS: a filter cannot use attributes of the primary key, and an event's names are only there.
                entries = [entry for entry in entries if names.hold(*names_of(entry[1], entry[2])[1:])]
            if isinstance(scan, IndexScan) and scan.fetches:
                # Data that an index does not hold is fetched only for as many events as are wanted.
                while len(entries) > demand.count:
                    # The table decides which of an event's two entries in the index is the present entry, so both are
                    # fetched at once.
                    cut = demand.count + (entries[demand.count][1:3] == entries[demand.count - 1][1:3])
                    batch, entries = entries[:cut], entries[cut:]
                    yield self._hydrate(scan, batch, scan.position_of(batch[-1][0], query.series))
            elif len(scan.partitions) > 1 or (isinstance(scan, IndexScan) and len(scan.heads) > 1):
                # For a moment, an index may hold an event twice: under its old value and under its new value.
                entries = list({entry[1:3]: entry for entry in entries}.values())
            yield self._hydrate(scan, entries, None if edge is None else scan.position_of(edge, query.series))

    def _check_gathering(self, scan: GatherScan) -> None:
        """Raise ProblemError if no time is left for more pages: an incomplete gathering has no answer."""
        if self._remaining() >= RESERVE:
            return
        levels = ", ".join(f"where.{field}" for field in scan.index.levels)
        detail = (
            f"the index {scan.index.name} holds more events of this value in {scan.entry.period.label} than an answer has time to"
            f" put in order: narrow from and to, or name all of its levels ({levels}), whose events are in order"
        )
        raise refuse(422, "too_much", detail)

    def _hydrate(self, scan: TableScan | IndexScan, entries: Sequence[Placed], reached: Position | None) -> LiveBatch:
        """Make a batch of the events that meet all conditions, completed with the data that the index lacks."""
        columns = Columns(*list(zip(*entries, strict=True))[1:]) if entries else Columns((), (), ())
        if isinstance(scan, IndexScan) and scan.fetches:
            store, consistent = self._reader.store, self._query.consistent
            columns = Columns.of(read_base_items(columns.items(), scan, store, self.cost, consistent=consistent))
        if not columns.are_text:
            unpacker, note_lost = self._reader.unpacker, self._note_lost(scan)
            columns = match_conditions(columns, scan, unpacker, self.cost, self._fields, note_lost)
        return LiveBatch(scan, columns, reached)

    def _note_lost(self, scan: LiveScan) -> Callable[[Item], None]:
        """Make a function that notes an event whose needed data cannot be read, as a gap at the event's time."""

        def note(item: Item) -> None:
            self.damaged[scan.entry.table, item["pk"], item["sk"]] = Gap.of_lost(scan.entry, item)

        return note

    def _read_page(self, keys: ArchiveRange) -> ArchivePage:
        """Read a page of an archive: call the function that reads it."""
        limit = _EVENTS_OF_FIELDS if self._fields else self.demand.count
        keys = replace(keys, fields=tuple(self._fields))
        return self._reader.archive.read(keys, limit=limit, ascending=self._query.ascending)

    def _read_archive(self, scan: ArchiveScan, first: ArchivePage, pool: Executor) -> Iterator[ArchiveBatch | TimeUp]:
        series = self._query.series
        coming = iter([first])

        def read(keys: ArchiveRange) -> ArchivePage | None:
            page = next(coming, None)
            return page or wait_for_page(pool.submit(self._read_page, keys), self._remaining)

        for page, reached in read_archive_pages(scan.keys, scan.entry.layout.across(series), read):
            position = None if reached is None else scan.position_of(reached, series)
            if page is None:
                yield TimeUp(position)
                return
            self.cost.requests += 1
            self.cost.read += page.read
            yield ArchiveBatch(scan, page, position if page.more else None)


def _make_first_reads(scan: Scan, count: int) -> list[RangeRead]:
    """Make the reads of the first page of each range of a scan; empty for an archive."""
    if isinstance(scan, ArchiveScan):
        return []
    if isinstance(scan, GatherScan):
        return make_first_gather_reads(scan)
    return make_first_pack_reads(scan, count) if isinstance(scan, PackScan) else make_first_reads(scan.ranges, count)
