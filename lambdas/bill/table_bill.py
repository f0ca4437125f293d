"""The monthly DynamoDB bill of a workload with rolling tables, with one provisioned table, and with one on-demand
table.

Rolling tables are priced hour by hour with the lifecycle's own rules: which tables exist, and the units, the storage
and the class of each table and its indexes. The single tables have the same indexes, keep events for as many days in
the class Standard, and delete by time to live, which is free. workload_bill.py prices the services besides DynamoDB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from math import ceil
from statistics import fmean
from typing import NamedTuple

from bill.amounts import Bill, TableCost
from bill.copied import add_copies, count_regions
from bill.prices import HOURS, ON_DEMAND, PROVISIONED
from bill.workload import Workload
from tidetable.config import Stream, TableClass
from tidetable.config.capacity import find_index_units
from tidetable.expiry import compute_expiry
from tidetable.ladder import Level, compute_level
from tidetable.large.table_names import count_tables
from tidetable.periods import Kind, Period, find_containing

# After these hours a stream has the same tables as at the beginning, each one period later. So the rest of a month need
# not be priced. Months differ in length: all months are priced as 31 days.
_REPEATED = {Kind.HOUR: 24, Kind.DAY: 24, Kind.WEEK: 7 * 24, Kind.MONTH: 31 * 24}


def price_level(level: Level, stream: Stream, size: float = 0.0, index_size: float = 0.0) -> Bill:
    """Price an hour of a table and its indexes at a level: provisioned units, and stored bytes."""
    rates, index_units = PROVISIONED[level.table_class], sum_index_units(level, stream)
    tables = rates.price(level.write or 0, level.read or 0, size / HOURS)
    return Bill(tables, rates.price(*index_units, index_size / HOURS))


def sum_index_units(level: Level, stream: Stream) -> tuple[int, int]:
    """Return the provisioned write and read units of all indexes at a level; 0 on demand."""
    if level.write is None or level.read is None:
        return 0, 0
    own = level.write, level.read
    units = [find_index_units(index.name, level.index_units, own) for index in stream.global_indexes]
    return sum(write for write, _ in units), sum(read for _, read in units)


def sum_units(levels: Iterable[Level], stream: Stream) -> tuple[int, int]:
    """Return the provisioned write and read units of tables at these levels, with their indexes."""
    units = [(level.write or 0, level.read or 0, *sum_index_units(level, stream)) for level in levels]
    return sum(own[0] + own[2] for own in units), sum(own[1] + own[3] for own in units)


def price_rolling(workload: Workload) -> Bill:
    """Price rolling tables with the stream's ladder, for a month in the middle of the stream's life."""
    hours = _REPEATED[workload.stream.period]
    return sum((price_hour(workload, now) for now in _list_hours(hours)), Bill()) * (HOURS / hours)


class Survey(NamedTuple):
    """The tables of a stream over the hours after which they repeat.

    ``tables`` and ``dimensions`` are averages: of the tables, and of the dimensions that auto scaling follows.
    ``provisioned`` are dollars per month. ``write`` and ``read`` are the units of the class standard that exist at
    every hour.
    """

    tables: float
    dimensions: float
    provisioned: float
    write: int
    read: int


def survey_tables(stream: Stream) -> Survey:
    """Survey all tables of a stream in the middle of the stream's life."""
    hours = [_survey_hour(stream, now) for now in _list_hours(_REPEATED[stream.period])]
    tables, dimensions, provisioned, write, read = zip(*hours, strict=True)
    tables_per_period = count_tables(stream.layout)
    return Survey(
        fmean(tables) * tables_per_period, fmean(dimensions), HOURS * fmean(provisioned), min(write), min(read)
    )


def _survey_hour(stream: Stream, now: datetime) -> Survey:
    levels = [compute_level(period, stream, now) for period in list_existing_periods(stream, now)]
    scaled = sum(len(level.scaling.sides) for level in levels if level.scaling is not None)
    dimensions = scaled * (1 + len(stream.global_indexes)) * count_regions(stream)
    write, read = sum_units((level for level in levels if level.table_class is TableClass.STANDARD), stream)
    dollars = sum((price_level(level, stream) for level in levels), Bill()).total
    return Survey(len(levels), dimensions, dollars, write if count_regions(stream) == 1 else 0, read)


