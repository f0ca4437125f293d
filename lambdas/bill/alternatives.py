"""Other settings of a stream that are worth a price, as lines of tidetable.toml.

All functions here are pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil
from typing import NamedTuple

import msgspec

from bill.lines import write_ladder, write_table
from bill.workload import Workload, count_least_shards, count_ranges
from tidetable.config import LadderStep, TableClass, Units
from tidetable.config.demand import EVENTS_PER_SHARD
from tidetable.periods import Kind

PACKS, SHARED_PACKS = "packs", "packs of many series"


class Alternative(NamedTuple):
    """A change of a stream: its name, the reason for it, and its lines of tidetable.toml."""

    name: str
    why: str
    toml: str


def list_alternatives(workload: Workload) -> Iterator[Alternative]:
    """Yield the settings that the stream does not have. The configuration may not allow all of them."""
    stream = workload.stream
    capacity, name = stream.capacity, stream.name
    if stream.pack is None:
        toml = write_table(name, "pack", {"span": "1h"})
        yield Alternative(PACKS, "many small events share an item, and a write unit", toml)
    else:
        yield Alternative("no packs", "an item for each event", write_table(name, "", {"pack": False}))
    if stream.key.partition_by == "series" and (workload.series_per_request or workload.batch) >= EVENTS_PER_SHARD:
        why = "a request makes a pack per shard, not an item per series, and a query of a series reads one shard"
        yield Alternative(SHARED_PACKS, why, _write_shared_packs(workload))
    peak = max(workload.events_per_second)
    shards = count_least_shards(peak * workload.event_units)
    if stream.key.partition_by == "time" and shards < count_ranges(stream):
        why = f"a query reads each shard; {shards} take twice the {peak:g} events per second of the busiest hour"
        yield Alternative("fewer shards", why, write_table(name, "key", {"shards": shards}))
    if capacity.begins_on_demand:
        toml = write_ladder(name, _make_ladder(workload), "provisioned")
        yield Alternative("provisioned", "units for this load, fewer for old tables", toml)
    else:
        yield Alternative(
            "on demand",
            "each event and each query is paid for, and idle tables cost their storage alone",
            write_ladder(name, (LadderStep(age=0), _make_infrequent(LadderStep(age=1))), "on-demand"),
        )
        if capacity.late_step is None:
            first = capacity.ladder[0]
            own = {index: Units(write=1, read=units.read) for index, units in first.index.items()}
            lowered = LadderStep(age="late", write=1, read=first.read, index=own)
            yield Alternative(
                "a step for late events",
                "tables whose period is over need fewer write units",
                write_ladder(name, (first, lowered, *capacity.ladder[1:]), capacity.mode),
            )
        else:
            others = [step for step in capacity.ladder if not step.is_late]
            yield Alternative(
                "no step for late events",
                "tables whose period is over keep their units until they close",
                write_ladder(name, others, capacity.mode),
            )
    if all(step.table_class is TableClass.STANDARD for step in capacity.ladder):
        open_steps = [step for step in capacity.ladder if step.rung < (1, False)]
        later = list(capacity.ladder[len(open_steps) :]) or [msgspec.structs.replace(open_steps[-1], age=1)]
        yield Alternative(
            "a cheap class for old tables",
            "infrequent-access stores for less, and its units cost a quarter more",
            write_ladder(name, (*open_steps, *map(_make_infrequent, later)), capacity.mode),
        )
    if stream.rollup:
        yield Alternative("no rollups", "aggregates are computed from events", write_table(name, "", {"rollup": []}))
    else:
        yield Alternative(
            "a rollup",
            "aggregates over long ranges read a cell per hour and series; those reads are not in this bill",
            f'[[streams.{name}.rollup]]\nname = "hours"\nevery = "1h"\nby = ["series"]\nretention = "365d"',
        )


def _write_shared_packs(workload: Workload) -> str:
    """Write a layout by time in which the suffixes of packs follow from the series."""
    name, bucket = workload.stream.name, "1h" if workload.stream.period is Kind.HOUR else "24h"
    key = {"partition_by": "time", "bucket": bucket, "shards": min(workload.batch // EVENTS_PER_SHARD, 256)}
    return "\n".join(
        [write_table(name, "key", {**key, "shard_by": "series"}), write_table(name, "pack", {"span": "1m"})]
    )


def _make_ladder(workload: Workload) -> list[LadderStep]:
    """Make a ladder with the units that the workload needs."""
    peak, indexes = max(workload.events_per_second), workload.stream.global_indexes
    read = _round_up(workload.reads_per_second * workload.read_units)
    old = _round_up(workload.old_reads_per_second * workload.read_units / max(workload.kept_days, 1))
    own = {index.name: Units(write=_round_up(peak * workload.count_units_in(index)), read=read) for index in indexes}
    late, closed = ({index.name: Units(write=1, read=units) for index in indexes} for units in (read, old))
    return [
        LadderStep(age=0, write=_round_up(peak * workload.event_units), read=read, index=own),
        LadderStep(age="late", write=1, read=read, index=late),
        _make_infrequent(LadderStep(age=1, write=1, read=old, index=closed)),
    ]


def _round_up(units: float) -> int:
    """Round units up to a number that a table can be provisioned with: at least 1."""
    return max(1, ceil(units))


def _make_infrequent(step: LadderStep) -> LadderStep:
    cold: LadderStep = msgspec.structs.replace(step, table_class=TableClass.INFREQUENT)
    return cold
