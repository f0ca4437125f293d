"""The walls of a load: the rates of events that a stream, its table, the gateway or the workers cannot pass.

All functions here are pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from bill import prices
from bill.rolled import list_rollups
from bill.work import count_readers, get_event_seconds
from bill.workload import Workload
from tidetable.config import Config
from tidetable.config.capacity import find_index_units
from tidetable.config.demand import PARTITION_UNITS
from tidetable.config.stage import WorkPolicy
from tidetable.layout import WHOLE
from tidetable.rollups.division import MANY, PART_EVENTS

# AWS: the write units, and the read units, per second of a table, on demand and provisioned, until the quota is raised
# (us-east-1).
TABLE_UNITS = 40_000


class Wall(NamedTuple):
    """A limit of a load: ``rate`` is the number of events per second that it lets through, ``how`` says what to change.

    ``met`` is True if the load is higher.
    """

    name: str
    rate: float
    how: str
    met: bool = False

    @property
    def text(self) -> str:
        """The wall in one sentence."""
        return f"{self.name} takes {self.rate:,.0f} events per second: {self.how}"

    def document(self) -> dict[str, Any]:
        """Return the wall as JSON."""
        return {"name": self.name, "events_per_second": self.rate, "met": self.met, "how": self.how}


def list_walls(workload: Workload, config: Config | None = None) -> list[Wall]:
    """List the walls of a workload, the lowest first.

    The walls of the gateway need the whole configuration.
    """
    peak = max(workload.events_per_second, default=0.0)
    work = WorkPolicy() if config is None else config.work
    walls = [
        *_list_stream_walls(workload),
        *_list_sealing_walls(workload, work.workers),
        *(_list_stage_walls(workload, config) if config is not None else ()),
    ]
    found = [wall._replace(met=peak > wall.rate * (1 + 1e-9)) for wall in walls]
    return sorted(found, key=lambda wall: wall.rate)


def find_met_wall(workload: Workload, config: Config) -> Wall | None:
    """Find the lowest wall that the load meets; None if it meets none."""
    return next((wall for wall in list_walls(workload, config) if wall.met), None)


def _list_stream_walls(workload: Workload) -> Iterator[Wall]:
    yield from _list_table_walls(workload)
    yield from _list_key_walls(workload)
    yield from _list_unit_walls(workload)


def _list_sealing_walls(workload: Workload, workers: int) -> Iterator[Wall]:
    """Yield the walls of sealing: how fast workers read events, merge the parts of a long bucket, and may read the table.

    These rates are computed from the measured times of one event and of one cell, as if nothing else was due.
    """
    stream = workload.stream
    rollups = [rollup for rollup in list_rollups(workload) if not rollup.finer]
    if not rollups:
        return
    count, each = len(rollups), get_event_seconds(stream)
    shortest, groups = min(rollup.every for rollup in rollups), sum(rollup.groups for rollup in rollups)
    readers, merging = count_readers(workload, shortest, workers), prices.CELL_SECONDS * groups
    reading = f"for {count} rollup{'s' if count > 1 else ''}"
    remedy = "have fewer rollups, or rollups that can be made from finer rollups"
    how = f"computed: {readers} of {workers} workers" if readers > 1 else "computed: one worker"
    yield Wall(
        "sealing of rollups",
        readers / (each * count),
        f"{how} read each event {reading}, at {each * 1e6:.1f} microseconds; beyond it rollups fall behind, and aggregates read"
        f" events: {'raise [work] workers, ' if readers > 1 else ''}{remedy}",
    )
    # A bucket has no more parts than this until they have a million events each.
    if readers > 1 and MANY * merging > shortest.total_seconds():
        yield Wall(
            "merging of parts",
            PART_EVENTS / merging,
            f"computed: one worker merges the cells of all parts of a bucket, {groups:,} per {PART_EVENTS:,} events, at"
            f" {prices.CELL_SECONDS * 1e6:.0f} microseconds each: group by fewer fields, or {remedy}",
        )
    units = workload.stored_bytes / 4096 * count
    yield Wall(
        "reading by rollups",
        TABLE_UNITS / units,
        f"AWS gives a table {TABLE_UNITS:,} read units per second until it raises the quota, and sealing reads each event"
        f" {reading}, {units:.3f} units: use packs, or {remedy}",
    )


def _list_table_walls(workload: Workload) -> Iterator[Wall]:
    for name, units in _list_units(workload):
        yield Wall(
            f"{name}'s quota",
            TABLE_UNITS / units,
            f"AWS gives a table, and an index, {TABLE_UNITS:,} write units per second until it raises the quota, and an"
            f" event takes {units:g}: use packs or more events per request, or several streams",
        )


def _list_units(workload: Workload) -> Iterator[tuple[str, float]]:
    """Yield the write units of an event in the table, and in each index that takes any."""
    yield "the table", workload.event_units
    for index in workload.stream.global_indexes:
        if units := workload.count_units_in(index):
            yield f"the index {index.name}", units


def _list_key_walls(workload: Workload) -> Iterator[Wall]:
    """Yield the walls of partition keys that all events share. The series or values of a stream are not known."""
    stream = workload.stream
    units, most = workload.event_units, f"a partition key takes {PARTITION_UNITS:,} write units per second"
    if stream.key.partition_by == "time":
        shards = stream.key.shards
        yield Wall(
            f"the bucket's {shards} shard{'s' if shards > 1 else ''}",
            shards * PARTITION_UNITS / units,
            f"{most}, and an event {units:g}: raise key.shards, which may be 256",
        )
    for index in stream.global_indexes:
        taken = workload.count_units_in(index)
        if index.partition_by == WHOLE and taken:
            yield Wall(
                f"the index {index.name} with {index.shards} shard{'s' if index.shards > 1 else ''}",
                index.shards * PARTITION_UNITS / taken,
                f"{most}, and an event {taken:g} on average: raise the index's shards",
            )


def _list_unit_walls(workload: Workload) -> Iterator[Wall]:
    """Yield the walls of the units that the configuration gives to open tables and their indexes."""
    capacity, units = workload.stream.capacity, dict(_list_units(workload))
    step = capacity.ladder[0]
    if capacity.begins_on_demand:
        if capacity.most is not None:
            for name, taken in units.items():
                how = (
                    f"capacity.max allows {capacity.most.write:,} write units per second, and an event takes {taken:g}"
                )
                yield Wall(f"{name}'s capacity.max", capacity.most.write / taken, f"{how}: raise it")
        return
    own = {name: (step_units.write, step_units.read) for name, step_units in step.index.items()}
    given = {"the table": (step.write or 0, 0)} | {
        f"the index {index.name}": find_index_units(index.name, own, (step.write or 0, 0))
        for index in workload.stream.global_indexes
    }
    for name, taken in units.items():
        write = capacity.find_most_writes(given[name][0])
        yield Wall(
            f"{name}'s capacity",
            write / taken,
            f"the ladder gives an open table {write:,} write units per second, and an event takes {taken:g}: raise write, or"
            ' use mode = "on-demand"',
        )


def _list_stage_walls(workload: Workload, config: Config) -> Iterator[Wall]:
    """Yield the walls of the gateway. The loader refuses a configuration with more tables than the account may have."""
    queries, each = workload.queries_per_second, ""
    if config.api.by_key:
        each = f"; a key without a rate of its own has {config.api.rate_per_key:g}"
    yield Wall(
        "the gateway",
        max(config.api.rate - queries, 0.0) * workload.batch,
        f"[api] rate lets {config.api.rate:g} requests per second through, of which queries take {queries:g}, with"
        f" {workload.batch:,} events each: send larger requests, or raise rate (AWS gives an account 10,000){each}",
    )
    if workload.batch > config.api.max_events:
        yield Wall(
            f"requests of {workload.batch:,} events",
            0.0,
            f"[api] max_events lets a request have {config.api.max_events:,}: send smaller requests, or raise max_events",
        )
