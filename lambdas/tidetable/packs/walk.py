"""The threshold walk: it takes packs in the order of their newest events, and gives the settled events in order.

An event is settled when no copy of it can come any more. An event of time t lies only in packs whose newest event is in
[t, t + span). In a walk from the newest pack on, every event newer than the next pack's newest event is settled. In a
walk from the oldest pack on, every event that is at least ``span`` older than the next pack's newest event is settled.
Like every generator, a walk reads no further than its caller asks for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, timedelta
from itertools import repeat
from typing import NamedTuple

from tidetable.events import Item
from tidetable.packs.items import OpenedItem
from tidetable.times import from_text, to_text

# Sorts after the "#" that follows the time in a place, and before every later time.
_AFTER = "$"


class Settled(NamedTuple):
    """The copy of an event that counts: the time when it was accepted, its pack's hash, its address, and its data (see
    Opened).
    """

    at: int
    hash: str
    address: str
    value: str | Item


class WalkedRun(NamedTuple):
    """Events in the order of the walk, as columns, and the problems of the damaged packs between them."""

    places: Sequence[str]
    copies: Sequence[Settled]
    problems: Sequence[str] = ()


class Walk:
    """Collects the events with ``low <= place < high`` of one logical partition, each once, while their items arrive.

    The caller has the items of all suffixes, merged in the order of their newest times, in the walk's direction; items
    of the same time may come in any order. ``advance_to`` announces the next item's newest time, ``add_item`` adds an item,
    and ``pop_settled`` returns the events that were settled since the last call. If an event has several copies, the copy that
    was accepted last counts; if several were accepted at the same time, the copy in the pack with the greatest hash.
    ``span`` is in seconds.
    """

    def __init__(self, *, span: int, ascending: bool, low: str = "", high: str = "~") -> None:
        self._length = timedelta(seconds=span)
        self._ascending = ascending
        self._low = low
        self._high = high
        self._held: dict[str, Settled] = {}
        self._order: list[str] = []
        self._places: list[str] = []
        self._copies: list[Settled] = []
        self._problems: list[str] = []

    @property
    def count(self) -> int:
        """The number of settled events that ``pop_settled`` has not returned yet."""
        return len(self._places)

    @property
    def unsettled(self) -> int:
        """The number of events that wait, because another copy of them may still come."""
        return len(self._order)

    def advance_to(self, newest: str) -> str:
        """Settle events.

        Every later item has the newest time ``newest``, or a time after it in the direction of the walk. Return the
        edge: the place between the settled and the other events. In a descending walk every event after the edge is
        settled, in an ascending walk every event before it.
        """
        if self._ascending:
            edge = self.find_edge(newest)
            self.settle_before(edge)
            return edge
        edge = newest + _AFTER
        cut = bisect_left(self._order, edge)
        ready, self._order = self._order[cut:][::-1], self._order[:cut]
        self._settle_events(ready)
        return edge

    def find_edge(self, newest: str) -> str:
        """Find the edge of an ascending walk whose later items all have the newest time ``newest``, or a later time."""
        # The place may lie before 1970: then no event is settled, not even an event of the first instant of 1970.
        return to_text(from_text(newest).astimezone(UTC) - self._length) + _AFTER

    def settle_before(self, edge: str) -> None:
        """Settle the events before a place: the caller of an ascending walk knows that no item has more of them."""
        cut = bisect_left(self._order, edge)
        ready, self._order = self._order[:cut], self._order[cut:]
        self._settle_events(ready)

    def add_item(self, item: OpenedItem) -> None:
        """Add an item's events."""
        if item.problem is not None:
            self._problems.append(item.problem)
        start, end = bisect_left(item.places, self._low), bisect_left(item.places, self._high)
        if start >= end:
            return
        places, values = item.places[start:end], item.values[start:end]
        ats = item.ats[start:end] if item.ats is not None else repeat(item.at, end - start)
        copies = dict(zip(places, map(Settled, ats, repeat(item.hash), repeat(item.address), values), strict=False))
        both = self._held.keys() & copies.keys() if self._held else ()
        for place in both:
            if self._held[place][:2] > copies[place][:2]:
                del copies[place]
        self._held |= copies
        in_order = not self._order or self._order[-1] < places[0]
        self._order += [place for place in places if place not in both] if both else places
        if not in_order:
            # Both lists are sorted already, and Python's sort merges sorted runs fast.
            self._order.sort()

    def settle_all(self) -> None:
        """Settle all events, because no further item comes."""
        ready, self._order = self._order if self._ascending else self._order[::-1], []
        self._settle_events(ready)

    def pop_settled(self) -> WalkedRun:
        """Return the events that were settled since the last call."""
        run = WalkedRun(self._places, self._copies, self._problems)
        self._places, self._copies, self._problems = [], [], []
        return run

    def _settle_events(self, ready: Sequence[str]) -> None:
        if ready:
            self._copies += list(map(self._held.pop, ready))
            self._places += ready


def walk_packs(
    items: Iterable[OpenedItem], *, span: int, ascending: bool, low: str = "", high: str = "~"
) -> Iterator[WalkedRun]:
    """Yield the runs of a ``Walk`` over all items of a ``find_key_range``. No item is read before it is needed."""
    walked = Walk(span=span, ascending=ascending, low=low, high=high)
    for item in items:
        edge = walked.advance_to(item.newest)
        if walked.count:
            yield walked.pop_settled()
        if not ascending and edge <= low:
            # This pack and all packs after it hold only events before ``low``.
            break
        walked.add_item(item)
    walked.settle_all()
    run = walked.pop_settled()
    if run.places or run.problems:
        yield run
