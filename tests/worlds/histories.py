"""Histories of streams, simulated by arithmetic alone: hourly traffic, and the parts that DynamoDB takes or refuses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil

from cli.advising.history import History, Hour, Reason, Resource, Use, Writing
from tidetable.config import Stream, parse
from tidetable.ladder import compute_level
from tidetable.periods import Period, find_containing

# The end of every history, a Monday.
END = datetime(2026, 6, 15, tzinfo=UTC)
_SECOND_UNITS = 1000  # AWS: write units per second of one partition key


def steady(rate: float) -> Callable[[datetime], float]:
    """A rate in events per second that is always the same."""
    return lambda _: rate


def daily(low: float, high: float, *hours: int) -> Callable[[datetime], float]:
    """A rate in events per second: ``high`` in these hours of each day, otherwise ``low``."""
    return lambda at: high if at.hour in hours else low


@dataclass(frozen=True)
class Traffic:
    """The writes and reads of a stream.

    ``rate`` gives events per second. ``late`` is the share of events that go to the previous period. ``hot`` is the
    share of the heaviest series. ``units`` are the write units per event; by default ``size`` (bytes) decides them.
    ``in_index`` is the share of events that are in an index. ``index_reads`` are read units per second of an index,
    ``reads`` of the newest table.
    """

    rate: Callable[[datetime], float]
    size: int = 500
    batch: int = 1
    late: float = 0.0
    hot: float = 0.0
    units: float | None = None
    reads: float | Callable[[datetime], float] = 0.0
    in_index: Mapping[str, float] = field(default_factory=dict)
    index_reads: Mapping[str, float] = field(default_factory=dict)
    index_hot: Mapping[str, float] = field(default_factory=dict)
    uses: tuple[Use, ...] | None = ()
    shares_known: bool = True
    imported: bool = False
    shards: int | None = None
    packed: bool | None = None


def live(text: str, traffic: Traffic, days: float = 14, missing: tuple[str, ...] = ()) -> History:
    """The history of a configuration's only stream over the days before ``END``."""
    stream = next(iter(parse(text).streams.values()))
    start = END - timedelta(days=days)
    hours: defaultdict[tuple[Period, str], list[Hour]] = defaultdict(list)
    events = 0.0
    at = start
    while at < END:
        rate = traffic.rate(at)
        events += rate * 3600
        for place, hour in _hours(stream, traffic, at, rate):
            hours[place].append(hour)
        at += timedelta(hours=1)
    resources = [
        _resource(stream, traffic, period, index, tuple(hours[period, index]))
        for period in sorted({period for period, _ in hours})
        for index in ("", *(policy.name for policy in stream.index))
        if (period, index) in hours
    ]
    known = Writing(round(events / traffic.batch), round(events))
    shares = _shares(stream, traffic) if traffic.shares_known else None
    return History(stream, start, END, tuple(resources), known, traffic.uses, shares, missing)


def _hours(stream: Stream, traffic: Traffic, at: datetime, rate: float) -> Iterator[tuple[tuple[Period, str], Hour]]:
    """Yield an hour of the current table and of the previous table, and of the indexes of both."""
    units = traffic.units if traffic.units is not None else ceil(traffic.size / 1024)
    current = find_containing(at, stream.period)
    for period, share in ((current, 1 - traffic.late), (current.shift(-1), traffic.late)):
        for index in ("", *(policy.name for policy in stream.index)):
            demand = rate * units * share * (traffic.in_index.get(index, 1.0) if index else 1.0)
            read = 0.0
            if period == current:
                read = traffic.index_reads.get(index, 0.0) if index else _reads(traffic, at)
            if demand or read:
                yield (period, index), _hour(stream, traffic, period, index, at, demand, read)


def _reads(traffic: Traffic, at: datetime) -> float:
    return traffic.reads(at) if callable(traffic.reads) else traffic.reads


def _hour(
    stream: Stream, traffic: Traffic, period: Period, index: str, at: datetime, demand: float, read: float
) -> Hour:
    shares = _index_shares(stream, traffic, index) if index else tuple(_shares(stream, traffic).values())
    taken = sum(min(demand * share, _SECOND_UNITS) for share in shares)
    throttles: dict[tuple[str, Reason], float] = {}
    if taken < demand - 1e-6:
        throttles["Write", "KeyRangeThroughput"] = (demand - taken) * 3600
    most = stream.capacity.most
    if most is not None and most.write < taken:
        throttles["Write", "MaxOnDemandThroughput"] = (taken - most.write) * 3600
        taken = most.write
    level = compute_level(period, stream, at + timedelta(minutes=30))
    if level.write is not None:
        provisioned = level.index_units.get(index, (level.write, level.read))[0] if index else level.write
        if provisioned < taken:
            throttles["Write", "ProvisionedThroughput"] = (taken - provisioned) * 3600
            taken = provisioned
    return Hour(at, taken * 3600, read * 3600, taken, read, throttles)  # type: ignore[arg-type]


def _shares(stream: Stream, traffic: Traffic) -> dict[str, float]:
    """The share of each partition key in a table's units. By series: the heaviest series, and a thousand others."""
    shards = traffic.shards or stream.key.shards
    rest = (1 - traffic.hot) / shards
    if stream.key.partition_by == "series":
        others = {f"s{number}": (1 - traffic.hot) / 1000 for number in range(1000)}
        return {f"hot#{shard}": traffic.hot / shards for shard in range(shards) if traffic.hot} | others
    if stream.key.shard_by == "series":
        return {str(shard): rest + (traffic.hot if shard == 0 else 0.0) for shard in range(shards)}
    return {str(shard): 1 / shards for shard in range(shards)}


def _index_shares(stream: Stream, traffic: Traffic, index: str) -> tuple[float, ...]:
    (policy,) = (policy for policy in stream.index if policy.name == index)
    hot = traffic.index_hot.get(index, 0.0)
    return (*(hot / policy.shards for _ in range(policy.shards)), *((1 - hot) / 1000 for _ in range(1000)))


def _resource(stream: Stream, traffic: Traffic, period: Period, index: str, hours: tuple[Hour, ...]) -> Resource:
    policies = {policy.name: policy.shards for policy in stream.index}
    shards = policies[index] if index else traffic.shards or stream.key.shards
    units = traffic.units if traffic.units is not None else ceil(traffic.size / 1024)
    share = traffic.in_index.get(index, 1.0) if index else 1.0
    items = round(sum(hour.write for hour in hours) / units)
    if stream.pack is not None:
        items = round(items * units)
    packed = traffic.packed if traffic.packed is not None else stream.pack is not None
    return Resource(
        period, index, shards, hours, items, round(items * traffic.size) if share else 0, traffic.imported, packed
    )
