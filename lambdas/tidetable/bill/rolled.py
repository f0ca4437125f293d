"""The price of a stream's rollups and feed: written and stored cells, the refresher's work, and the feed's calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from tidetable.bill.prices import (
    CALL_MILLION,
    FEED_GB,
    FEED_SECONDS,
    FEED_SHARDS,
    GB_SECOND,
    HOURS,
    LAMBDA_POLLS,
    ON_DEMAND,
    REFRESHER_EVENT_SECONDS,
    REFRESHER_GB,
    REFRESHER_SECONDS,
)
from tidetable.bill.tables import price_rolling
from tidetable.bill.workload import PACK_BYTES, Workload
from tidetable.config import TableClass
from tidetable.config.derive import derive_stream
from tidetable.config.model import RollupPolicy, Stream
from tidetable.rollups.definition import PERCENTILES, make_definition

# Bytes in a pack: of a cell, of each of its fields, of a field's first or last value, and of a field's percentiles.
# Packs of 100 and 1,000 groups have 4 to 8, 11 to 13, 13, and 7 to 42 bytes; many different values take the most.
CELL_BYTES, FIELD_BYTES, PLACE_BYTES, SKETCH_BYTES = 7, 13, 13, 42
_MAX_PACK = 65_536
# The refresher reads the state of a stream before and after its work, and once per rollup. Each read is three queries.
_QUERIES, _LOOKS = 3, 3
_RUNS = HOURS * 60
# A bucket's edge: one item of one unit.
_EDGE_UNITS = 1


@dataclass(frozen=True)
class CellWorkload(Workload):
    """The workload of a rollup's own stream. Here an event means a bucket, and a query means one read unit."""

    bucket_bytes: float = 0.0
    bucket_units: float = 0.0

    @property
    def event_units(self) -> float:
        """Write units of a bucket and its edge."""
        return self.bucket_units

    @property
    def stored_bytes(self) -> float:
        """Bytes of a bucket's cells."""
        return self.bucket_bytes

    @property
    def read_units(self) -> float:
        """Read units of a query: always one, because each read unit of the refresher counts as a query here."""
        return 1.0


@dataclass(frozen=True)
class Rolled:
    """A rollup, the workload of its stream, and the groups of a bucket; ``finer`` is the rollup from which it is
    computed.
    """

    name: str
    workload: CellWorkload
    groups: int
    finer: str


def size_bucket(rollup: RollupPolicy, groups: int) -> tuple[float, float]:
    """Return the bytes and the write units of a bucket with this number of groups.

    The write units include the edge's.
    """
    each = FIELD_BYTES + PLACE_BYTES * len({"first", "last"} & set(rollup.stats))
    each += SKETCH_BYTES if PERCENTILES in rollup.stats else 0
    cells = groups * (CELL_BYTES + each * len(rollup.fields))
    packs = max(ceil(cells / _MAX_PACK), 1)
    size = cells / packs + PACK_BYTES
    return packs * size, packs * ceil(size / 1024) + _EDGE_UNITS


def list_rollups(workload: Workload, groups: int) -> list[Rolled]:
    """List the rollups of a workload's stream. A bucket has ``groups`` groups, but at most as many as it has events."""
    source = workload.stream
    definitions = {rollup.name: make_definition(source, rollup) for rollup in source.rollup}
    sizes = {rollup.name: size_bucket(rollup, _count_groups(rollup, workload, groups)) for rollup in source.rollup}
    rollups = []
    for rollup in source.rollup:
        seconds, definition = rollup.every.total_seconds(), definitions[rollup.name]
        # A rollup is made from the coarsest rollup that has all the data that it needs.
        finer = max(
            (rollup for rollup in definitions.values() if rollup.feeds(definition)),
            key=lambda rollup: rollup.every,
            default=None,
        )
        size, units = sizes[rollup.name]
        reads = size / seconds
        if finer is not None:
            reads += sizes[finer.name][0] / finer.every.total_seconds()
        elif _is_on_demand(source):
            reads += workload.events_per_day / 86_400 * workload.stored_bytes
        stream = derive_stream(source, rollup)
        hours = [1 / seconds] * 24
        cells = CellWorkload(hours, ceil(size), reads / 4096, 4096, 0.0, stream, bucket_bytes=size, bucket_units=units)
        rollups.append(
            Rolled(stream.name, cells, _count_groups(rollup, workload, groups), "" if finer is None else finer.stream)
        )
    return rollups


