"""Rules about the layout: shards, the suffix, buckets, the period, packs. All functions here are pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from math import ceil

import msgspec

from bill.lines import write_ladder, write_table
from bill.prices import WRITE_PRICE, price_reads
from bill.workload import count_least_shards
from cli.advising.capacity import MIN_DOLLARS, MIN_SHARE
from cli.advising.finding import Confidence, Finding
from cli.advising.measured import Measured
from tidetable.config import Capacity, LadderStep, Stream
from tidetable.config.demand import EVENTS_PER_SHARD, PARTITION_UNITS
from tidetable.config.stream import PackPolicy
from tidetable.durations import Duration
from tidetable.periods import LONGEST, Kind

# A range of a few items takes half a read unit, the minimum. If requests take more units than this on average, the
# items cost the units, and not the number of ranges.
_SMALL_RANGE = 0.75
_LONGEST_BUCKET = timedelta(hours=24)
_SPAN = Duration(minutes=1)
# With fewer events per request, packs save little, and queries must read whole packs.
_MIN_BATCH = 10
_LONGER = {Kind.HOUR: Kind.DAY, Kind.DAY: Kind.WEEK, Kind.WEEK: Kind.MONTH}


def advise_shards(measured: Measured, *, enough: bool) -> Iterator[Finding]:
    """Advise more shards if a partition key is throttled, or fewer if queries read more ranges than the writes need."""
    key = measured.stream.key
    tables = [resource for resource in measured.list_resources() if resource.shards == key.shards]
    if not tables:
        return
    hot = measured.find_throttling("Write", "KeyRangeThroughput", late=None, shards=key.shards)
    if hot.enough:
        yield _advise_more_shards(
            measured, hot.rate, f"{hot.events:,.0f} writes were throttled in {hot.hours} hours by one partition's limit"
        )
    elif enough and measured.stream.pack is not None and key.shard_by == "series":
        yield from _advise_larger_packs(measured)
    elif enough:
        yield from _advise_fewer_shards(measured)


def _advise_more_shards(measured: Measured, throttled: float, seen: str) -> Finding:
    stream, key = measured.stream, measured.stream.key
    peak, shares = measured.find_peak("Write"), measured.history.shares
    evidence = [seen, f"write units per second of a table at the peak: {peak:,.0f}, with {key.shards} shards"]
    heaviest = next(iter(shares.values()), 0.0) if shares else None
    if heaviest is not None:
        evidence.append(f"the heaviest partition key has {heaviest:.0%} of the write units")
    if key.partition_by == "time" and key.shard_by == "series" and heaviest and heaviest > 1.5 / key.shards:
        lines = write_table(stream.name, "key", {"shard_by": "id"})
        text = "calculate the suffix from the id: more shards do not spread one series over several partition keys"
        return Finding("shard_by", text, tuple(evidence), None, lines, "high")
    confidence: Confidence = "high"
    if key.partition_by == "time":
        rate, shards = peak + throttled, 0
    elif heaviest is not None:
        rate, shards = heaviest * key.shards * peak + throttled, 0
    else:
        rate, shards, confidence = 0.0, 2 * key.shards, "low"
    shards = max(shards, key.shards + 1, count_least_shards(rate))
    if rate:
        evidence.append(
            f"{rate:,.0f} units per second for one logical partition; a key takes 1,000, and twice as many shards are a reserve"
        )
    lines = write_table(stream.name, "key", {"shards": shards})
    return Finding("shards", f"take {shards} shards", tuple(evidence), None, lines, confidence)


def _advise_fewer_shards(measured: Measured) -> Iterator[Finding]:
    stream, key, uses = measured.stream, measured.stream.key, measured.history.uses
    if key.shards == 1 or not uses or key.partition_by == "series":
        return  # The peak of a single series is not measured.
    peak = measured.find_peak("Write")
    shards = count_least_shards(peak)
    if shards >= key.shards:
        return
    saved = sum(
        use.requests * (0.5 if use.units <= _SMALL_RANGE * use.requests else 0.25) for use in uses if not use.refused
    ) * (1 - shards / key.shards)
    dollars = price_reads(saved / measured.seconds, on_demand=stream.capacity.begins_on_demand)
    if dollars < MIN_DOLLARS:
        return
    reads, writes = sum(use.units for use in uses) * measured.month, measured.count_units("Write") * measured.month
    times, units = reads / writes / WRITE_PRICE, f"{reads:,.0f} read units per month, and {writes:,.0f} write units"
    evidence = (
        f"write units per second at the peak: {peak:,.0f}; {shards} shards take {shards * PARTITION_UNITS:,}",
        f"read units per month that only the additional shards cost: {saved * measured.month:,.0f}",
        f"reads cost {times:,.1f} times as much as writes: {units}",
    )
    lines = write_table(stream.name, "key", {"shards": shards})
    yield Finding(
        "shards", f"take {shards} shards", evidence, dollars, lines, "high" if measured.days >= 13 else "medium"
    )


def _advise_larger_packs(measured: Measured) -> Iterator[Finding]:
    """Advise fewer shards if suffixes follow from the series, and a request's packs are so small that they cost more.

    Queries of a series read one shard. So the number of shards is no matter of what queries read in vain.
    """
    stream, key, batch = measured.stream, measured.stream.key, measured.batch
    if batch is None:
        return
    peak = measured.find_peak("Write")
    shards = max(round(batch / EVENTS_PER_SHARD), count_least_shards(peak))
    if shards >= key.shards:
        return
    dollars = measured.price_stream(measured.change_stream(key=msgspec.structs.replace(key, shards=shards)))
    saving = measured.dollars - dollars
    if saving < max(MIN_DOLLARS, MIN_SHARE * measured.dollars):
        return
    evidence = (
        f"{batch:,.0f} events per request over {key.shards} shards: each pack takes a write unit at the least",
        f"DynamoDB per month: ${measured.dollars:,.2f} now, ${dollars:,.2f} then",
        f"a query of a series reads 1/{shards} of its range then, now 1/{key.shards}",
    )
    lines = write_table(stream.name, "key", {"shards": shards})
    yield Finding("shards", f"take {shards} shards", evidence, saving, lines, "medium")


def advise_bucket(measured: Measured) -> Iterator[Finding]:
    """Advise a longer bucket if queries read many ranges with few items each."""
    stream, key, uses = measured.stream, measured.stream.key, measured.history.uses
    longest = min(_LONGEST_BUCKET, LONGEST[stream.period])
    if key.bucket is None or key.bucket >= longest or not uses:
        return
    many = [
        use
        for use in uses
        if use.queries and use.requests >= 8 * use.queries and use.units <= _SMALL_RANGE * use.requests
    ]
    queries, requests = sum(use.queries for use in many), sum(use.requests for use in many)
    saved = 0.5 * requests * (1 - key.bucket / longest)
    dollars = price_reads(saved / measured.seconds, on_demand=stream.capacity.begins_on_demand)
    if not many or dollars < MIN_DOLLARS:
        return
    bucket = Duration(seconds=longest.total_seconds())
    text = "24h" if longest == _LONGEST_BUCKET else str(bucket)
    each = sum(use.units for use in many) / requests
    evidence = (
        f"{queries:,} queries read {requests / queries:,.0f} ranges each, of {each:.2f} units",
        f'buckets of "{text}" need {key.bucket / longest:.0%} of these ranges; a bucket takes as many writes as before',
    )
    lines = write_table(stream.name, "key", {"bucket": text})
    yield Finding("bucket", f'take buckets of "{text}"', evidence, dollars, lines, "medium")


def advise_period(measured: Measured, advised: Capacity) -> Iterator[Finding]:
    """Advise longer periods if many tables' minimum units cost more than the events, even with the advised capacity."""
    stream = measured.change_stream(capacity=advised)
    longer = _LONGER.get(stream.period)
    if longer is None or stream.capacity.autoscaling is not None:
        return
    ratio = LONGEST[longer] / LONGEST[stream.period]
    retention = ceil(stream.retention / ratio)
    ladder = _stretch_ladder(stream.capacity.ladder, ratio)
    capacity = msgspec.structs.replace(stream.capacity, ladder=ladder)
    dollars = measured.price_stream(measured.change_stream(period=longer, retention=retention, capacity=capacity))
    now = measured.price_stream(stream)
    saving = now - dollars
    if saving < max(MIN_DOLLARS, MIN_SHARE * now):
        return
    evidence = (
        f"{stream.retention:,} tables are kept, each with the minimum of units or more; by the {longer.value}, {retention:,}",
        f"DynamoDB per month: ${now:,.2f} with a table per {stream.period.value}, ${dollars:,.2f} then",
        f"ages of the ladder count periods: they become {[step.age for step in ladder]}",
    )
    lines = write_table(stream.name, "", {"period": longer, "retention": retention})
    if ladder != stream.capacity.ladder:
        lines += "\n" + write_ladder(stream.name, ladder)
    yield Finding("period", f"take a table per {longer.value}", evidence, saving, lines, "medium")


