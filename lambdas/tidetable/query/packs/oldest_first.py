"""Read the oldest events of a scan of packs: a page in ascending order.

An event of time t lies in packs whose newest event is in [t, t + span). So the packs of [from, t + span) are read, where
t is the time of the last event of the page. As soon as enough events are known, t can only become earlier. Then the
range ends at t + span, and DynamoDB leaves out the packs whose oldest event comes after t. Only the events that can
still be in the page are in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tidetable.events import Item
from tidetable.forms.choose import choose_form
from tidetable.layout.pack import shift_time
from tidetable.ports import ItemColumns, Page, RangeRead
from tidetable.query.merge import Demand, Fetch, compute_share
from tidetable.query.model import Position
from tidetable.query.packs.opening import PackOpener, find_oldest
from tidetable.query.packs.scan import PackScan
from tidetable.query.ranges import RangeProgress
from tidetable.query.session import ReadSession
from tidetable.query.units import OutOfTime
from tidetable.query.waves import AT_ONCE, measure_item
from tidetable.times import MOMENT, TEXT_LENGTH, from_text, to_text

if TYPE_CHECKING:
    from tidetable.packs import FirstEvents

# The events of a page take at most this many bytes of memory. An answer has 5 MB at most.
_MOST_BYTES = 16 * 1024 * 1024
# AWS: a page ends at 1 MB. Each read of a wave holds that at most.
_WHOLE_PAGE = 1_000_000
# A read of each range takes at least this many packs: the second shows if the first ends the page.
_LEAST = 2


class OldestFirst:
    """Reads the oldest events of a scan, ``demand.count`` at a time. Each time is a pass of its own.

    ``holds`` decides by the names of an event (time, series, id) if it is wanted; None if every event is. ``stopped``
    says that the reading ended before the scan's end, because the time was up. Then all events up to ``position`` were
    yielded; it is None if no event could be settled.
    """

    def __init__(
        self,
        scan: PackScan,
        session: ReadSession,
        demand: Demand,
        holds: Callable[[str, str], bool] | None,
    ) -> None:
        self._scan = scan
        self._demand = demand
        self._opener = PackOpener(scan, session)
        self._holds = self._make_holds(holds)
        self._span = choose_form(scan.entry.layout).span
        self._low = scan.low
        self.stopped = False
        self.position: Position | None = None
        self._begin_pass()

    def _make_holds(self, holds: Callable[[str, str], bool] | None) -> Callable[[str, str], bool] | None:
        read_names = self._opener.read_names
        return None if holds is None else lambda address, place: holds(*read_names(address, place)[1:])

    def _begin_pass(self) -> None:
        from tidetable.packs import FirstEvents

        self._first: FirstEvents = FirstEvents(
            max(self._demand.count, 1),
            low=self._low,
            high=self._scan.high,
            holds=self._holds,
            measure_item=measure_item,
            most_bytes=_MOST_BYTES,
        )
        self._damaged: list[Item] = []
        self._packs = self._opener.taken = 0

    def read(
        self, reads: Sequence[RangeRead], pages: Sequence[Page], fetch: Fetch
    ) -> Iterator[tuple[ItemColumns, Position | None]]:
        """Yield the events in order, each in its last accepted copy, with the position up to which all were yielded;
        None at the scan's end.

        ``pages`` answer the first ``reads``, and are used whatever time is left. Without pages, the reads are still to be
        done.
        """
        unread = [RangeProgress(*read) for read in reads]
        if pages:
            unread = self._take_pages(unread, pages, lambda: None)
        while True:
            try:
                self._collect(unread, fetch)
            except OutOfTime:
                self.stopped = True
                yield from self._settle_some()
                return
            last = self._first.last
            if last is None:
                yield self._settle(None), None
                return
            self.position = self._opener.find_position(last)
            yield self._settle(f"{last}\0"), self.position
            self._low = f"{last}\0"
            self._begin_pass()
            unread = [RangeProgress(replace(keys, low=last[:TEXT_LENGTH]), _LEAST) for keys in self._scan.ranges]

    def _collect(self, unread: list[RangeProgress], fetch: Fetch) -> None:
        """Read the ranges to their end, or to the last pack that may hold an event of the page."""
        while unread := self._narrow(unread):
            self._unread = unread
            self._check_time()
            some = unread[:AT_ONCE]
            following = self._take_pages(some, fetch([reading.next_read for reading in some]), self._check_time)
            # The other ranges are read next, so that all ranges advance together.
            unread = unread[AT_ONCE:] + following

    def _narrow(self, unread: Sequence[RangeProgress]) -> list[RangeProgress]:
        """Narrow the ranges to the packs that may hold an event of the page."""
        last = self._first.last
        if last is None:
            limit = self._choose_limit(len(unread))
            for reading in unread:
                reading.limit = reading.limit if reading.edge is None else limit
            return list(unread)
        after_last = to_text(from_text(last[:TEXT_LENGTH]) + MOMENT)
        end = shift_time(after_last, self._span)
        for reading in unread:
            high = min(str(reading.keys.high), end)
            reading.keys, reading.limit = replace(reading.keys, high=high, skip_oldest=(after_last, high)), _WHOLE_PAGE
        return [reading for reading in unread if _find_newest(reading) < str(reading.keys.high)]

    def _choose_limit(self, ranges: int) -> int:
        """Choose how many packs of each range to read: an estimate from the packs before, but at most twice as many."""
        known, most = len(self._first), 2 * max(self._packs, 1)
        missing = max(self._demand.count, 1) - known
        packs = min(ceil(missing * self._packs / known) + 1, most) if known else most
        return max(compute_share(packs, max(ranges, 1)), _LEAST)

    def _take_pages(
        self, ranges: Sequence[RangeProgress], pages: Sequence[Page], check_time: Callable[[], None]
    ) -> list[RangeProgress]:
        """Open the packs of pages that may hold an event of the page, the oldest first; return the ranges that go on."""
        items = [item for page in pages for item in page.items if self._opener.may_hold(item)]
        self._packs += len(items)
        # DynamoDB has left out some packs that it read.
        self._opener.taken += sum(page.read - len(page.columns.sks) for page in pages)
        for oldest, number in sorted((find_oldest(item), number) for number, item in enumerate(items)):
            last = self._first.last
            if last is not None and oldest > last:
                break
            check_time()
            opened = self._opener.open(items[number])
            if opened.problem is not None:
                self._damaged.append(items[number])
            self._first.add_item(opened)
        for reading, page in zip(ranges, pages, strict=True):
            reading.advance(page)
        return [reading for reading in ranges if reading.more]

    def _check_time(self) -> None:
        """Raise OutOfTime if the time is up, and events are settled or enough packs were taken anyway."""
        self._opener.check_time(has_advanced=self.position is not None or self._find_reached() > self._low)

    def _find_reached(self) -> str:
        """Find the instant before which all events are settled: every range was read one ``span`` beyond it."""
        newest = min(_find_newest(reading)[:TEXT_LENGTH] for reading in self._unread)
        # Later packs may have the same newest time, and hold events that are less than ``span`` older.
        return to_text(from_text(newest) - timedelta(seconds=self._span) + MOMENT)

    def _settle_some(self) -> Iterator[tuple[ItemColumns, Position]]:
        """Yield the events that are settled when the time is up."""
        reached, last = self._find_reached(), self._first.last
        if last is not None and last < reached:
            self.position = self._opener.find_position(last)
            yield self._settle(f"{last}\0"), self.position
        elif reached > self._low:
            self.position = Position(from_text(reached))
            yield self._settle(reached), self.position

    def _settle(self, end: str | None) -> ItemColumns:
        """Return the events before the place ``end``, and note the damaged packs that may have held some of them."""
        for item in self._damaged:
            oldest = find_oldest(item)
            if end is None or not oldest or oldest < end:
                self._opener.note_damaged(item)
        return self._opener.make_columns(self._first.list_events(end))


def _find_newest(reading: RangeProgress) -> str:
    """Return the sort key up to which a range was read: the newest events of later packs do not come before it."""
    return str(reading.keys.low) if reading.edge is None else str(reading.edge)
