"""The monthly DynamoDB bill of a workload under rolling tables, under one provisioned table and under one on-demand table.

Rolling tables are priced hour by hour with the very rules of the lifecycle: which tables exist, what each is provisioned
for, how much it holds in which class. Prices are those of us-east-1 as published in November 2026, for 730 hours. The single
tables keep as many days in the class Standard and delete by time to live, which is free. Not counted, as all three would
pay it alike: requests, functions, the archive.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path

from tidetable.config import Stream, TableClass, load
from tidetable.lifecycle.expiry import expires_at
from tidetable.lifecycle.ladder import Level, level_of
from tidetable.periods import Period, containing

HOURS = 730
WRITE_HOUR, READ_HOUR = 0.00065, 0.00013
# Dollars a million units on demand, and a GB-month, by class. Provisioned units of the class infrequent-access are taken to
# cost a quarter more, as its units on demand do.
ON_DEMAND = {TableClass.STANDARD: (0.625, 0.125), TableClass.INFREQUENT: (0.78, 0.155)}
STORAGE = {TableClass.STANDARD: 0.25, TableClass.INFREQUENT: 0.10}
INFREQUENT_SURCHARGE = 1.25
GB = 1e9
_DAYS = 31


@dataclass(frozen=True)
class Workload:
    """What comes in and what is asked for, by the hour of the day."""

    events_per_second: list[float]
    event_bytes: int
    reads_per_second: float
    read_bytes: int
    old_reads_per_second: float
    stream: Stream

    @property
    def event_units(self) -> int:
        """Write units of an event."""
        return ceil(self.event_bytes / 1024)

    @property
    def read_units(self) -> float:
        """Read units of a query, eventually consistent."""
        return ceil(self.read_bytes / 4096) / 2

    @property
    def events_per_day(self) -> float:
        """Events of a day."""
        return sum(self.events_per_second) * 3600


@dataclass(frozen=True)
class Bill:
    """Dollars a month."""

    writes: float
    reads: float
    storage: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.writes + self.reads + self.storage


def table_hour(level: Level) -> tuple[float, float]:
    """Dollars an hour of a table's provisioned writes and reads; nothing on demand."""
    if level.write is None or level.read is None:
        return 0.0, 0.0
    surcharge = INFREQUENT_SURCHARGE if level.table_class is TableClass.INFREQUENT else 1.0
    return level.write * WRITE_HOUR * surcharge, level.read * READ_HOUR * surcharge


def rolling(workload: Workload) -> Bill:
    """Rolling tables with the stream's ladder, over a month in which nothing begins or ends."""
    stream, start = workload.stream, datetime(2026, 6, 1, tzinfo=UTC)
    if stream.capacity.mode == "on-demand":
        raise ValueError("the workload's stream must be provisioned: on demand there is no ladder to price")
    writes = reads = storage = 0.0
    for hour in range(_DAYS * 24):
        now = start + timedelta(hours=hour, minutes=30)
        for period in existing(stream, now):
            level = level_of(period, stream, now)
            write, read = table_hour(level)
            writes += write
            reads += read
            storage += _bytes(workload, period, now) / GB * STORAGE[level.table_class] / HOURS
    share = HOURS / (_DAYS * 24)
    return Bill(writes * share, reads * share, storage * share)


def one_provisioned(workload: Workload) -> Bill:
    """One table, provisioned for the busiest hour."""
    write = ceil(max(workload.events_per_second) * workload.event_units)
    read = ceil((workload.reads_per_second + workload.old_reads_per_second) * workload.read_units)
    return Bill(write * WRITE_HOUR * HOURS, read * READ_HOUR * HOURS, _kept(workload))


def one_on_demand(workload: Workload) -> Bill:
    """One on-demand table."""
    write, read = ON_DEMAND[TableClass.STANDARD]
    seconds = HOURS * 3600
    events = workload.events_per_day * HOURS / 24
    reads = (workload.reads_per_second + workload.old_reads_per_second) * workload.read_units * seconds
    return Bill(events * workload.event_units * write / 1e6, reads * read / 1e6, _kept(workload))


PLANS = {
    "rolling tables with the ladder": rolling,
    "one provisioned table": one_provisioned,
    "one on-demand table": one_on_demand,
}


def bills(workload: Workload) -> dict[str, Bill]:
    """Each plan's bill."""
    return {name: price(workload) for name, price in PLANS.items()}


def read(folder: Path) -> Workload:
    """A folder's workload.toml, and the one stream of its tidetable.toml."""
    (stream,) = load(folder / "tidetable.toml").streams.values()
    return Workload(stream=stream, **tomllib.loads((folder / "workload.toml").read_text()))


def existing(stream: Stream, now: datetime) -> Iterator[Period]:
    """The periods that have a table: those made ahead, the open ones, and those that are kept."""
    period = containing(now + stream.ahead, stream.period).shift(stream.premake)
    while now <= expires_at(period, stream):
        yield period
        period = period.shift(-1)


def _bytes(workload: Workload, period: Period, now: datetime) -> float:
    """What a period's table holds: it fills by the hour."""
    end, at, held = min(now, period.end), period.start, 0.0
    while at < end:
        held += workload.events_per_second[at.hour] * min((end - at).total_seconds(), 3600) * workload.event_bytes
        at += timedelta(hours=1)
    return held


def _kept(workload: Workload) -> float:
    """Storage of one table that keeps as long as the rolling tables do."""
    length = containing(datetime(2026, 6, 1, tzinfo=UTC), workload.stream.period)
    days = workload.stream.retention * (length.end - length.start) / timedelta(days=1)
    return workload.events_per_day * days * workload.event_bytes / GB * STORAGE[TableClass.STANDARD]
