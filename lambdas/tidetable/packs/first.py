"""The first events of a range, from packs that come in any order.

A walk in the order of time (``walk.py``) holds every event that is not settled yet. For a page of the oldest events,
that would be the events of one ``span``. This module keeps only the events that can still be in the page.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import repeat

from tidetable.events import Item
from tidetable.packs.items import OpenedItem
from tidetable.packs.walk import Settled, WalkedRun

# The bytes that an event takes as objects of Python, besides its text (measured).
_EVENT_BYTES = 600


class FirstEvents:
    """Keeps the first ``count`` events with ``low <= place < high`` of one logical partition, each once.

    Items come in any order. Of several copies of an event, the copy that was accepted last counts; if several were
    accepted at the same time, the copy in the pack with the greatest hash. ``holds`` decides by an event's address and
    place if the event is wanted; None if every event is. All copies of an event have the same place, so an unwanted
    event never counts. ``measure_item`` returns the bytes of a value that is an item. If the events take more than
    ``most_bytes``, fewer than ``count`` are kept, but always one.
    """

    def __init__(
        self,
        count: int,
        *,
        low: str,
        high: str,
        holds: Callable[[str, str], bool] | None,
        measure_item: Callable[[Item], int],
        most_bytes: int,
    ) -> None:
        self._count = count
        self._low = low
        self._high = high
        self._holds = holds
        self._measure_item = measure_item
        self._most_bytes = most_bytes
        self._copies: dict[str, Settled] = {}
        self._order: list[str] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._order)

    @property
    def last(self) -> str | None:
        """The place of the last event if no more are kept: no event after it can be among the first; else None."""
        return self._order[-1] if len(self._order) >= self._count else None

    def add_item(self, item: OpenedItem) -> None:
        """Add an item's events that can be among the first."""
        last = self.last
        start = bisect_left(item.places, self._low)
        end = bisect_left(item.places, self._high if last is None else f"{last}\0", start)
        if start >= end:
            return
        ats = item.ats[start:end] if item.ats is not None else repeat(item.at, end - start)
        copies = dict(
            zip(
                item.places[start:end],
                map(Settled, ats, repeat(item.hash), repeat(item.address), item.values[start:end]),
                strict=False,
            )
        )
        if self._holds is not None:
            copies = {place: copy for place, copy in copies.items() if self._holds(copy.address, place)}
        for place in self._copies.keys() & copies.keys():
            if self._copies[place][:2] > copies[place][:2]:
                del copies[place]
            else:
                self._bytes -= self._measure(self._copies[place])
        # Both parts are sorted already, and Python's sort merges sorted runs fast.
        self._order += [place for place in copies if place not in self._copies]
        self._order.sort()
        self._copies |= copies
        self._bytes += sum(map(self._measure, copies.values()))
        self._drop_last()

    def list_events(self, end: str | None = None) -> WalkedRun:
        """List the kept events in order: all of them, or those before the place ``end``."""
        places: Sequence[str] = self._order if end is None else self._order[: bisect_left(self._order, end)]
        return WalkedRun.of(places, map(self._copies.__getitem__, places))

    def _drop_last(self) -> None:
        """Drop the last events: those that are more than ``count``, or more than memory holds."""
        while True:
            if len(self._order) <= self._count:
                if self._bytes <= self._most_bytes or len(self._order) == 1:
                    return
                # An event after the dropped event must not take its place.
                self._count = len(self._order) - 1
            self._bytes -= self._measure(self._copies.pop(self._order.pop()))

    def _measure(self, copy: Settled) -> int:
        value = copy.value
        return _EVENT_BYTES + (len(value) if isinstance(value, str) else self._measure_item(value))
