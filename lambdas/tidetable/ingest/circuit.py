"""A circuit for each table: while DynamoDB throttles it, events go straight to the overflow instead of asking again and again."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from tidetable.ports import Clock

_FIRST = timedelta(seconds=2)
_LONGEST = timedelta(seconds=30)


class _Trip(msgspec.Struct):
    """From when a table may be tried again, and how long it will be left alone if that fails too."""

    until: datetime
    next: timedelta


class Circuit:
    """Remembers, within one process, which tables could not take their writes in time.

    A table is left alone for 2 s, then 4, up to 30, while each trial fails; a trial that succeeds closes the circuit.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._trips: dict[str, _Trip] = {}

    def admits(self, table: str) -> bool:
        """Whether to try the table now."""
        trip = self._trips.get(table)
        return trip is None or self._clock.now() >= trip.until

    def trip(self, tables: Iterable[str]) -> None:
        """Leave tables alone that were throttled for as long as a request could wait."""
        for table in tables:
            before = self._trips.get(table)
            length = before.next if before is not None else _FIRST
            self._trips[table] = _Trip(self._clock.now() + length, min(2 * length, _LONGEST))

    def close(self, tables: Iterable[str]) -> None:
        """Forget the failures of tables that took all of their writes."""
        for table in tables:
            self._trips.pop(table, None)
