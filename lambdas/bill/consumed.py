"""CloudWatch's counts of a stage: the consumed units of its tables, and the requests to its API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

# CloudWatch keeps hourly values for 15 months; a day is the longest period that GetMetricData takes.
SPAN = timedelta(days=30)


class ConsumedUnits(NamedTuple):
    """Write and read units that a table or an index consumed."""

    write: float = 0.0
    read: float = 0.0


# Consumed units by the names of a table and an index, where the index "" is the table itself.
Consumed = Mapping[tuple[str, str], ConsumedUnits]


class Traffic(NamedTuple):
    """The traffic of all streams of a stage: the requests with events, the events, the queries, and the queries' read
    units.
    """

    requests: float = 0.0
    events: float = 0.0
    queries: float = 0.0
    read_units: float = 0.0


class Meters(Protocol):
    """The metrics of a stage; each method raises StoreUnavailable if they cannot be read."""

    def consumed(self, tables: Mapping[str, Sequence[str]], now: datetime) -> Consumed:
        """Read the units of the last 30 days.

        ``tables`` maps names of tables to the names of their indexes.
        """

    def traffic(self, now: datetime) -> Traffic:
        """Read the traffic that the functions counted in the last 30 days."""
