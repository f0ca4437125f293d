"""How fast a table is read: a share of its capacity, whoever else reads it, without waits that cost more than the reading."""

from __future__ import annotations

from datetime import datetime, timedelta
from threading import Lock

from tidetable.config import ArchivePolicy
from tidetable.ports import Clock, Table

# AWS: what a table serves at once that is new on demand, or was switched to it.
ON_DEMAND_UNITS = 12_000
# AWS: a page has 1 MB at the most, which is 256 units if it is read consistently.
PAGE_UNITS = 256.0
# AWS: so many seconds of unused provisioned capacity may be read at once.
BURST_SECONDS = 300.0
# Below this rate the function that waits costs more than the units: 3 GB at $0.0000133 a GB-second are $0.04 per 1,000 seconds,
# in which 600 units a second are worth $0.075 on demand.
WORTH_WAITING = 600.0
# A wait as short as this is no reason to end a run.
_SHORT = 0.5
# On demand there is no burst: a page should not cost more than is granted in this time.
SMOOTH_SECONDS = 1.0
_ITEM_BYTES = 4096


def rate_of(table: Table, policy: ArchivePolicy, most: int | None = None) -> float:
    """The read units per second that an export may take; ``most`` is what the table may take at the most on demand."""
    if table.read is not None:
        return policy.read_share * table.read
    return policy.read_share * min(ON_DEMAND_UNITS, most or ON_DEMAND_UNITS)


def segments_of(rate: float, policy: ArchivePolicy) -> int:
    """How many segments to read side by side: one page every second or two keeps a segment worth its while."""
    return max(1, min(policy.segments, int(rate / PAGE_UNITS * 2)))


class Pacer:
    """Tells several readers of one table how long to wait, how much to ask for, and when to leave the rest to a later run.

    What a provisioned table did not use for up to five minutes is read at once. After that a fast table is read at its pace;
    with a slow one a run ends instead of waiting, as the waiting would cost many times what is read. ``free`` is the instant
    at which everything that was read is paid for; a later run goes on from it.
    """

    def __init__(
        self, rate: float, clock: Clock, *, burst: float = SMOOTH_SECONDS, free: datetime | None = None
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._burst = timedelta(seconds=burst)
        self._lock = Lock()
        self._units_an_item = 1.0
        self.free = free if free is not None else clock.now() - self._burst

    def pause(self) -> float | None:
        """Seconds to wait before the next page; None if they are not worth waiting for."""
        pause = max(0.0, (self.free - self._clock.now()).total_seconds())
        return pause if pause <= _SHORT or self._rate >= WORTH_WAITING else None

    def limit(self) -> int | None:
        """How many items to ask for, None for a whole page: no more than is granted until now, and at least one."""
        with self._lock:
            self._forget()
            granted = self._rate * max((self._clock.now() - self.free).total_seconds(), SMOOTH_SECONDS)
        return None if granted >= PAGE_UNITS else max(1, int(granted / self._units_an_item))

    def spent(self, units: float, items: int) -> None:
        """Account for a page."""
        with self._lock:
            if items:
                self._units_an_item = max(units / items, 1 / _ITEM_BYTES)
            self._forget()
            self.free += timedelta(seconds=units / self._rate)

    def rested(self) -> float:
        """Seconds until a later run finds what one run can read at once."""
        return max(0.0, (self.free + self._burst - self._clock.now()).total_seconds())

    def _forget(self) -> None:
        """What was unused for longer than AWS keeps it is lost."""
        self.free = max(self.free, self._clock.now() - self._burst)
