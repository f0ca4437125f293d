"""The price of a stream's rollups and feed: read events, written and stored cells, and the feed's calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import NamedTuple

from bill import prices
from bill.amounts import Line, list_lines
from bill.copied import sum_copies
from bill.prices import HOURS, ON_DEMAND
from bill.table_bill import price_rolling
from bill.workload import PACK_BYTES, Workload
from tidetable.config import TableClass
from tidetable.config.derive import derive_stream
from tidetable.config.stream import RollupPolicy
from tidetable.forms.choose import choose_form
from tidetable.rollup_model.definition import make_definition
from tidetable.statistics import KEPT

# Bytes in a pack: of a cell, and of each of its fields. Packs of 100 and 1,000 groups have 4 to 8, and 11 to 13 bytes;
# many different values take the most. The list of statistics has the bytes of those that a rollup need not keep.
CELL_BYTES, FIELD_BYTES = 7, 13
_MAX_PACK = 65_536
# Units of a note of a series (docs/decisions/0250): a process reads what others have noted, and adds the note; two days
# after the deletion of the table the notes are removed by pages.
_NOTE_WRITES, _NOTE_READS = 1.02, 2
# Read units per series of the notes of a period, which are read once per bucket (docs/decisions/0250).
NOTED_UNITS = 0.0045
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
        """Read units of a query: always one, because each read unit of sealing counts as a query here."""
        return 1.0


class RollupWorkload(NamedTuple):
    """A rollup, the workload of its stream, and the groups of a bucket; ``finer`` is the rollup from which it is
    computed.
    """

    name: str
    workload: CellWorkload
    groups: int
    finer: str

    @property
    def every(self) -> timedelta:
        """The length of a bucket."""
        return timedelta(days=1) / self.workload.events_per_day


def size_bucket(rollup: RollupPolicy, groups: int) -> tuple[float, float]:
    """Return the bytes and the write units of a bucket with this number of groups.

    The write units include the edge's.
    """
    kept = [KEPT[stat] for stat in rollup.stats]
    each = FIELD_BYTES + sum(statistic.cell_bytes for statistic in kept)
    times = sum(statistic.cell_bytes for statistic in kept if statistic.is_time)
    cells = groups * (CELL_BYTES + times + each * len(rollup.fields))
    packs = max(ceil(cells / _MAX_PACK), 1)
    size = cells / packs + PACK_BYTES
    return packs * size, packs * ceil(size / 1024) + _EDGE_UNITS


def list_rollups(workload: Workload) -> list[RollupWorkload]:
    """List the rollups of a workload's stream. A bucket has at most as many groups as it has events."""
    source = workload.stream
    definitions = {rollup.name: make_definition(source, rollup) for rollup in source.rollup}
    counts = {rollup.name: _count_groups(rollup, workload) for rollup in source.rollup}
    sizes = {rollup.name: size_bucket(rollup, counts[rollup.name]) for rollup in source.rollup}
    rollups = []
    for rollup in source.rollup:
        seconds, definition = rollup.every.total_seconds(), definitions[rollup.name]
        # A rollup is made from the coarsest rollup that has all the data that it needs.
        finer = max(
            (rollup for rollup in definitions.values() if rollup.can_feed(definition)),
            key=lambda rollup: rollup.every,
            default=None,
        )
        size, units = sizes[rollup.name]
        reads = size / seconds
        if finer is not None:
            reads += sizes[finer.name][0] / finer.every.total_seconds()
        elif source.capacity.begins_on_demand:
            reads += workload.events_per_day / 86_400 * workload.stored_bytes
            reads += 4096 / seconds * _count_further_units(workload, rollup.every)
        stream = derive_stream(source, rollup)
        hours = [1 / seconds] * 24
        cells = CellWorkload(hours, ceil(size), reads / 4096, 4096, 0.0, stream, bucket_bytes=size, bucket_units=units)
        rollups.append(RollupWorkload(stream.name, cells, counts[rollup.name], "" if finer is None else finer.stream))
    return rollups


