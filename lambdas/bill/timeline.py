"""The ladder over time: a stream's tables and their price, day by day from an empty start.

All functions here are pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from bill.copied import count_regions
from bill.table_bill import list_existing_periods, price_hour, price_level, sum_units
from bill.workload import Workload
from tidetable.config import Stream, TableClass
from tidetable.expiry import compute_closing
from tidetable.ladder import compute_level
from tidetable.late import is_lowered


@dataclass(frozen=True, slots=True)
class Day:
    """A stream at one instant: the numbers of tables by state, the units of tables and indexes, and the number of
    tables in the cheap class.

    ``late`` counts the open tables that are lowered for late events. ``dollars`` is the price of the day, with copies
    in other Regions. It counts provisioned units and, with a workload, also events, queries and storage. ``write`` and
    ``read`` count only the units in the stage's own Region.
    """

    at: datetime
    ahead: int
    open: int
    late: int
    closed: int
    write: int
    read: int
    infrequent: int
    dollars: float

    @property
    def tables(self) -> int:
        """The number of tables."""
        return self.ahead + self.open + self.closed

    def document(self) -> dict[str, Any]:
        """Return the numbers and the price as JSON, without the instant."""
        numbers = asdict(self)
        del numbers["at"]
        return numbers


def list_days(
    stream: Stream, start: datetime, days: int, workload: Workload | None = None, *, every: int = 1
) -> Iterator[Day]:
    """Yield the days of a stream as if it had been deployed at ``start``: only every ``every``-th day, and the last
    day.
    """
    for number in range(days + 1):
        if number % every and number != days:
            continue
        now = start + timedelta(days=number)
        yield _compute_day(stream, start, now, workload)


def _compute_day(stream: Stream, start: datetime, now: datetime, workload: Workload | None) -> Day:
    ahead = opened = late = closed = 0
    levels = {period: compute_level(period, stream, now) for period in list_existing_periods(stream, now, start)}
    infrequent = sum(level.table_class is TableClass.INFREQUENT for level in levels.values())
    hourly = sum(price_level(level, stream).total for level in levels.values()) * count_regions(stream)
    for period in levels:
        if period.start > now + stream.ahead:
            ahead += 1
        elif now <= compute_closing(period, stream):
            opened += 1
            late += is_lowered(period, stream, now)
        else:
            closed += 1
    dollars = 24 * hourly if workload is None else _price_day(workload, start, now)
    return Day(now, ahead, opened, late, closed, *sum_units(levels.values(), stream), infrequent, dollars)


def _price_day(workload: Workload, start: datetime, now: datetime) -> float:
    """DynamoDB's bill of the 24 hours before ``now``; on the first day, of the 24 hours after ``start``."""
    first = max(start, now - timedelta(hours=23))
    return sum(price_hour(workload, first + timedelta(hours=number), start).total for number in range(24))
