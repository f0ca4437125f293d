"""The pace at which waiting events are written: it begins with a part of a table's write units, and finds out how many are
free.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Self

from tidetable.catalog import Entry
from tidetable.config import Config
from tidetable.ports import Clock
from tidetable.remaining import Remaining

# The share of a table's write units with which all consumers of the queue together begin, and so do the workers of saved
# messages, if there are any.
SHARE = 0.25
# AWS: the write units per second that a new table on demand takes.
ON_DEMAND_UNITS = 4_000
# In write units per second, of each process. A message must get further with each try, even if its table has few units.
_LEAST = 0.8
# The pace grows with each round that a table takes whole: by a twentieth or, as a slow table has few rounds, by a quarter. At
# the most it is a quarter more than the table is known to take, because a table saves units while the drain pauses (AWS:
# those of 300 seconds). A throttled round halves it. So the pace follows what the live traffic leaves.
_GROWTH, _SLOW_GROWTH, _MOST, _FEWEST = 1.05, 1.25, 1.25 / SHARE, 1 / 16
# The puts of a round: those of a tenth of a second, but no more than keep all connections busy.
_ROUND_SECONDS, _ROUND_LEAST, _ROUND_MOST = 0.1, 10, 400


@dataclass(slots=True)
class Pace:
    """Limits the writes to each table to a share of the table's write units, within one process.

    ``warm`` has, by stream, the write units per second that its tables on demand were prepared for.
    """

    clock: Clock
    share: float
    warm: Mapping[str, int] = field(default_factory=dict)
    _free: dict[str, datetime] = field(default_factory=dict)
    # When the rounds under way began: their units are those of the time since then.
    _begun: dict[str, datetime] = field(default_factory=dict)
    _factors: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of_config(cls, config: Config, clock: Clock, workers: int) -> Self:
        """Make the pace of one of several workers, which knows what the tables of the configured streams were prepared for."""
        warm = {name: stream.capacity.warm.write for name, stream in config.streams.items() if stream.capacity.warm}
        return cls(clock, SHARE / workers, warm)

    def wait(self, entry: Entry, remaining: Remaining) -> bool:
        """Sleep until the table may be written again, or until no time remains: then return False."""
        now, left = self.clock.now(), remaining()
        pause = max((self._free.get(entry.table, now) - now).total_seconds(), 0.0)
        if pause > 0:
            self.clock.sleep(min(pause, max(left, 0.0)))
        self._begun[entry.table] = self.clock.now()
        return pause <= left

    def find_amount(self, entry: Entry) -> int:
        """Find the number of puts of the next round."""
        return min(max(int(self.find_rate(entry) * _ROUND_SECONDS), _ROUND_LEAST), _ROUND_MOST)

    def record_units(self, entry: Entry, units: float, *, throttled: bool = False) -> None:
        """Record the write units that a round consumed from a table, and if the table throttled any of its puts."""
        begun = self._begun.pop(entry.table, self.clock.now())
        start = max(self._free.get(entry.table, begun), begun)
        self._free[entry.table] = start + timedelta(seconds=units / self.find_rate(entry))
        growth = _SLOW_GROWTH if self.find_amount(entry) == _ROUND_LEAST else _GROWTH
        factor = self._factors.get(entry.table, 1.0)
        self._factors[entry.table] = max(factor / 2, _FEWEST) if throttled else min(factor * growth, _MOST)

    def find_rate(self, entry: Entry) -> float:
        """Find the write units per second that this process may use of a table."""
        known = find_write_units(entry) or max(ON_DEMAND_UNITS, self.warm.get(entry.stream, 0))
        return max(known * self.share * self._factors.get(entry.table, 1.0), _LEAST)


def find_write_units(entry: Entry) -> int | None:
    """Find the write units that a table was last seen to have; None if it is on demand."""
    return None if entry.capacity.seen is None else entry.capacity.seen.write