def _list_hours(hours: int) -> Iterator[datetime]:
    """Yield the middle of each of so many hours in the middle of a stream's life."""
    start = datetime(2026, 6, 1, tzinfo=UTC)
    return (start + timedelta(hours=hour, minutes=30) for hour in range(hours))


def price_hour(workload: Workload, now: datetime, since: datetime | None = None) -> Bill:
    """Price an hour of the stream. With ``since``, the stream had no tables and no events before that instant."""
    stream = workload.stream
    bill = Bill()
    for period in list_existing_periods(stream, now, since):
        level = compute_level(period, stream, now)
        events = workload.count_events(period, now) - (workload.count_events(period, since) if since is not None else 0)
        bill += price_level(level, stream, events * workload.stored_bytes, events * workload.index_bytes)
    demand = _price_on_demand_hour(workload, now)
    copied = bill.whole + demand.whole.drop_reads()
    sent = workload.events_per_second[now.hour] * 3600 * workload.stored_bytes
    return add_copies(bill + demand, stream, copied, sent)


def _price_on_demand_hour(workload: Workload, now: datetime) -> Bill:
    """Price one hour's events and queries on the on-demand tables."""
    stream, events = workload.stream, workload.events_per_second[now.hour] * 3600
    tables = indexes = TableCost()
    current = find_containing(now, stream.period)
    level = compute_level(current, stream, now)
    if level.write is None:
        rates = ON_DEMAND[level.table_class]
        queries = workload.reads_per_second * 3600
        tables = rates.price(events * workload.event_units, queries * workload.read_units, 0)
        indexes = rates.price(events * workload.index_units, 0, 0)
    # Queries of old events read the previous day's table or, if it is older, the previous period's table.
    old = min(find_containing(now - timedelta(days=1), stream.period), current.shift(-1))
    level = compute_level(old, stream, now)
    if level.read is None:
        tables += ON_DEMAND[level.table_class].price(0, workload.old_reads_per_second * 3600 * workload.read_units, 0)
    return Bill(tables, indexes)


def price_one_provisioned(workload: Workload) -> Bill:
    """Compute the bill of one table that is provisioned for the busiest hour, with a copy in each of the stream's
    Regions.

    Its indexes have the least possible read units.
    """
    workload = workload.plain
    rates, peak = PROVISIONED[TableClass.STANDARD], max(workload.events_per_second)
    indexes = [max(1, ceil(peak * workload.count_units_in(index))) for index in workload.stream.global_indexes]
    read_units = ceil(workload.queries_per_second * workload.read_units)
    table = Bill(
        rates.price(ceil(peak * workload.event_units), read_units, workload.kept_events * workload.event_bytes, HOURS),
        rates.price(sum(indexes), len(indexes), workload.kept_events * workload.index_bytes, HOURS),
    )
    return add_copies(table, workload.stream, table.whole, workload.events_per_month * workload.event_bytes)


def price_one_on_demand(workload: Workload) -> Bill:
    """Compute the bill of one on-demand table, with a copy in each of the stream's Regions."""
    workload = workload.plain
    rates, events = ON_DEMAND[TableClass.STANDARD], workload.events_per_month
    read_units = workload.queries_per_month * workload.read_units
    table = Bill(
        rates.price(events * workload.event_units, read_units, workload.kept_events * workload.event_bytes),
        rates.price(events * workload.index_units, 0, workload.kept_events * workload.index_bytes),
    )
    return add_copies(table, workload.stream, table.whole.drop_reads(), events * workload.event_bytes)


PLANS = {
    "rolling tables with the ladder": price_rolling,
    "one provisioned table": price_one_provisioned,
    "one on-demand table": price_one_on_demand,
}


def list_existing_periods(stream: Stream, now: datetime, since: datetime | None = None) -> Iterator[Period]:
    """Yield the periods that have a table, the newest first: premade, open and kept periods.

    With ``since``, the stream was deployed at that instant. A period that ended before the first writable window never
    had a table.
    """
    period = find_containing(now + stream.ahead, stream.period).shift(stream.premake)
    while now <= compute_expiry(period, stream) and (since is None or period.end > since - stream.late):
        yield period
        period = period.shift(-1)
