"""Read the scans of a plan, a few at a time. The ranges of a scan are read in parallel.

Events come in the order of the answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from itertools import islice
from typing import ClassVar, TypeVar

import msgspec

from tidetable.errors import ArchiveBusy, TableMissing
from tidetable.ports import ArchivePage, ArchiveRange, Page, RangeRead
from tidetable.query.archives import ARCHIVES, read_archive_pages, wait_for_pages
from tidetable.query.batches import RowsBatch, TimeUp
from tidetable.query.earlier import make_archive_rows
from tidetable.query.model import Position
from tidetable.query.readings import ScanReader, choose_reading
from tidetable.query.rows import Rows
from tidetable.query.scans import ArchiveScan, Scan
from tidetable.query.session import PageKind, ReadPass

_Answer = TypeVar("_Answer")
_Entries = TypeVar("_Entries")
# At most this many scans are begun at once.
AHEAD = 8
# At most this many ranges are begun at once. A single scan of many series may have more.
_RANGES = 512


def read_again(
    find_entries: Callable[..., _Entries], read: Callable[[_Entries, bool], _Answer], *, consistent: bool
) -> _Answer:
    """Call ``read`` with the catalog's entries, or a plan over them, which ``find_entries`` reads.

    If a table disappears meanwhile, read the entries anew and call ``read`` again. The table may just have been
    archived: a consistent read of the catalog shows this. The second call has the argument True; then ``read`` leaves a
    gap for a table that is still missing. Raises TableMissing if a table disappears during the second call.
    """
    try:
        return read(find_entries(consistent=consistent), False)
    except TableMissing:
        return read(find_entries(consistent=True), True)


def read_scans(work: ReadPass, scans: Iterable[Scan]) -> Iterator[RowsBatch | TimeUp]:
    """Read the events of the scans of a plan, in the order of the answer.

    Scans are begun one at a time, then two, then four. So if the first scan fills the page, no other scan costs reads,
    but a long empty range does not take one step per scan.
    """
    query, session = work.query, work.session
    begun = deque[tuple[Scan, ScanReader, Sequence[Page]]]()
    coming, ahead = iter(scans), 1
    pool = session.reader.pools(ARCHIVES)
    try:
        while following := [begun[0][0]] if begun else list(islice(coming, ahead)):
            scan = following[0]
            edge = Position(scan.start if query.ascending else scan.end)
            if work.has_advanced and not session.has_time:
                yield TimeUp(edge)
                return
            if not begun:
                begun.extend(_begin_scans(work, following, pool))
                ahead = min(2 * ahead, AHEAD, max(_RANGES // max(scan.count, 1), 1))
            _, reader, pages = begun.popleft()
            yield from reader.read(pages, edge)
            work.has_advanced = True
    finally:
        # A full page does not wait for reads that were begun ahead.
        pool.shutdown(wait=False, cancel_futures=True)


def _begin_scans(
    work: ReadPass, scans: Sequence[Scan], pool: Executor
) -> Iterator[tuple[Scan, ScanReader, Sequence[Page]]]:
    """Begin some scans: read the first pages of all of them at the same time."""
    readers: list[ScanReader] = []
    due: dict[PageKind, list[RangeRead]] = {}
    for scan in scans:
        reader: ScanReader
        if isinstance(scan, ArchiveScan):
            begin = partial(_begin_archive_page, work, pool)
            reader = _ArchiveReader(scan, work, wait_for_pages(begin(scan.keys), begin, work.session.remaining))
        else:
            work.entries[scan.entry.table] = scan.entry
            reader = choose_reading(scan.entry.layout).begin(scan, work)
        due.setdefault(reader.kind, []).extend(reader.reads)
        readers.append(reader)
    pages = {kind: iter(work.fetch(reads, kind, 0 if kind.whole else len(reads))) for kind, reads in due.items()}
    for scan, reader in zip(scans, readers, strict=True):
        yield scan, reader, list(islice(pages[reader.kind], len(reader.reads)))


def _begin_archive_page(work: ReadPass, pool: Executor, keys: ArchiveRange) -> Future[ArchivePage]:
    """Begin to read a page of an archive: call the function that reads it."""
    ascending = work.query.ascending
    return pool.submit(work.session.reader.archive.read, keys, limit=work.demand.count, ascending=ascending)


class _ArchiveReader(msgspec.Struct):
    """Reads the archive of a period, which has no key ranges. Its first page is read while other scans begin."""

    scan: ArchiveScan
    work: ReadPass
    wait: Callable[[ArchiveRange], ArchivePage | None]
    kind: ClassVar[PageKind] = PageKind()
    reads: ClassVar[Sequence[RangeRead]] = ()

    def read(self, pages: Sequence[Page], edge: Position) -> Iterator[RowsBatch | TimeUp]:  # noqa: ARG002 - see ScanReader
        """Read the pages of an archive. If the first page is slow, the range was read up to ``edge``.

        Raises ArchiveBusy if nothing was read before.
        """
        scan, work = self.scan, self.work
        for page in read_archive_pages(scan.keys, self.wait):
            if page is None:
                if not work.has_advanced:
                    raise ArchiveBusy(f"the archive of {scan.entry.period.label} is slow")
                yield TimeUp(edge)
                return
            work.session.count_archive(scan, page.read)
            position = None if page.reached is None else scan.find_position(page.reached, work.query.series)
            rows = make_archive_rows(page, scan.entry, work.query.projection)
            yield RowsBatch([Rows.of_rows(rows, scan.entry)], position)
            edge, work.has_advanced = position or edge, True
