"""Read events out of packs. The ranges of a scan are read in parallel.

Events are answered up to the position that all ranges have reached. Pages of the oldest events have a way of their own
(``oldest_first.py``). docs/decisions/0050 says when an event is settled. 0053 says how much is read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from math import ceil
from typing import Any

from tidetable.conditions import ANY
from tidetable.events import Item
from tidetable.forms.choose import choose_form
from tidetable.layout import Layout
from tidetable.layout.pack import is_pack
from tidetable.ports import Compressor, ItemColumns, Page, RangeRead
from tidetable.query.lookups import Lookup
from tidetable.query.merge import (
    LEAST_READ,
    Demand,
    Fetch,
    Merged,
    choose_waited,
    compute_share,
    merge_ranges,
)
from tidetable.query.model import Position, Query
from tidetable.query.packs.opening import PackOpener, find_oldest
from tidetable.query.packs.pending import PendingPacks
from tidetable.query.packs.scan import LEAST_PACKS, PackScan
from tidetable.query.session import PageKind, ReadPass, ReadSession
from tidetable.query.units import OutOfTime
from tidetable.times import MOMENT, TEXT_LENGTH, from_text, to_text

# An ascending walk holds at most this much before an event is settled: bytes of packs that are not opened yet, and
# opened events (800 bytes each).
_MOST_PENDING_BYTES, _MOST_UNSETTLED = 200_000_000, 400_000
# The packs that are read of all ranges together hold about this many bytes. An item takes more than its own bytes in
# memory. AWS: an eventually consistent read unit reads 8 KB.
_MOST_READ_BYTES, _BYTES_OF_OBJECTS, _UNIT_BYTES = 64_000_000, 400, 8_192


def count_fitting_packs(units: float, read: int, ranges: int) -> int:
    """Count the packs of each of some ranges that memory holds, from the units of the packs that were ``read`` before.

    A page costs a request, and its read units are rounded up. So pages are as long as memory allows. AWS: a page ends at
    1 MB, whatever its limit is.
    """
    pack_bytes = units * _UNIT_BYTES / max(read, 1) + _BYTES_OF_OBJECTS
    return max(int(_MOST_READ_BYTES / ranges / pack_bytes), LEAST_READ)


class PackWalk:
    """One pass over a scan's packs. A pack is opened only when it is needed.

    The next page is read only when the last page is used up. ``damaged`` says that a damaged pack may have held events
    of the scan; ``session`` gets its gap. ``stopped`` says that the walk ended before the scan's end, because the time
    was up, or because memory holds no more packs. Then all events up to ``position`` were yielded; it is None if the
    walk has not advanced.
    """

    def __init__(self, scan: PackScan, session: ReadSession, demand: Demand, *, ascending: bool) -> None:
        from tidetable.packs import Walk

        self._scan = scan
        self._opener = PackOpener(scan, session)
        self._form = choose_form(scan.entry.layout)
        self._demand = demand
        self._ascending = ascending
        self.damaged = self.stopped = False
        self.position: Position | None = None
        self._walk = Walk(span=self._form.span, ascending=ascending, low=scan.low, high=scan.high)
        self._pending = PendingPacks()
        # The instant up to which events are settled, and the same at the last page.
        self._reached = self._shown = scan.low if ascending else scan.high
        self._packs = self._events = self._read = 0
        self._units = 0.0
        self._stuck = False
        # The first pages are always used, so that a query with little time can advance.
        self._goes_on = False

    def read(
        self, reads: Sequence[RangeRead], pages: Sequence[Page], fetch: Fetch
    ) -> Iterator[tuple[ItemColumns, Position | None]]:
        """Yield the events in order, some at a time, each in its last accepted copy.

        Each time, yield also the position up to which all events are settled; None at the scan's end. ``pages`` answer
        the first ``reads``. An event is answered only when every suffix that may hold another copy has been read beyond
        the event.
        """

        def fetch_more(due: Sequence[RangeRead]) -> Sequence[Page]:
            self._goes_on = True
            self._check_limits()
            return self._count_packed(fetch(due))

        choose_due = partial(choose_waited, choose_limit=self._choose_limit)
        merged = merge_ranges(reads, self._count_packed(pages), fetch_more, choose_due, ascending=self._ascending)
        try:
            for _ in self._settle_packs(merged):
                yield self._make_page()
        except OutOfTime:
            if self._is_further:
                yield self._make_page()
            self.stopped = True
            return
        yield self._make_columns(), None

    def _settle_packs(self, merged: Iterable[Merged]) -> Iterator[None]:
        """Settle the events of packs, and yield when a page can be made of them."""
        for placed, edge in merged:
            self._stuck = True
            for sk, item in zip(placed.sks, placed.contents, strict=True):
                self._advance_to(sk[:TEXT_LENGTH])
                if self._walk.count >= self._demand.count:
                    yield
                self._check_limits()
                self._take_item(item)
            if edge is None:
                break
            self._advance_to(edge[:TEXT_LENGTH])
            if self._is_further:
                yield
        # No further pack comes, so the oldest event of all pending packs is the edge.
        while (oldest := self._pending.oldest) is not None:
            self._walk.settle_before(oldest)
            self._reached = max(self._reached, oldest)
            if self._walk.count >= self._demand.count and self._is_further:
                yield
            self._check_limits()
            self._open_item_of(self._pending.pop())
        self._walk.settle_all()

    def _advance_to(self, newest: str) -> None:
        """Settle the events that no later pack can hold; the newest event of every later pack has this time, or comes
        after it in the order of the walk.
        """
        if not self._ascending:
            self._reached = min(self._reached, _find_reached(self._walk.advance_to(newest)))
            return
        edge = self._walk.find_edge(newest)
        while (oldest := self._pending.oldest) is not None and oldest + "#" < edge:
            self._open_item_of(self._pending.pop())
        self._walk.settle_before(edge)
        self._reached = max(self._reached, _find_reached(edge))

    def _check_limits(self) -> None:
        """Raise OutOfTime if the time is up, or if memory holds no more packs."""
        if not self._goes_on:
            return
        if self._pending.bytes > _MOST_PENDING_BYTES or self._walk.unsettled > _MOST_UNSETTLED:
            raise OutOfTime
        self._opener.check_time(has_advanced=self._is_further or self.position is not None)

    def _count_packed(self, pages: Sequence[Page]) -> Sequence[Page]:
        """Return the pages, after counting their packs and the events in these packs."""
        self._packs += sum(len(page.columns.sks) for page in pages)
        self._events += sum(map(self._form.count_events, pages))
        self._read += sum(page.read for page in pages)
        self._units += sum(page.units for page in pages)
        return pages

    def _choose_limit(self, before: int, waiting: int, ranges: int) -> int:
        """Choose how many packs to read: an estimate from earlier packs for the missing events, and one more pack to
        settle the last event.

        With a filter, the number doubles. It also doubles while no event can be settled, because the walk is still
        within ``span`` of its beginning. In any case memory must hold the packs of all ranges.
        """
        most = count_fitting_packs(self._units, self._read, max(self._scan.count, 1))
        if self._demand.filtered or self._stuck:
            return min(2 * before, most)
        events = self._walk.count + self._walk.unsettled + self._pending.events
        missing_events = max(self._demand.count - events, 1)
        packs = ceil(missing_events * self._packs / max(self._events, 1)) + 1
        return min(compute_share(max(packs - waiting, LEAST_PACKS), ranges), most)

    def _take_item(self, item: Any) -> None:
        """Take an item if it may hold events of the scan. In an ascending walk, a pack waits until it is needed."""
        if not self._opener.may_hold(item):
            return
        oldest = find_oldest(item)
        if self._ascending and is_pack(item) and oldest:
            self._pending.add(item, oldest)
        else:
            self._open_item_of(item)

    def _open_item_of(self, item: Any) -> None:
        """Open an item and add its events to the walk."""
        opened = self._opener.open(item)
        if opened.problem is not None:
            self.damaged = True
            self._opener.note_damaged(item)
        self._walk.add_item(opened)

    @property
    def _is_further(self) -> bool:
        """True if the walk has advanced since the last page."""
        return self._reached > self._shown if self._ascending else self._reached < self._shown

    def _make_page(self) -> tuple[ItemColumns, Position]:
        self._stuck = False
        self._shown = self._reached
        self.position = Position(from_text(self._reached[:TEXT_LENGTH]))
        return self._make_columns(), self.position

    def _make_columns(self) -> ItemColumns:
        return self._opener.make_columns(self._walk.pop_settled())


def find_newest(
    scans: Sequence[tuple[PackScan, Sequence[str]]], session: ReadSession, *, consistent: bool
) -> Iterator[tuple[str, Lookup]]:
    """Find the newest event of each of the series with which a scan comes. The first packs of all scans of a period are
    read in parallel; a walk ends when the events of its series are found.

    Raises OutOfTime if the time is up before an event is known: then nobody knows if there is one.
    """
    entry, start, end = scans[0][0].entry, scans[0][0].start, scans[0][0].end
    query = Query(entry.stream, start, end, ANY, ascending=False, limit=1, consistent=consistent)
    work = ReadPass(query, session, Demand(1, filtered=False), entries={entry.table: entry})
    kind = PageKind(count=choose_form(entry.layout).count_events)

    def fetch(reads: Sequence[RangeRead]) -> list[Page]:
        return work.fetch(reads, kind, len(reads))

    reads = [scan.make_first_reads(1) for scan, _ in scans]
    pages = iter(fetch(list(chain(*reads))))
    for (scan, series), scan_reads in zip(scans, reads, strict=True):
        # A pack of several series may hold none of the wanted events: then each page is longer than the page before.
        walk = PackWalk(scan, session, Demand(1, filtered=bool(scan.series)), ascending=False)
        missing = set(series)
        for columns, _ in walk.read(scan_reads, list(islice(pages, len(scan_reads))), fetch):
            for name, item in _pick_newest(columns, missing, entry.layout):
                yield name, Lookup(item, walk.damaged)
            if not missing:
                break
        if walk.stopped:
            raise OutOfTime
        yield from ((name, Lookup(None, walk.damaged)) for name in series if name in missing)


def _pick_newest(columns: ItemColumns, missing: set[str], layout: Layout) -> Iterator[tuple[str, Item]]:
    """Yield the first event of each missing series, which then is not missing any more."""
    for number, (pk, sk) in enumerate(zip(columns.pks, columns.sks, strict=True)):
        series = layout.parse_names(pk, sk)[1]
        if series in missing:
            missing.remove(series)
            (item,) = ItemColumns([pk], [sk], [columns.contents[number]]).items()
            yield series, item


def find_event_in_pack(item: Item, place: str, layout: Layout, compressor: Compressor) -> Lookup:
    """Find an event in the pack that the event's ref names, as an item. ``place`` is the event's sort key."""
    from tidetable.packs import open_item

    opened = open_item(item, layout, compressor)
    number = bisect_left(opened.places, place)
    if opened.places[number : number + 1] != [place]:
        return Lookup(None, opened.problem is not None)
    columns = ItemColumns([opened.address], [place], [opened.values[number]])
    return Lookup(columns.items()[0], damaged=False)


def _find_reached(border: str) -> str:
    """Find the instant between the settled events and the others. A border lies after all events of its time."""
    return to_text(from_text(border[:TEXT_LENGTH]) + MOMENT)
