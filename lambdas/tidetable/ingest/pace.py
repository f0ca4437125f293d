"""The pace at which waiting events are written: most of a table's write units are left to the live traffic."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidetable.catalog import Entry
from tidetable.ports import Clock
from tidetable.remaining import Remaining

# The share of a table's write units that all consumers together may use. The rest is for the live traffic.
SHARE = 0.25
CONSUMERS = 2
# In write units per second. One run of the function must finish a message: otherwise the message would begin again for
# ever.
_LEAST, _UNKNOWN = 2.0, 200.0


@dataclass(slots=True)
class Pace:
    """Limits the writes to each table to the drain's share of the table's write units, within one process."""

    clock: Clock
    _free: dict[str, datetime] = field(default_factory=dict)

    def wait(self, entry: Entry, remaining: Remaining) -> None:
        """Sleep until the table may be written again, or until no time remains."""
        pause = (self._free.get(entry.table, self.clock.now()) - self.clock.now()).total_seconds()
        if pause > 0:
            self.clock.sleep(min(pause, max(remaining(), 0.0)))

    def record_units(self, entry: Entry, units: float) -> None:
        """Record the write units that were consumed from a table."""
        write_units = entry.seen.write if entry.seen is not None else None
        rate = _UNKNOWN if write_units is None else max(write_units * SHARE / CONSUMERS, _LEAST)
        start = max(self._free.get(entry.table, self.clock.now()), self.clock.now())
        self._free[entry.table] = start + timedelta(seconds=units / rate)
