"""The monthly DynamoDB bill of a workload with rolling tables, with one provisioned table, and with one on-demand
table.

Rolling tables are priced hour by hour with the lifecycle's own rules: which tables exist, and the units, the storage
and the class of each table and its indexes. The single tables have the same indexes, keep events for as many days in
the class Standard, and delete by time to live, which is free. whole.py prices the services besides DynamoDB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import ceil

import msgspec

from tidetable.bill.prices import (
    GB,
    HOURS,
    INFREQUENT_SURCHARGE,
    ON_DEMAND,
    READ_HOUR,
    STORAGE,
    TRANSFER,
    WRITE_HOUR,
)
from tidetable.bill.workload import Workload
from tidetable.config import Capacity, Step, Stream, TableClass
from tidetable.lifecycle.expiry import compute_expiry
from tidetable.lifecycle.ladder import Level, compute_level
from tidetable.periods import Kind, Period, find_containing
from tidetable.ports import find_index_units

__all__ = [
    "GB",
    "HOURS",
    "ON_DEMAND",
    "PLANS",
    "STORAGE",
    "Bill",
    "Workload",
    "price_plans",
    "list_existing_periods",
    "price_level_hour",
    "price_table_hour",
]

# After these hours a stream has the same tables as at the beginning, each one period later. So the rest of a month need
# not be simulated. Months differ in length: all months are priced as 31 days.
_REPEATED = {Kind.HOUR: 24, Kind.DAY: 24, Kind.WEEK: 7 * 24, Kind.MONTH: 31 * 24}


@dataclass(frozen=True)
class Bill:
    """Dollars per month of tables, of their indexes, and of copies in other Regions with their indexes.

    ``transfer`` is the price of the data that is sent between Regions.
    """

    table_writes: float = 0.0
    table_reads: float = 0.0
    table_storage: float = 0.0
    index_writes: float = 0.0
    index_reads: float = 0.0
    index_storage: float = 0.0
    copy_writes: float = 0.0
    copy_reads: float = 0.0
    copy_storage: float = 0.0
    transfer: float = 0.0

    def __add__(self, other: Bill) -> Bill:
        return Bill(*map(sum, zip(self._amounts, other._amounts, strict=True)))

    def scale(self, factor: float) -> Bill:
        """Multiply all amounts by a factor."""
        return Bill(*(amount * factor for amount in self._amounts))

    @property
    def _amounts(self) -> tuple[float, ...]:
        # dataclasses.astuple copies deeply, which took half of a simulation.
        tables = self.table_writes, self.table_reads, self.table_storage
        copies = self.copy_writes, self.copy_reads, self.copy_storage, self.transfer
        return *tables, self.index_writes, self.index_reads, self.index_storage, *copies

    @property
    def writes(self) -> float:
        """Dollars of the writes of tables, indexes and copies."""
        return self.table_writes + self.index_writes + self.copy_writes

    @property
    def reads(self) -> float:
        """Dollars of the reads of tables, indexes and copies."""
        return self.table_reads + self.index_reads + self.copy_reads

    @property
    def storage(self) -> float:
        """Dollars of the storage of tables, indexes and copies."""
        return self.table_storage + self.index_storage + self.copy_storage

    def document(self) -> dict[str, float]:
        """The dollars of the writes, the reads, the storage and the transfer."""
        return {"writes": self.writes, "reads": self.reads, "storage": self.storage, "transfer": self.transfer}

    @property
    def total(self) -> float:
        """Dollars of the whole bill."""
        return self.writes + self.reads + self.storage + self.transfer


def price_table_hour(level: Level) -> tuple[float, float]:
    """Dollars per hour of a table's provisioned writes and reads, without its indexes; zero on demand."""
    if level.write is None or level.read is None:
        return 0.0, 0.0
    return price_units_hour((level.write, level.read), level.table_class)


def price_units_hour(units: tuple[int, int], table_class: TableClass) -> tuple[float, float]:
    """Dollars per hour of provisioned write units, and of provisioned read units."""
    surcharge = INFREQUENT_SURCHARGE if table_class is TableClass.INFREQUENT else 1.0
    return units[0] * WRITE_HOUR * surcharge, units[1] * READ_HOUR * surcharge


def list_index_units(level: Level, stream: Stream) -> list[tuple[int, int]]:
    """Provisioned units of each index at a level; none on demand."""
    if level.write is None or level.read is None:
        return []
    own = (level.write, level.read)
    return [find_index_units(index.name, level.index_units, own) for index in stream.index if not index.local]


def price_level_hour(level: Level, stream: Stream) -> float:
    """Dollars per hour of a table's and its indexes' provisioned units."""
    indexes = sum(sum(price_units_hour(units, level.table_class)) for units in list_index_units(level, stream))
    return sum(price_table_hour(level)) + indexes


def price_copies(copied: Bill, count: int, sent: float) -> Bill:
    """Price ``count`` copies: ``copied`` is the price of one copy, and each copy receives ``sent`` bytes."""
    if not count:
        return Bill()
    return Bill(
        copy_writes=count * copied.writes,
        copy_reads=count * copied.reads,
        copy_storage=count * copied.storage,
        transfer=count * sent / GB * TRANSFER,
    )


def price_rolling(workload: Workload) -> Bill:
    """Price rolling tables with the stream's ladder, for a month in the middle of the stream's life."""
    start = datetime(2026, 6, 1, tzinfo=UTC)
    hours = _REPEATED[workload.stream.period]
    whole = Bill()
    for hour in range(hours):
        whole += price_hour(workload, start + timedelta(hours=hour, minutes=30))
    return whole.scale(HOURS / hours)