def _stretch_ladder(ladder: tuple[LadderStep, ...], ratio: float) -> tuple[LadderStep, ...]:
    """Convert a ladder to ages in longer periods. If several steps get the same age, the last of them is kept."""
    steps = {}
    for step in ladder:
        age = step.age if isinstance(step.age, str) else ceil(step.age / ratio)
        steps[age] = msgspec.structs.replace(step, age=age)
    return tuple(steps.values())


def advise_packs(measured: Measured) -> Iterator[Finding]:
    """Advise packs if requests have many small events."""
    stream, batch, size = measured.stream, measured.batch, measured.event_bytes
    free = stream.pack is None and not stream.index and stream.versions == "overwrite" and not stream.cold
    if not free or batch is None or size is None or batch < _MIN_BATCH:
        return
    packed = measured.change_stream(pack=PackPolicy(span=_SPAN))
    if not stream.capacity.begins_on_demand:
        packed = _lower_units(measured, packed)
    dollars = measured.price_stream(packed)
    saving = measured.dollars - dollars
    if saving < max(MIN_DOLLARS, MIN_SHARE * measured.dollars):
        return
    evidence = [
        f"{batch:,.0f} events per request, of {size:,.0f} bytes each: a write unit holds 1,024",
        f"DynamoDB per month: ${measured.dollars:,.2f} now, ${dollars:,.2f} then, if packs take a quarter of the bytes",
    ]
    if packed.capacity != stream.capacity:
        evidence.append(
            "provisioned units save only if they are lowered, too: ask for advice again after a week of packs"
        )
    lines = write_table(stream.name, "pack", {"span": str(_SPAN)})
    yield Finding("packs", "keep the events in packs", tuple(evidence), saving, lines, "medium")


def _lower_units(measured: Measured, packed: Stream) -> Stream:
    """Return the policy with packs, and with write units for packs instead of single events."""
    share = replace(measured.workload, stream=packed).event_units / measured.workload.event_units
    ladder = tuple(
        msgspec.structs.replace(step, write=max(1, ceil((step.write or 1) * share)) if step.write else None)
        for step in measured.stream.capacity.ladder
    )
    return msgspec.structs.replace(packed, capacity=msgspec.structs.replace(measured.stream.capacity, ladder=ladder))
