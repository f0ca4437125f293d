"""The workload that the commands price: incoming events, and queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import ceil, log
from typing import Any, NamedTuple

import msgspec

from bill.prices import HOURS
from bill.request_puts import PACKED_SHARE, RequestPuts, RequestShape, count_puts
from tidetable.config import Stream
from tidetable.config.demand import PARTITION_UNITS
from tidetable.config.stream import IndexPolicy, Keeping
from tidetable.layout import Layout
from tidetable.periods import Period, find_containing

# The hours of `--night`, in UTC.
NIGHT = frozenset({23, 0, 1, 2, 3, 4, 5, 6})
# The bytes of a pack's key, its attributes and their names.
PACK_BYTES = 130
# The bytes of an event in an index that holds only keys: the keys of the table and of the index, and their names.
KEYS_BYTES = 200


@dataclass(frozen=True)
class Workload:
    """Events and queries by the hour of the day, in UTC.

    ``event_bytes`` is the size of a plain item, ``packed_bytes`` the size in a pack if the stream has packs, by default
    a quarter. The ``batch`` events of a request share packs. They are of ``series_per_request`` series, by default each
    of another one, and ``seconds_per_request`` lie between the oldest and the newest. ``index_shares`` is the share of
    events in an index, 0 to 1. With ``by_key`` callers send keys, which the authorizer checks. A bucket of a rollup has
    up to ``groups`` groups. ``late_share`` is the share of events, 0 to 1, that come more than two minutes after their time
    and are new. ``latest`` is the number of requests per second for the latest events of 100 series. Archives are kept by
    the rules ``keeping``, or for ``archive_days`` if it is not None.
    """

    events_per_second: list[float]
    event_bytes: int
    reads_per_second: float
    read_bytes: int
    old_reads_per_second: float
    stream: Stream
    batch: int = 100
    archive_days: int | None = None
    index_shares: Mapping[str, float] = field(default_factory=dict)
    packed_bytes: float | None = None
    by_key: bool = False
    groups: int = 100
    series_per_request: int | None = None
    seconds_per_request: float = 1.0
    keeping: Keeping = field(default_factory=Keeping)
    late_share: float = 0.0
    latest: float = 0.0

    def change_stream(self, **keys: Any) -> Workload:
        """Return the same workload for a stream with other keys."""
        return replace(self, stream=msgspec.structs.replace(self.stream, **keys))

    @property
    def is_busy(self) -> bool:
        """True if there are any events or queries."""
        return sum(self.events_per_second) + self.queries_per_second > 0

    @property
    def kept_archive_days(self) -> int:
        """The days for which archives are priced. Those that are kept for ever are priced for a year."""
        return self.archive_days or self.keeping.expire_after.days or 365

    @property
    def plain(self) -> Workload:
        """The same workload with one item per event and one shard, as in a table without Tidetable."""
        return self.change_stream(pack=None, key=msgspec.structs.replace(self.stream.key, shards=1))

    @cached_property
    def request_puts(self) -> RequestPuts:
        """The puts of one request."""
        series = min(self.series_per_request or self.batch, self.batch)
        shape = RequestShape(self.batch, series, self.seconds_per_request, self.event_bytes, self.packed_bytes)
        return count_puts(self.stream.layout, shape)

    @property
    def stored_bytes(self) -> float:
        """Bytes of an event in the table."""
        return self.request_puts.bytes / self.batch

    @property
    def event_units(self) -> float:
        """Write units of an event in the table and its local indexes; in a pack, its share of the pack's units."""
        return self.request_puts.units / self.batch + sum(map(self.count_units_in, self.stream.local_indexes))

    @property
    def items_per_event(self) -> float:
        """Items per event: 1, or less if events share packs."""
        return self.request_puts.items / self.batch

    @property
    def read_units(self) -> float:
        """Read units of an eventually consistent query. With packs, a query reads one whole pack more than it needs.

        Each range takes half a unit at the least, and a further range a quarter more than its bytes, on average.
        """
        size, ranges = float(self.read_bytes), count_ranges(self.stream)
        if self.stream.pack is not None:
            size = size * self.stored_bytes / self.event_bytes + self.request_puts.bytes / self.request_puts.items
        return max(ceil(size / 4096 + (ranges - 1) / 2), ranges) / 2

    @property
    def events_per_day(self) -> float:
        """Events of a day."""
        return sum(self.events_per_second) * 3600

    @property
    def events_per_month(self) -> float:
        """Events of a month of 730 hours."""
        return self.events_per_day * HOURS / 24

    @property
    def kept_events(self) -> float:
        """Events that are kept in tables at the same time."""
        return self.events_per_day * self.kept_days

    @property
    def queries_per_second(self) -> float:
        """Queries of recent and of old events."""
        return self.reads_per_second + self.old_reads_per_second

    @property
    def queries_per_month(self) -> float:
        """Queries of recent and of old events in a month of 730 hours."""
        return self.queries_per_second * HOURS * 3600

    @property
    def index_units(self) -> float:
        """Write units of an event in all indexes that have units of their own, on average."""
        return sum(map(self.count_units_in, self.stream.global_indexes))

    @property
    def collection_bytes(self) -> float | None:
        """The greatest size of an item collection, in bytes, in a table with local indexes; None without local indexes,
        or if unknown.

        The bucket is assumed to have the rate of the busiest hour, spread evenly over its suffixes. The number of
        events per series is unknown.
        """
        local = self.stream.local_indexes
        if not local or self.stream.key.bucket is None:
            return None
        events = max(self.events_per_second) * self.stream.key.bucket.total_seconds() / self.stream.key.shards
        return events * (self.event_bytes + sum(self.share_of(index) * self.count_bytes_in(index) for index in local))

    @property
    def index_bytes(self) -> float:
        """Bytes of an event in all indexes, on average."""
        return sum(self.share_of(index) * self.count_bytes_in(index) for index in self.stream.index)

    def count_units_in(self, index: IndexPolicy) -> float:
        """Write units of an event in an index, on average."""
        return self.share_of(index) * ceil(self.count_bytes_in(index) / 1024)

    def share_of(self, index: IndexPolicy) -> float:
        """Return the share of events that are in an index, 0 to 1."""
        return self.index_shares.get(index.name, 1.0)

    def count_bytes_in(self, index: IndexPolicy) -> int:
        """Bytes of an event in an index; an index of some fields counts as the whole event."""
        return min(self.event_bytes, KEYS_BYTES) if index.project == "keys" else self.event_bytes

    def count_events(self, period: Period, now: datetime) -> float:
        """Compute the number of events in a period's table, which grows by the hour."""
        end = min(now, period.end)
        days = max(0, (end - period.start) // timedelta(days=1))
        hour, count = period.start + timedelta(days=days), days * self.events_per_day
        while hour < end:
            count += self.events_per_second[hour.hour] * min((end - hour).total_seconds(), 3600)
            hour += timedelta(hours=1)
        return count

    @property
    def period_days(self) -> float:
        """Length of a period in days; a month counts as June."""
        period = find_containing(datetime(2026, 6, 1, tzinfo=UTC), self.stream.period)
        return (period.end - period.start) / timedelta(days=1)

    @property
    def kept_days(self) -> float:
        """The number of days for which an event is kept in a table."""
        return self.stream.retention * self.period_days


def count_ranges(stream: Stream) -> int:
    """Count the key ranges that a query of one bucket, or of one series, reads: its shards, or the shard of its series."""
    return 1 if stream.pack is not None and stream.key.shard_by == "series" else stream.key.shards


def count_least_shards(units: float) -> int:
    """Count the shards for the write units per second of one bucket at the busiest moment: twice as many as the limit of
    a partition key requires, because two keys may share a partition (docs/inside/suffix.md).
    """
    return max(1, ceil(2 * units / PARTITION_UNITS))


class MeasuredPacks(NamedTuple):
    """What packs of a measured size hold: an event's bytes in a pack and as a plain item, and the series of a request."""

    packed_bytes: float
    event_bytes: float
    series_per_request: int


def measure_packs(items: float, stored: float, batch: int, layout: Layout) -> MeasuredPacks:
    """Explain a measured number of packs per event, and of bytes per event in its table.

    In a table by series each series has a pack. If suffixes follow from the series, n series are in
    ``shards * (1 - (1 - 1 / shards) ** n)`` suffixes on average.
    """
    packs = items * batch
    if layout.partition_by == "time" and layout.shard_by == "series" and layout.shards > 1:
        free = 1 - packs / layout.shards
        packs = log(free) / log(1 - 1 / layout.shards) if free > 0 else batch
    packed_bytes = max(stored - PACK_BYTES * items, 1.0)
    return MeasuredPacks(packed_bytes, packed_bytes / PACKED_SHARE, min(max(round(packs), 1), batch))


def spread_by_hour(rate: float, night: float | None) -> list[float]:
    """Return the events per second for each hour of the day: ``rate``, or at night ``night`` if it is not None."""
    return [night if night is not None and hour in NIGHT else rate for hour in range(24)]