def count_series(workload: Workload) -> int:
    """Count the series of a period: as many as groups, if there are so many events."""
    return min(workload.groups, max(ceil(workload.events_per_day * workload.period_days), 1))


def count_units(workload: Workload) -> tuple[int, int]:
    """Count the units of settling of a bucket that are read alone, and the keys of series, each of which takes a request."""
    layout = workload.stream.layout
    unit = choose_form(layout).unit
    series = count_series(workload) if unit.series else 1
    units = series * (layout.shards if unit.suffix else 1) if any(unit) else 0
    return units, series * layout.shards if unit.series else 0


def _count_further_units(workload: Workload, every: timedelta) -> float:
    """Count the read units per bucket beside those of the bytes: each key of a series takes whole units, one at least."""
    _, keys = count_units(workload)
    if not keys:
        return 0.0
    units = workload.events_per_day * (every / timedelta(days=1)) * workload.stored_bytes / 4096
    return keys * max(ceil(units / keys), 1) - units + NOTED_UNITS * count_series(workload)


def _count_groups(rollup: RollupPolicy, workload: Workload) -> int:
    events = ceil(max(workload.events_per_second) * rollup.every.total_seconds())
    return min(workload.groups, max(events, 1)) if rollup.by else 1


def price_rollups(workload: Workload, rollups: Sequence[RollupWorkload]) -> list[Line]:
    """List the lines of the tables of a stream's rollups, and of the reads of its events."""
    lines: list[Line] = []
    for name, cells, count, finer in rollups:
        bill, subject = price_rolling(cells), f"rollup {name}"
        source = f"the cells of {finer}" if finer else "each event"
        _, keys = count_units(workload)
        if not finer and keys:
            source += f", a unit at least for each of {keys:,} partition keys per bucket"
        if not finer and not workload.stream.capacity.begins_on_demand:
            source += ", at the price of its table's provisioned units"
        lines += list_lines(
            subject,
            bill.tables,
            f"{cells.events_per_day:,.0f} buckets per day of {count:,} groups, {cells.event_units:g} write units each, the edge"
            " included",
            f"{source}, and each bucket: read once, strongly consistent",
            f"{cells.stored_bytes:,.0f} bytes per bucket, {cells.kept_days:g} days",
        )
        lines += sum_copies(subject, bill, cells.stream)
    if rollups and workload.stream.layout.partition_by == "series":
        lines.append(_price_notes(workload))
    return lines


def _price_notes(workload: Workload) -> Line:
    series = count_series(workload)
    notes, unit = series * HOURS / 24 / workload.period_days, ON_DEMAND[TableClass.STANDARD]
    how = (
        f"{notes:,.0f} notes per month: {series:,} series in each period, as many as groups, with {_NOTE_WRITES:g} write units"
        f" and {_NOTE_READS:g} read units each"
    )
    return Line("notes of series", notes * (_NOTE_WRITES * unit.write + _NOTE_READS * unit.read), how)


def price_feed(workload: Workload) -> list[Line]:
    """List the lines of a stream's feed: the calls of its function. Lambda reads the records without charge."""
    feed = workload.stream.feed
    if feed is None:
        return []
    shards = prices.FEED_SHARDS if workload.stream.capacity.begins_on_demand else 1
    # Lambda divides the records of a shard among the batches that are under way at once.
    batches = shards * feed.parallel
    window = max(feed.window.total_seconds(), 1 / prices.LAMBDA_POLLS)
    calls = 0.0
    for rate in workload.events_per_second:
        records = rate * 3600 * workload.items_per_event
        calls += max(records / feed.batch, min(records, batches * 3600 / window))
    calls *= HOURS / 24
    dollars = calls * prices.price_call(prices.FEED_SECONDS, prices.FEED_GB)
    called = "a call" if feed.parallel == 1 else f"{feed.parallel} calls"
    how = (
        f"{calls / 1e6:,.2f} M calls: assumed {shards} shard{'s' if shards > 1 else ''} with {called} per window "
        f"of {window:g} s, {prices.FEED_SECONDS * 1000:.0f} ms at 512 MB each"
    )
    return [Line("feed, function", dollars, how)]
