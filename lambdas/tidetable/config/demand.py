"""The number of tables that a configuration needs at once, and advice on settings that are allowed but unlikely."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from tidetable.config.capacity import LATE_SETTLE
from tidetable.config.model import Config, Stream
from tidetable.config.stage import LifecyclePolicy
from tidetable.layout import TIME, WHOLE
from tidetable.periods import LONGEST, Kind

# The shortest length of each kind of period: it gives the greatest number of tables. February has 28 days.
SHORTEST = LONGEST | {Kind.MONTH: timedelta(days=28)}
_YEAR = timedelta(days=365)
# AWS: the greatest size of an item collection, in bytes, in a table with local indexes; and the greatest write units of
# its partition.
COLLECTION_BYTES = 10 * 1024**3
PARTITION_UNITS = 1_000
# If the suffixes of packs follow from the series, a request has a pack per shard. About so many small events take one
# write unit (bench/sensors.py).
EVENTS_PER_SHARD = 30
# The share of the quota at which alarm TableQuotaNear rings.
NEAR = 0.8


@dataclass(frozen=True, slots=True)
class TableDemand:
    """The greatest number of tables that a stream has at once: its period tables and the tables beside them.

    ``yearly`` is the number of tables that are added each year if the stream's tables are never deleted, otherwise 0.
    Tables for backfills and of restored periods are not counted.
    """

    stream: str
    tables: int
    yearly: int = 0


def compute_demand(stream: Stream, policy: LifecyclePolicy) -> TableDemand:
    """Count the tables that a stream has at the same time.

    These are the tables of the kept periods, of the present period, and of the periods that may get events ahead of the
    clock. After them come the premade tables. One more table is counted: it is deleted when the next period begins.
    """
    length = SHORTEST[stream.period]
    tables_per_period = 2 if stream.layout.parts else 1
    ahead = stream.ahead // length + stream.premake
    tables = (-(-measure_keeping(stream, policy) // length) + 1 + ahead + 1) * tables_per_period
    return TableDemand(
        stream.name, tables, 0 if is_ever_deleted(stream, policy) else -(-_YEAR // length) * tables_per_period
    )


def is_ever_deleted(stream: Stream, policy: LifecyclePolicy) -> bool:
    """True if the stream's tables are ever deleted."""
    return policy.delete_expired and stream.on_expiry != "keep"


def measure_keeping(stream: Stream, policy: LifecyclePolicy) -> timedelta:
    """Return the time from a period's end to the deletion of its table."""
    grace = policy.delete_grace if stream.on_expiry == "archive" else timedelta(0)
    return max(stream.retention * SHORTEST[stream.period], stream.late) + grace


def list_demands(config: Config) -> list[TableDemand]:
    """List the tables that each stream needs."""
    return [compute_demand(stream, config.lifecycle) for stream in config.streams.values()]


def describe_tables(config: Config) -> str:
    """Describe in one line how many tables the configuration needs."""
    needed = list_demands(config)
    each = ", ".join(f"{need.stream} {need.tables:,}{' and growing' if need.yearly else ''}" for need in needed)
    return f"tables at once: {sum(need.tables for need in needed):,} of {config.lifecycle.table_quota:,} ({each})"


def list_remarks(config: Config) -> list[str]:
    """List the notes to print when the configuration is synthesised, one line each."""
    return [describe_tables(config), *(f"warning: {line}" for line in give_advice(config))]


def give_advice(config: Config) -> list[str]:
    """List the settings that can be deployed but are probably not intended, each with its key and its fix."""
    return list(_advise(config))


