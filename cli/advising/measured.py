"""The figures that the rules share: peaks, sizes, throttles and the priced workload of a history.

All functions here are pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from math import ceil
from typing import Literal, NamedTuple

import msgspec

from bill.table_bill import price_rolling
from bill.workload import Workload, measure_packs
from cli.advising.history import History, Hour, Reason, Resource
from tidetable.config import Stream

Operation = Literal["Write", "Read"]
_HOUR = timedelta(hours=1)
# A query of 8 KB takes one read unit, eventually consistent. So queries per second equal read units per second.
_UNIT_BYTES = 8192
_DEFAULT_BYTES = 1000


class Throttling(NamedTuple):
    """The throttled events of an operation for one reason: their number, the hours that have them, and the rate of the
    worst hour.
    """

    events: float
    hours: int
    rate: float

    @property
    def enough(self) -> bool:
        """True if the throttling is a pattern, not a single burst of a deploy or a test."""
        return self.events >= 100 and self.hours >= 3


class Shortages(NamedTuple):
    """The throttling by too few provisioned units: of writes in the period, of reads, and of late writes."""

    writes: Throttling
    reads: Throttling
    late: Throttling

    @property
    def enough(self) -> bool:
        """True if any of them is a pattern."""
        return any(throttling.enough for throttling in self)


@dataclass(frozen=True)
class Measured:
    """The figures of a history.

    Tables to which a backfill wrote are left out: an import is not usual traffic. Tables with another kind of period
    are left out, too. So are tables that have packs although the stream has no packs now, or the reverse: their units
    do not show anything about the present configuration.
    """

    history: History

    @property
    def stream(self) -> Stream:
        """The present configuration of the stream."""
        return self.history.stream

    @cached_property
    def fitting(self) -> list[Resource]:
        """The tables and indexes that the rules judge."""
        packed, kind = self.stream.pack is not None, self.stream.period
        return [
            own
            for own in self.history.resources
            if not own.imported and own.packed is packed and own.period.kind is kind
        ]

    @cached_property
    def days(self) -> float:
        """The days between the first measured hour and the end."""
        history = self.history
        first = min((hour.start for own in self.fitting for hour in own.hours), default=history.end)
        return (history.end - max(first, history.start)) / timedelta(days=1)

    @property
    def seconds(self) -> float:
        """The measured days in seconds, at least one second."""
        return max(self.days * 86_400, 1.0)

    @property
    def month(self) -> float:
        """The factor that converts a sum over this history to a sum per month of 730 hours."""
        return 730 * 3600 / self.seconds

    def list_resources(self, index: str = "") -> list[Resource]:
        """Return the judged tables or, with ``index``, this index of all judged tables."""
        return [resource for resource in self.fitting if resource.index == index]

    def count_units(self, operation: Operation, index: str = "", *, late: bool | None = None) -> float:
        """Count the units that the tables or an index consumed, in all hours. If ``late`` is True, only hours after the
        period's end count; if it is False, only hours before that end.
        """
        return sum(
            hour.write if operation == "Write" else hour.read
            for resource in self.list_resources(index)
            for hour in (resource.hours if late is None else _find_hours(resource, late=late))
        )

    def find_peak(self, operation: Operation, index: str = "", *, late: bool = False) -> float:
        """Find the units per second of a table's busiest five minutes: during its period or, with ``late``, after its
        end.
        """
        return max(
            (
                hour.peak_write if operation == "Write" else hour.peak_read
                for resource in self.list_resources(index)
                for hour in _find_hours(resource, late=late)
            ),
            default=0.0,
        )

    def find_throttling(
        self,
        operation: Operation,
        reason: Reason,
        index: str = "",
        *,
        late: bool | None = False,
        shards: int | None = None,
    ) -> Throttling:
        """Find the throttling of the tables or an index. ``late`` has the same meaning as in ``count_units``. With
        ``shards``, only tables with this number of shards are counted.
        """
        hours = [
            hour
            for resource in self.list_resources(index)
            if shards in (None, resource.shards)
            for hour in (resource.hours if late is None else _find_hours(resource, late=late))
        ]
        counts = [count for hour in hours if (count := hour.throttled(operation, reason))]
        return Throttling(sum(counts), len(counts), max(counts, default=0.0) / 3600)

    def find_shortages(self, index: str = "") -> Shortages:
        """Find the throttling of the tables, or of an index, by too few provisioned units."""
        reason: Reason = "ProvisionedThroughput"
        return Shortages(
            self.find_throttling("Write", reason, index),
            self.find_throttling("Read", reason, index, late=None),
            self.find_throttling("Write", reason, index, late=True),
        )

    @property
    def mean_writes(self) -> float:
        """Write units per second of the tables, on average."""
        return self.count_units("Write") / self.seconds

    @property
    def event_bytes(self) -> float | None:
        """Bytes of an item on average; None if unknown, or if the tables have fewer than 100 items."""
        items, size = (
            sum(getattr(resource, name) for resource in self.list_resources()) for name in ("items", "bytes")
        )
        return size / items if items >= 100 and size else None

    @property
    def batch(self) -> float | None:
        """Events per request, on average; None if unknown."""
        writing = self.history.writing
        return writing.events / writing.requests if writing is not None and writing.requests else None

    @cached_property
    def workload(self) -> Workload:
        """The workload that consumes the measured units: events by the hour of the day, and queries of one unit each."""
        stream = self.stream
        size = round(self.event_bytes or _DEFAULT_BYTES)
        batch = max(1, round(self.batch or 100))
        packed, plain, series = None, float(size), None
        if stream.pack is not None and self.history.writing is not None and self.history.writing.events:
            items, stored = (
                sum(getattr(resource, name) for resource in self.list_resources()) / self.history.writing.events
                for name in ("items", "bytes")
            )
            packed, plain, series = measure_packs(items, stored, batch, stream.layout)
        new, old = self._reads
        workload = Workload(
            [0.0] * 24,
            max(1, round(plain)),
            new,
            _UNIT_BYTES,
            old,
            stream,
            batch,
            packed_bytes=packed,
            series_per_request=series,
        )
        events = [units / workload.event_units for units in self._writes_by_hour]
        per_query = workload.read_units
        workload = replace(
            workload,
            events_per_second=events,
            reads_per_second=new / per_query,
            old_reads_per_second=old / per_query,
        )
        return replace(
            workload, index_shares={index.name: self._compute_share(index.name, workload) for index in stream.index}
        )

    @property
    def _writes_by_hour(self) -> list[float]:
        """Write units per second of all tables together, by the hour of the day."""
        sums: defaultdict[int, float] = defaultdict(float)
        for resource in self.list_resources():
            for hour in resource.hours:
                sums[hour.start.hour] += hour.write
        return [sums[hour] / 3600 / max(self.days, 1 / 24) for hour in range(24)]

    @property
    def _reads(self) -> tuple[float, float]:
        """Return two numbers: the read units per second of tables and indexes until a day after their period's end, and
        after that.
        """
        sums = [0.0, 0.0]
        for resource in self.fitting:
            for hour in resource.hours:
                sums[hour.start >= resource.period.end + timedelta(days=1)] += hour.read
        return sums[0] / self.seconds, sums[1] / self.seconds

    def _compute_share(self, index: str, workload: Workload) -> float:
        """Compute the share of events in an index, from the units of the index and the units of the table."""
        (policy,) = (policy for policy in self.stream.index if policy.name == index)
        units = self.count_units("Write")
        own = self.count_units("Write", index) / ceil(workload.count_bytes_in(policy) / 1024)
        return min(1.0, own * workload.event_units / units) if units else 1.0

    @cached_property
    def dollars(self) -> float:
        """DynamoDB's present bill per month."""
        return price_rolling(self.workload).total

    def price_stream(self, stream: Stream) -> float:
        """Price DynamoDB's bill per month with another policy."""
        return price_rolling(replace(self.workload, stream=stream)).total

    def change_stream(self, **keys: object) -> Stream:
        """Return the stream with other keys."""
        return msgspec.structs.replace(self.stream, **keys)


def _find_hours(resource: Resource, *, late: bool) -> Iterator[Hour]:
    """Find the hours of the period and one hour after it.

    With ``late``, find all later hours, in which only late events come.
    """
    for hour in resource.hours:
        # A table keeps its units for some minutes after its period's end (tidetable.late).
        if (hour.start >= resource.period.end + min(_HOUR, resource.period.end - resource.period.start)) == late:
            yield hour