def price_hour(workload: Workload, now: datetime, since: datetime | None = None) -> Bill:
    """Price an hour of the stream. With ``since``, the stream had no tables and no events before that instant."""
    stream = workload.stream
    bill = Bill()
    for period in list_existing_periods(stream, now):
        if since is not None and period.end <= since - stream.late:
            break
        level = compute_level(period, stream, now)
        write, read_dollars = price_table_hour(level)
        events = workload.count_events(period, now) - (workload.count_events(period, since) if since is not None else 0)
        gb_hour = STORAGE[level.table_class] / GB / HOURS
        priced = [price_units_hour(units, level.table_class) for units in list_index_units(level, stream)]
        bill += Bill(
            write,
            read_dollars,
            events * workload.stored_bytes * gb_hour,
            sum(writes for writes, _ in priced),
            sum(reads for _, reads in priced),
            events * workload.index_bytes * gb_hour,
        )
    demand = _price_on_demand_hour(workload, now)
    # Queries go to the stage's own Region: the price of queries at a copy depends on the readers in its Region.
    copied = bill + replace(demand, table_reads=0.0)
    sent = workload.events_per_second[now.hour] * 3600 * workload.stored_bytes
    return bill + demand + price_copies(copied, len(stream.replicas), sent)


def _price_on_demand_hour(workload: Workload, now: datetime) -> Bill:
    """Dollars of one hour's events and queries on the on-demand tables."""
    stream, events = workload.stream, workload.events_per_second[now.hour] * 3600
    writes = reads = index_writes = 0.0
    current = find_containing(now, stream.period)
    level = compute_level(current, stream, now)
    if level.write is None:
        write, read_million = (price / 1e6 for price in ON_DEMAND[level.table_class])
        writes = events * workload.event_units * write
        index_writes = events * workload.index_units * write
        reads = workload.reads_per_second * 3600 * workload.read_units * read_million
    # Queries of old events read the previous day's table or, if it is older, the previous period's table.
    old = min(find_containing(now - timedelta(days=1), stream.period), current.shift(-1))
    level = compute_level(old, stream, now)
    if level.read is None:
        price = ON_DEMAND[level.table_class][1] / 1e6
        reads += workload.old_reads_per_second * 3600 * workload.read_units * price
    return Bill(table_writes=writes, table_reads=reads, index_writes=index_writes)


def price_rolling_on_demand(workload: Workload) -> Bill:
    """Compute the bill of the rolling tables on demand, with the classes of the stream's ladder."""
    steps = tuple(Step(age=step.age, table_class=step.table_class) for step in workload.stream.capacity.ladder)
    capacity = Capacity(mode="on-demand", ladder=steps)
    return price_rolling(replace(workload, stream=msgspec.structs.replace(workload.stream, capacity=capacity)))


def price_one_provisioned(workload: Workload) -> Bill:
    """Compute the bill of one table that is provisioned for the busiest hour, with a copy in each of the stream's
    Regions.

    Its indexes have the least possible read units.
    """
    workload = workload.plain
    peak = max(workload.events_per_second)
    read_units = ceil((workload.reads_per_second + workload.old_reads_per_second) * workload.read_units)
    owners = [index for index in workload.stream.index if not index.local]
    indexes = [max(1, ceil(peak * workload.count_units_in(index))) for index in owners]
    table = Bill(
        ceil(peak * workload.event_units) * WRITE_HOUR * HOURS,
        read_units * READ_HOUR * HOURS,
        _price_storage(workload, workload.event_bytes),
        sum(indexes) * WRITE_HOUR * HOURS,
        len(indexes) * READ_HOUR * HOURS,
        _price_storage(workload, workload.index_bytes),
    )
    return _copy_table(workload, table, table)


def price_one_on_demand(workload: Workload) -> Bill:
    """Compute the bill of one on-demand table, with a copy in each of the stream's Regions."""
    workload = workload.plain
    write, read_price = ON_DEMAND[TableClass.STANDARD]
    events = workload.events_per_day * HOURS / 24
    reads = (workload.reads_per_second + workload.old_reads_per_second) * workload.read_units * HOURS * 3600
    table = Bill(
        events * workload.event_units * write / 1e6,
        reads * read_price / 1e6,
        _price_storage(workload, workload.event_bytes),
        events * workload.index_units * write / 1e6,
        0.0,
        _price_storage(workload, workload.index_bytes),
    )
    return _copy_table(workload, table, replace(table, table_reads=0.0))


def _copy_table(workload: Workload, table: Bill, copied: Bill) -> Bill:
    sent = workload.events_per_day * HOURS / 24 * workload.event_bytes
    return table + price_copies(copied, len(workload.stream.replicas), sent)


PLANS = {
    "rolling tables with the ladder": price_rolling,
    "one provisioned table": price_one_provisioned,
    "one on-demand table": price_one_on_demand,
}


def price_plans(workload: Workload) -> dict[str, Bill]:
    """Return the bill of each plan, by name."""
    return {name: price(workload) for name, price in PLANS.items()}


def list_existing_periods(stream: Stream, now: datetime) -> Iterator[Period]:
    """Yield the periods that have a table, the newest first: premade, open and kept periods."""
    period = find_containing(now + stream.ahead, stream.period).shift(stream.premake)
    while now <= compute_expiry(period, stream):
        yield period
        period = period.shift(-1)


def _price_storage(workload: Workload, size: float) -> float:
    """Dollars per month for the storage of a single table that keeps events as long as the rolling tables."""
    return workload.events_per_day * workload.kept_days * size / GB * STORAGE[TableClass.STANDARD]
