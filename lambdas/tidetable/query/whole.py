"""Read all events of a range, in any order: for aggregates, listings and rollups.

Pages are as long as DynamoDB makes them (AWS: 1 MB), at most ``PAGES`` at once. Each page becomes columns of the needed
fields before the next is read, so memory holds few pages, and requests and read units do not grow with the number of
shards, except for the last page of each. Copies of an event meet within a unit of settling (``forms/``).

The range of each shard is read in the order of time, and the range that is behind the others is read next. So there is
always an instant before which everything was read: if the time is up, an answer ends there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from datetime import datetime
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import chain, groupby
from typing import NamedTuple

from tidetable.conditions import ANY, NameConditions
from tidetable.errors import ArchiveBusy
from tidetable.forms.choose import choose_form
from tidetable.forms.field_columns import DATA, KINDS, FieldColumns
from tidetable.ports import ArchiveColumns, FieldPage, Page, WholeRange
from tidetable.query.archives import ARCHIVES, read_archive_pages, wait_for_pages
from tidetable.query.batches import TimeUp
from tidetable.query.model import Position, Query
from tidetable.query.readings import choose_reading
from tidetable.query.scans import ArchiveScan, LiveScan, Scan
from tidetable.query.session import ReadSession
from tidetable.query.units import NO_EVENTS, OutOfTime, Patience, RangeState, ReadUnit, begin_ranges
from tidetable.times import from_text, to_text

# At most this many pages are read at once. A page that is decoded into objects takes 15 MB.
PAGES = 16


def make_query(stream: str, start: datetime, end: datetime, names: NameConditions = ANY) -> Query:
    """Make a strongly consistent query for all events of a stream in a range."""
    return Query(stream, start, end, names, ascending=True, limit=0, consistent=True)


class WholeBatch(NamedTuple):
    """Some events of a scan, in any order. All events before ``reached`` are in this batch or in earlier batches."""

    scan: Scan
    columns: FieldColumns
    reached: datetime


class WholeReader:
    """One pass over scans, which are in the order of time. ``fields`` are the needed fields of data, or ``DATA``.

    Without ``ids``, events of archives have none.
    """

    def __init__(self, query: Query, session: ReadSession, fields: Sequence[str], *, ids: bool = True) -> None:
        self._query = query
        self._session = session
        self._fields = tuple(fields)
        self._ids = ids
        self._patience = Patience(session)

    def read(self, scans: Iterable[Scan]) -> Iterator[WholeBatch | TimeUp]:
        """Yield all events of the scans. If the time is up, the last value is TimeUp."""
        is_first = True
        for group in _group_scans(scans):
            if not (is_first or self._session.has_time):
                yield TimeUp(Position(group[0].start))
                return
            if isinstance(group[0], ArchiveScan):
                batches = self._read_archives([scan for scan in group if isinstance(scan, ArchiveScan)], is_first)
            else:
                batches = self._read_live([scan for scan in group if not isinstance(scan, ArchiveScan)])
            is_first = False
            for batch in batches:
                yield batch
                if isinstance(batch, TimeUp):
                    return

    def _read_live(self, scans: Sequence[LiveScan]) -> Iterator[WholeBatch | TimeUp]:
        units = deque(
            choose_reading(scan.entry.layout).begin_unit(scan, self._query, self._session, self._fields, self._patience)
            for scan in scans
        )
        # A range with an earlier edge comes first; the number makes the order of equal edges certain.
        heap = [
            (state.edge, number, state) for number, state in enumerate(chain.from_iterable(map(begin_ranges, units)))
        ]
        heapify(heap)
        reached = scans[0].start
        try:
            while units:
                due = [heappop(heap) for _ in range(min(PAGES, len(heap)))]
                self._patience.begin_wave()
                for unit, columns in self._read_pages([state for *_, state in due]):
                    yield WholeBatch(unit.scan, columns, reached)
                    self._patience.look()
                for _, number, state in due:
                    if state.more:
                        heappush(heap, (state.edge, number, state))
                for scan, columns, at in _settle_units(units, heap[0][0] if heap else None):
                    reached = max(reached, at or reached)
                    yield WholeBatch(scan, columns, reached)
        except OutOfTime:
            yield TimeUp(Position(reached))

    def _read_pages(self, states: Sequence[RangeState]) -> Iterator[tuple[ReadUnit, FieldColumns]]:
        """Read a page of each range, and yield the events that are settled with it."""
        query, session, store = self._query, self._session, self._session.reader.store
        for kind, group in groupby(states, lambda state: state.unit.kind):
            some = list(group)
            reads = [state.next_read for state in some]
            answers: Sequence[FieldPage | Page | None]
            if kind.as_columns:
                answers = store.query_fields(reads, self._fields, consistent=query.consistent)
            else:
                answers = store.query_many(
                    reads, ascending=True, consistent=query.consistent, texts=kind.texts, fields=kind.fields
                )
            pages = deque(answers)
            del answers
            for state in some:
                unit, entry = state.unit, state.unit.scan.entry
                session.note_source(unit.scan)
                count = choose_form(entry.layout).count_events
                page = session.take_page(pages.popleft(), entry, query.start, query.end, count)
                yield from ((unit, columns) for columns in unit.take(state, page))
                state.advance(page)

    def _read_archives(self, scans: Sequence[ArchiveScan], is_first: bool) -> Iterator[WholeBatch | TimeUp]:
        """Read archives, some at the same time. Raises ArchiveBusy if the first page of the whole read is slow."""
        session, pool = self._session, self._session.reader.pools(ARCHIVES)
        begun: deque[Future[ArchiveColumns]] = deque()
        try:
            for number, scan in enumerate(scans):
                if number and not session.has_time:
                    yield TimeUp(Position(scan.start))
                    return
                for following in scans[number + len(begun) : number + ARCHIVES]:
                    begun.append(pool.submit(session.reader.archive.read_whole, self._make_range(following)))
                edge = None if is_first and not number else scan.start
                for batch in self._read_archive(scan, begun.popleft(), pool, edge):
                    yield batch
                    if isinstance(batch, TimeUp):
                        return
        finally:
            # A full page does not wait for reads that were begun ahead.
            pool.shutdown(wait=False, cancel_futures=True)

    def _read_archive(
        self, scan: ArchiveScan, first: Future[ArchiveColumns], pool: Executor, edge: datetime | None
    ) -> Iterator[WholeBatch | TimeUp]:
        """Read the pages of an archive. If its first page is slow, the range was read up to ``edge``."""
        session = self._session
        read = session.reader.archive.read_whole
        wait = wait_for_pages(first, lambda keys: pool.submit(read, keys), session.remaining)
        for page in read_archive_pages(self._make_range(scan), wait):
            if page is None:
                if edge is None:
                    raise ArchiveBusy(f"the archive of {scan.entry.period.label} is slow")
                yield TimeUp(Position(edge))
                return
            session.count_archive(scan, page.read)
            edge = scan.end if page.reached is None else from_text(page.reached)
            yield WholeBatch(scan, FieldColumns(page.times, page.series, page.values, partial(list, page.ids)), edge)
            if page.reached is not None and not session.has_time:
                yield TimeUp(Position(edge))
                return

    def _make_range(self, scan: ArchiveScan) -> WholeRange:
        query, after = self._query, self._query.after
        start = scan.start if after is None else max(scan.start, after.time)
        names, conditions = query.names, query.conditions
        times = to_text(start), to_text(scan.end)
        fields = (DATA,) if KINDS in self._fields else self._fields
        return WholeRange(scan.keys.manifest, *times, fields, self._ids, names, conditions)


def _group_scans(scans: Iterable[Scan]) -> Iterator[list[Scan]]:
    """Group scans that are read at the same time: archives, or so many others that ``PAGES`` ranges can be read."""
    group: list[Scan] = []
    count = 0
    for scan in scans:
        archived = isinstance(scan, ArchiveScan)
        if group and (count >= PAGES or archived is not isinstance(group[0], ArchiveScan)):
            yield group
            group, count = [], 0
        group.append(scan)
        count += 1 if archived else scan.count
    if group:
        yield group


def _settle_units(units: deque[ReadUnit], edge: str | None) -> Iterator[tuple[Scan, FieldColumns, datetime | None]]:
    """Settle what can be settled when all ranges were read up to ``edge``, and take out the units that are complete."""
    while units:
        unit = units[0]
        for columns, at in unit.settle(edge if unit.unread else None):
            yield unit.scan, columns, at
        if unit.unread:
            yield unit.scan, NO_EVENTS, unit.find_reached(edge or "")
            return
        yield unit.scan, NO_EVENTS, unit.scan.end
        units.popleft()
