"""Read the scans of a plan, a few at a time. The ranges of a scan are read in parallel.

Events come in the order of the answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from datetime import datetime
from functools import partial
from itertools import groupby, islice
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from tidetable.catalog import Entry
from tidetable.conditions import ANY
from tidetable.errors import ArchiveBusy, TableMissing
from tidetable.forms.choose import choose_form
from tidetable.ports import ArchivePage, ArchiveRange, CatalogReader, ItemColumns, Page, RangeRead
from tidetable.problems import refuse_request
from tidetable.query.archives import ARCHIVES, read_archive_pages, wait_for_page
from tidetable.query.batches import ArchiveBatch, Batch, LiveBatch, TimeUp
from tidetable.query.gather import gather_events
from tidetable.query.hydrate import match_conditions, read_base_items
from tidetable.query.merge import Demand, Fetch, Placed, merge_ranges
from tidetable.query.model import Position, Query
from tidetable.query.packs.reader import PackReader
from tidetable.query.packs.scan import PackScan
from tidetable.query.scans import ArchiveScan, GatherScan, IndexScan, LiveScan, Scan, TableScan
from tidetable.query.session import ReadSession
from tidetable.query.waves import cut_reads, reads_in_waves

_Answer = TypeVar("_Answer")
# At most this many scans are begun at once.
AHEAD = 8
# At most this many ranges are begun at once. A single scan of many series may have more.
_RANGES = 512
# The events per page of an archive, if only some fields are needed: fields take less space than whole events, and each
# page of an archive costs a call of a function.
_EVENTS_OF_FIELDS = 50_000


def read_periods(
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
    reads: Sequence[RangeRead]
    pages: Sequence[Page]
    archived: Future[ArchivePage] | None


class Scanner:
    """One pass over the scans of a plan. ``session`` gets its cost, its gaps and its sources.

    ``demand`` says how many events are still wanted, at first ``count``. ``fields`` are the needed fields of data; an
    empty list means all fields.
    """

    def __init__(self, query: Query, session: ReadSession, *, count: int, fields: Sequence[str] = ()) -> None:
        self._query = query
        self._session = session
        self._fields = fields
        self._entries: dict[str, Entry] = {}
        self.demand = Demand(count, filtered=False)

    def read_scans(self, scans: Iterable[Scan]) -> Iterator[Batch]:
        """Read the events of the scans, in order.

        Scans are begun one at a time, then two, then four. So if the first scan fills the page, no other scan costs
        reads, but a long empty range does not take one step per scan.
        """
        session, openings = self._session, deque[_Opening]()
        coming, ahead, is_first = iter(scans), 1, True
        pool = session.reader.pools(ARCHIVES)
        try:
            while following := [openings[0].scan] if openings else list(islice(coming, ahead)):
                scan = following[0]
                edge = Position(scan.start if self._query.ascending else scan.end)
                if not (is_first or session.has_time):
                    yield TimeUp(edge)
                    return
                if not openings:
                    openings.extend(self._begin_scans(following, pool))
                    ahead = min(2 * ahead, AHEAD, max(_RANGES // max(scan.count, 1), 1))
                opening = openings.popleft()
                if isinstance(scan, ArchiveScan):
                    yield from self._read_archive(scan, opening, pool, None if is_first else edge)
                elif isinstance(scan, PackScan):
                    opened = PackReader(scan, self._query, session, self.demand, self._fields)
                    yield from opened.read(opening.reads, opening.pages, partial(self._fetch_pages, unpacks=True), edge)
                else:
                    yield from self._read_live(scan, opening)
                is_first = False
        finally:
            # A full page does not wait for reads that were begun ahead.
            pool.shutdown(wait=False, cancel_futures=True)

    def _begin_scans(self, scans: Sequence[Scan], pool: Executor) -> Iterator[_Opening]:
        """Begin some scans: read the first pages of all of them at the same time."""
        self._entries |= {scan.entry.table: scan.entry for scan in scans}
        archived = [
            pool.submit(self._read_page, scan.keys) if isinstance(scan, ArchiveScan) else None for scan in scans
        ]
        # Packs are read by requests of their own. The other scans of a range are before or after those of packs.
        for unpacks, group in groupby(zip(scans, archived, strict=True), lambda pair: pair[0].unpacks):
            begun = []
            for scan, reading in group:
                reads = scan.make_first_reads(self.demand.count)
                waits = unpacks and reads_in_waves(scan, self._query)
                begun.append((scan, reads, 0 if waits else len(reads), reading))
            due = [read for _, reads, count, _ in begun for read in reads[:count]]
            whole = any(isinstance(scan, GatherScan) for scan, *_ in begun)
            pages = iter(self._fetch_pages(due, unpacks=unpacks, ranges=0 if whole else len(due)))
            for scan, reads, count, reading in begun:
                yield _Opening(scan, reads, list(islice(pages, count)), reading)

    def _fetch_pages(self, reads: Sequence[RangeRead], *, unpacks: bool = False, ranges: int = 0) -> list[Page]:
        """Fetch the pages of some ranges. ``ranges`` are merged; 0 if the pages must be whole."""
        query, session, pages = self._query, self._session, list[Page]()
        form = choose_form(self._entries[reads[0].keys.table].layout) if unpacks and reads else None
        texts = query.projection.as_stored and not self._fields and not unpacks
        decoded = not (texts or self._fields or unpacks)
        for some in cut_reads(reads, pages, decoded=decoded, consistent=query.consistent, ranges=ranges):
            answers = session.reader.store.query_many(
                some,
                ascending=query.ascending,
                consistent=query.consistent,
                texts=texts,
                # Packs are read completely: DynamoDB cannot see the events in a pack.
                fields=() if unpacks else self._fields,
            )
            pages += [
                session.take_page(page, self._entries[keys.table], query.start, query.end, form)
                for (keys, _), page in zip(some, answers, strict=True)
            ]
        return pages

    def _read_live(self, scan: LiveScan, opening: _Opening) -> Iterator[LiveBatch]:
        query, (_, reads, pages, _) = self._query, opening
        fetch: Fetch = partial(self._fetch_pages, ranges=0 if isinstance(scan, GatherScan) else scan.count)
        self._session.note_source(scan)
        names, names_of = scan.find_names_left(query), scan.entry.layout.parse_names
        self.demand.filtered = names != ANY or bool(scan.conditions)
        if isinstance(scan, GatherScan):
            check_time = partial(self._check_gathering, scan)
            merged = gather_events(scan, reads, pages, fetch, names, ascending=query.ascending, check_time=check_time)
            names = ANY  # these events meet the names already
        else:
            of_series = isinstance(scan, TableScan) and bool(scan.series_ranges)
            merged = merge_ranges(
                reads, pages, fetch, self.demand.choose_limit, ascending=query.ascending, of_series=of_series
            )
        for entries, edge in merged:
            if names != ANY:
                # AWS: a filter cannot use attributes of the primary key, and an event's names are only there.
                entries = [entry for entry in entries if names.hold(*names_of(entry[1], entry[2])[1:])]
            fetches = isinstance(scan, IndexScan) and scan.fetches
            if not fetches and (len(scan.partitions) > 1 or (isinstance(scan, IndexScan) and len(scan.heads) > 1)):
                # For a moment, an index may hold an event twice: under its old value and under its new value.
                entries = list({entry[1:3]: entry for entry in entries}.values())
            for some, last in self._cut_entries(entries, edge) if fetches else [(entries, edge)]:
                columns = ItemColumns(*list(zip(*some, strict=True))[1:]) if some else ItemColumns((), (), ())
                yield self._make_batch(scan, columns, None if last is None else scan.find_position(last, query.series))

    def _cut_entries(
        self, entries: Sequence[Placed], edge: str | None
    ) -> Iterator[tuple[Sequence[Placed], str | None]]:
        """Cut entries into as many as are wanted: data that an index does not hold is fetched only for these."""
        while len(entries) > (count := self.demand.count):
            # The table decides which of an event's two entries in the index is the present entry, so both are fetched
            # at once.
            count += entries[count][1:3] == entries[count - 1][1:3]
            yield entries[:count], entries[count - 1][0]
            entries = entries[count:]
        yield entries, edge

    def _check_gathering(self, scan: GatherScan) -> None:
        """Raise ProblemError if no time is left for more pages: an incomplete gathering has no answer."""
        if self._session.has_time:
            return
        levels = ", ".join(f"where.{field}" for field in scan.index.levels)
        detail = (
            f"the index {scan.index.name} holds more events of this value in {scan.entry.period.label} than an answer has time to"
            f" put in order: narrow from and to, or name all of its levels ({levels}), whose events are in order"
        )
        raise refuse_request(422, "too_much", detail)

    def _make_batch(self, scan: LiveScan, columns: ItemColumns, reached: Position | None) -> LiveBatch:
        """Make a batch of the events that meet all conditions, completed with the data that the index lacks."""
        query, session = self._query, self._session
        if isinstance(scan, IndexScan) and scan.fetches:
            columns = ItemColumns.of(read_base_items(columns.items(), scan, session, consistent=query.consistent))
        if not columns.are_text:
            columns = match_conditions(columns, scan, session, self._fields)
        return LiveBatch(scan, columns, reached)

    def _read_page(self, keys: ArchiveRange) -> ArchivePage:
        """Read a page of an archive: call the function that reads it."""
        limit = _EVENTS_OF_FIELDS if self._fields else self.demand.count
        keys = replace(keys, fields=tuple(self._fields))
        return self._session.reader.archive.read(keys, limit=limit, ascending=self._query.ascending)

    def _read_archive(
        self, scan: ArchiveScan, opening: _Opening, pool: Executor, edge: Position | None
    ) -> Iterator[ArchiveBatch | TimeUp]:
        """Read the pages of an archive. If the first page is slow, the range was read up to ``edge``.

        Raises ArchiveBusy if ``edge`` is None, because then nothing was read before.
        """
        series, session, reading = self._query.series, self._session, iter([opening.archived])

        def read(keys: ArchiveRange) -> ArchivePage | None:
            page = next(reading, None) or pool.submit(self._read_page, keys)
            return wait_for_page(page, session.remaining)

        for page, reached in read_archive_pages(scan.keys, scan.entry.layout.find_ordering_layout(series), read):
            position = None if reached is None else scan.find_position(reached, series)
            if page is None:
                if edge is None:
                    raise ArchiveBusy(f"the archive of {scan.entry.period.label} is slow")
                yield TimeUp(edge)
                return
            session.note_source(scan)
            session.cost.requests += 1
            session.cost.read += page.read
            yield ArchiveBatch(scan, page, position if page.more else None)
            edge = position or edge
