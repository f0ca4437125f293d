"""How fast a table is read: a share of its capacity, whoever else reads it."""

from __future__ import annotations

from datetime import timedelta
from threading import Lock

from tidetable.config import ArchivePolicy
from tidetable.ports import Clock, Table

# AWS: what a new on-demand table serves at once.
ON_DEMAND_UNITS = 12_000
# AWS: a page has 1 MB at the most, which is 256 units if it is read consistently.
PAGE_UNITS = 256.0
# A page should not cost more than is granted in this time, or it would live on the burst that is meant for others.
_SECONDS_A_PAGE = 5.0
_ITEM_BYTES = 4096


def rate_of(table: Table, policy: ArchivePolicy) -> float:
    """The read units per second that an export may take."""
    return policy.read_share * (table.read or ON_DEMAND_UNITS)


def segments_of(rate: float, policy: ArchivePolicy) -> int:
    """How many segments to read side by side: one page every second or two keeps a segment worth its while."""
    return max(1, min(policy.segments, int(rate / PAGE_UNITS * 2)))


class Pacer:
    """Tells several readers of one table how long to wait and how much to ask for."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._lock = Lock()
        self._free = clock.now()
        self._units_an_item = 1.0

    def pause(self) -> float:
        """Seconds to wait before the next page."""
        return max(0.0, (self._free - self._clock.now()).total_seconds())

    def limit(self) -> int | None:
        """How many items to ask for, None for a whole page; a slow table is read in small pages."""
        granted = self._rate * _SECONDS_A_PAGE
        return None if granted >= PAGE_UNITS else max(1, int(granted / self._units_an_item))

    def spent(self, units: float, items: int) -> None:
        """Account for a page."""
        with self._lock:
            if items:
                self._units_an_item = max(units / items, 1 / _ITEM_BYTES)
            self._free = max(self._free, self._clock.now()) + timedelta(seconds=units / self._rate)
