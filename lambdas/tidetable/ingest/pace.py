"""The pace at which waiting events are written: most of a table's write units are left to the live traffic."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidetable.catalog import Entry
from tidetable.ports import Clock
from tidetable.remaining import Remaining

# The share of a table's write units that all consumers of the queue together may use, and the share of the scheduled run
# that writes saved messages, if there are any. The rest is for the live traffic.
SHARE, SAVED_SHARE = 0.25, 0.125
# More would not write faster into one table, because all share its units. A new AWS account may run ten functions at
# once, and the API needs some of them.
CONSUMERS = 5
# AWS: the write units per second that a new table on demand takes.
_ON_DEMAND_UNITS = 4_000
# In write units per second, of each process. A message must get further with each try, even if its table has few units.
_LEAST = 0.8


@dataclass(slots=True)
class Pace:
    """Limits the writes to each table to a share of the table's write units, within one process."""

    clock: Clock
    share: float = SHARE / CONSUMERS
    _free: dict[str, datetime] = field(default_factory=dict)

    def wait(self, entry: Entry, remaining: Remaining) -> None:
        """Sleep until the table may be written again, or until no time remains."""
        pause = (self._free.get(entry.table, self.clock.now()) - self.clock.now()).total_seconds()
        if pause > 0:
            self.clock.sleep(min(pause, max(remaining(), 0.0)))

    def record_units(self, entry: Entry, units: float) -> None:
        """Record the write units that were consumed from a table."""
        write_units = entry.capacity.seen.write if entry.capacity.seen is not None else None
        rate = max((_ON_DEMAND_UNITS if write_units is None else write_units) * self.share, _LEAST)
        start = max(self._free.get(entry.table, self.clock.now()), self.clock.now())
        self._free[entry.table] = start + timedelta(seconds=units / rate)
