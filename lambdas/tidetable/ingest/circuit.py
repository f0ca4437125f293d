"""A circuit breaker per table: while DynamoDB throttles it, it is not tried, and its events go to the overflow."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from tidetable.ports import Clock

_FIRST = timedelta(seconds=2)
_LONGEST = timedelta(seconds=30)


class _Trip(msgspec.Struct):
    """The instant from which a table may be tried again, and the length of the next pause if that try fails too."""

    until: datetime
    next: timedelta


class Circuit:
    """Remembers, within one process, the tables that could not take their writes in time.

    The table is not tried for 2 s, then 4 s, and so on up to 30 s, while each try fails. A try that succeeds closes the
    circuit.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # The tables whose last try failed.
        self.trips: dict[str, _Trip] = {}

    def admits(self, table: str) -> bool:
        """True if the table may be tried now."""
        trip = self.trips.get(table)
        return trip is None or self._clock.now() >= trip.until

    def trip(self, tables: Iterable[str]) -> None:
        """Stop trying these tables for a while: they were throttled for the whole time that a request can wait."""
        for table in tables:
            before = self.trips.get(table)
            length = before.next if before is not None else _FIRST
            self.trips[table] = _Trip(self._clock.now() + length, min(2 * length, _LONGEST))

    def close(self, tables: Iterable[str]) -> None:
        """Forget the failures of these tables: they took all of their writes."""
        for table in tables:
            self.trips.pop(table, None)