def _advise(config: Config) -> Iterator[str]:
    api, policy = config.api, config.lifecycle
    if api.burst < api.rate:
        yield (
            f"api.burst: {api.burst} is less than the rate of {api.rate:g}, so requests that come together never reach this"
            " rate; choose at least the rate"
        )
    if policy.delete_expired and not policy.delete_grace:
        yield (
            'lifecycle.delete_grace: with "0s" a table is deleted by the run that archived it; choose such as "1d", so that a'
            " mistake can be noticed"
        )
    needed = list_demands(config)
    total, yearly = sum(need.tables for need in needed), sum(need.yearly for need in needed)
    if yearly:
        names = ", ".join(need.stream for need in needed if need.yearly)
        days = max(policy.table_quota - total, 0) * 365 // yearly
        yield (
            f"lifecycle.table_quota: tables of {names} are never deleted; {yearly:,} more per year, so that the quota of"
            f" {policy.table_quota:,} is reached in about {days:,} days; set lifecycle.delete_expired = true and on_expiry"
            ' = "archive" or "delete"'
        )
    elif total > NEAR * policy.table_quota:
        yield (
            f"lifecycle.table_quota: {total:,} tables at once are near the quota of {policy.table_quota:,}, and backfills need"
            " more; alarm TableQuotaNear will ring"
        )
    for stream in config.streams.values():
        yield from _advise_stream(stream, policy)


def _advise_stream(stream: Stream, policy: LifecyclePolicy) -> Iterator[str]:
    path = f"streams.{stream.name}"
    if is_ever_deleted(stream, policy):
        oldest = (measure_keeping(stream, policy) - stream.late) // SHORTEST[stream.period] + 1
        for step in stream.capacity.ladder:
            if step.rung > (oldest, True):
                yield (
                    f"{path}.capacity.ladder (age = {step.age}): no table gets so old; with this retention the oldest is"
                    f" {oldest}: remove the step or raise retention"
                )
    yield from _advise_late_step(stream, f"{path}.capacity.ladder")
    for index in stream.index:
        if index.local:
            yield from _advise_local(stream, f"{path}.index.{index.name}")
        if stream.key.partition_by == "time" and (index.partition_by, index.sort_by) == (WHOLE, TIME):
            yield (
                f'{path}.index.{index.name}: a stream partitioned by "time" answers the same queries without this index, which'
                " doubles the write units; remove it, or set sort_by to a field that holds numbers"
            )


def _advise_local(stream: Stream, path: str) -> Iterator[str]:
    """Warn if the table's write units (1 KB each) can bring more than 10 GB to a suffix of a bucket.

    The 10 GB include copies in local indexes. Streams partitioned by series, and on-demand tables without maxima, are
    not checked: the configuration does not say how many events a series or such a table gets.
    """
    bucket, capacity = stream.key.bucket, stream.capacity
    if stream.key.partition_by != "time" or bucket is None:
        return
    if capacity.begins_on_demand:
        most = 0 if capacity.most is None else capacity.most.write
    else:
        most = capacity.find_most_writes(capacity.ladder[0].write or 0)
    seconds = int(bucket.total_seconds())
    size = min(most / stream.key.shards, PARTITION_UNITS) * seconds * 1024
    if size > COLLECTION_BYTES:
        shards = -(-most * seconds * 1024 // COLLECTION_BYTES)
        more = f"; {shards} shards suffice" if shards <= 256 else ""
        yield (
            f"{path}: at {most:,} write units per second a suffix of a bucket of {bucket} may get {size / 1024**3:,.0f} GB,"
            " and with a local index DynamoDB takes 10 GB; further events become dead letters: choose a shorter bucket or more"
            f" shards{more}"
        )


def _advise_late_step(stream: Stream, path: str) -> Iterator[str]:
    first, late = stream.capacity.ladder[0], stream.capacity.late_step
    if late is None:
        return
    if stream.late <= LATE_SETTLE:
        minutes = LATE_SETTLE // timedelta(minutes=1)
        yield (
            f"{path} (age = late): it holds from {minutes} minutes after the period's end, but with late = {stream.late} the"
            " table is closed by then; remove the step or raise late"
        )
    if late.read is not None and first.read is not None and late.read > first.read:
        yield (
            f"{path} (age = late).read: {late.read} is more than the {first.read} of age = 0: the table costs more to read once"
            " its period is over; lower it unless you mean this"
        )