def _count_groups(rollup: RollupPolicy, workload: Workload, groups: int) -> int:
    events = ceil(max(workload.events_per_second) * rollup.every.total_seconds())
    return min(groups, max(events, 1)) if rollup.by else 1


def _is_on_demand(stream: Stream) -> bool:
    return stream.capacity.on_demand(stream.capacity.ladder[0])


# Name, dollars and explanation of a line of the bill.
Priced = tuple[str, float, str]


def price_rollups(workload: Workload, groups: int) -> Iterator[Priced]:
    """Yield the lines of a stream's rollups, and of the refresher."""
    rollups = list_rollups(workload, groups)
    for rollup in rollups:
        bill, cells = price_rolling(rollup.workload), rollup.workload
        buckets = cells.events_per_day
        how = f"{buckets:,.0f} buckets per day of {rollup.groups:,} groups, {cells.event_units:g} write units each"
        yield f"rollup {rollup.name}, writes", bill.table_writes, f"{how}, the edge included"
        source = f"the cells of {rollup.finer}" if rollup.finer else "each event"
        if not rollup.finer and not _is_on_demand(workload.stream):
            source = "each event, at the price of its table's provisioned units"
        yield (
            f"rollup {rollup.name}, reads",
            bill.table_reads,
            f"{source}, and each bucket: read once, strongly consistent",
        )
        yield (
            f"rollup {rollup.name}, storage",
            bill.table_storage,
            f"{cells.stored_bytes:,.0f} bytes per bucket, {cells.kept_days:g} days",
        )
        if cells.stream.replicas:
            dollars = bill.copy_writes + bill.copy_storage + bill.transfer
            yield (
                f"rollup {rollup.name}, copies",
                dollars,
                f"writes, storage and transfer: {', '.join(cells.stream.replicas)}",
            )
    if rollups:
        yield _price_refresher(workload, rollups)


def _price_refresher(workload: Workload, rollups: Sequence[Rolled]) -> Priced:
    events = workload.events_per_day * HOURS / 24 * sum(not rollup.finer for rollup in rollups)
    seconds = _RUNS * REFRESHER_SECONDS + events * REFRESHER_EVENT_SECONDS
    state = _RUNS * _QUERIES * (_LOOKS + len(rollups)) * ON_DEMAND[TableClass.STANDARD][1] / 1e6
    dollars = _RUNS * CALL_MILLION / 1e6 + seconds * REFRESHER_GB * GB_SECOND + state
    how = (
        f"a run per minute, assumed: {REFRESHER_SECONDS * 1000:.0f} ms and {REFRESHER_EVENT_SECONDS * 1e6:.0f} microseconds "
        "per event at 1,769 MB; and its reads of edges and marks"
    )
    return "refresher", dollars, how


def price_feed(workload: Workload) -> Iterator[Priced]:
    """Yield the lines of a stream's feed: the calls of its function. Lambda reads the records without charge."""
    feed = workload.stream.feed
    if feed is None:
        return
    shards = FEED_SHARDS if _is_on_demand(workload.stream) else 1
    window = max(feed.window.total_seconds(), 1 / LAMBDA_POLLS)
    calls = 0.0
    for rate in workload.events_per_second:
        records = rate * 3600 * workload.items_per_event
        calls += max(records / feed.batch, min(records, shards * 3600 / window))
    calls *= HOURS / 24
    dollars = calls * (CALL_MILLION / 1e6 + FEED_SECONDS * FEED_GB * GB_SECOND)
    how = (
        f"{calls / 1e6:,.2f} M calls: assumed {shards} shard{'s' if shards > 1 else ''} with a call per window "
        f"of {window:g} s, {FEED_SECONDS * 1000:.0f} ms at 512 MB each"
    )
    yield "feed, function", dollars, how
