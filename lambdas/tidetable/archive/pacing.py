"""The pace of an export: a share of the table's capacity, without waits that cost more than the units."""

from __future__ import annotations

from datetime import datetime, timedelta
from threading import Lock

from tidetable.config import ArchivePolicy
from tidetable.ports import Clock, Table

# AWS: the read units per second of a table that is new in on-demand mode, or was switched to it.
ON_DEMAND_UNITS = 12_000
# AWS: a page has 1 MB at the most, which is 256 units if it is read consistently.
PAGE_UNITS = 256.0
# AWS: a table keeps the unused provisioned capacity of 300 seconds, which may be read at once.
BURST_SECONDS = 300.0
# Below this rate a waiting function costs more than the units: 3 GB at $0.0000133 per GB-second are $0.04 per 1,000
# seconds, in which 600 units per second are worth $0.075 on demand.
WORTH_WAITING = 600.0
# A run does not end because of a wait of up to half a second.
_SHORT = 0.5
# An on-demand table has no burst. A page should not cost more than the rate grants in this time.
SMOOTH_SECONDS = 1.0
_ITEM_BYTES = 4096


def compute_rate(table: Table, policy: ArchivePolicy, maximum: int | None = None) -> float:
    """Compute the read units per second that an export may take; ``maximum`` limits the table's read units on demand."""
    if table.read is not None:
        return policy.read_share * table.read
    return policy.read_share * min(ON_DEMAND_UNITS, maximum or ON_DEMAND_UNITS)


def count_readers(rate: float, policy: ArchivePolicy) -> int:
    """Compute the number of workers that read a table in parallel: each should have enough units to be worth waiting."""
    return max(1, min(policy.segments, int(rate / WORTH_WAITING)))


class Pacer:
    """Says how long a table's readers should wait, how many items they should request, and when the run should end.

    The unused capacity of up to five minutes of a provisioned table is read at once. After that, a fast table is read
    at its pace. On a slow table the run ends instead of waiting, because waiting would cost many times the price of the
    units. ``free`` is the instant at which the rate has granted all units that were read; a later run goes on from it.
    """

    def __init__(
        self, rate: float, clock: Clock, *, burst: float = SMOOTH_SECONDS, free: datetime | None = None
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._burst = timedelta(seconds=burst)
        self._lock = Lock()
        self._units_per_item = 1.0
        self.free = free if free is not None else clock.now() - self._burst

    @property
    def is_slow(self) -> bool:
        """True if a run ends instead of waiting."""
        return self._rate < WORTH_WAITING

    def pause(self) -> float | None:
        """Return the seconds to wait before the next page; None if the run should end instead of waiting."""
        pause = max(0.0, (self.free - self._clock.now()).total_seconds())
        return None if pause > _SHORT and self.is_slow else pause

    def limit(self) -> int | None:
        """Return the number of items to request, at least one, by what the rate has granted; None for a whole page."""
        with self._lock:
            self._forget_lapsed_units()
            granted = self._rate * max((self._clock.now() - self.free).total_seconds(), SMOOTH_SECONDS)
        return None if granted >= PAGE_UNITS else max(1, int(granted / self._units_per_item))

    def account(self, units: float, items: int) -> None:
        """Count the units and items of a page that was read."""
        with self._lock:
            if items:
                self._units_per_item = max(units / items, 1 / _ITEM_BYTES)
            self._forget_lapsed_units()
            self.free += timedelta(seconds=units / self._rate)

    def measure_time_to_full_burst(self) -> float:
        """Return the seconds after which a later run finds the whole burst unused."""
        return max(0.0, (self.free + self._burst - self._clock.now()).total_seconds())

    def _forget_lapsed_units(self) -> None:
        """Drop the unused units that are older than AWS keeps them."""
        self.free = max(self.free, self._clock.now() - self._burst)
