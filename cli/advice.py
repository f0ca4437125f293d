"""What a valid configuration will need, and what in it is rarely meant. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from math import ceil

from tidetable.config import Config, Stream
from tidetable.keys import TIME
from tidetable.lifecycle.expiry import SETTLE
from tidetable.periods import Kind

# DynamoDB's default quota per Region (docs.aws.amazon.com: Quotas in Amazon DynamoDB).
TABLE_QUOTA = 2500
_SHORTEST = {
    Kind.HOUR: timedelta(hours=1),
    Kind.DAY: timedelta(days=1),
    Kind.WEEK: timedelta(days=7),
    Kind.MONTH: timedelta(days=28),
}
_MANY_PARTITIONS = 48
_SLOW_EXPORT = timedelta(days=1)


def count_tables(stream: Stream, grace: timedelta) -> int:
    """Tables that the stream has at the most once it is in full use: ahead, open, kept, and archived but not deleted yet."""
    length = _SHORTEST[stream.period]
    kept = max(stream.retention, 1 + (stream.late + SETTLE) // length)
    waits = ceil((grace + SETTLE) / length) if stream.on_expiry == "archive" else 1
    return stream.premake + ceil(stream.ahead / length) + 1 + kept + waits


def describe_stream(stream: Stream) -> str:
    """A stream's layout in one line."""
    layout = f"by {stream.key.partition_by}, {stream.key.shards} {'shard' if stream.key.shards == 1 else 'shards'}"
    bucket = f", buckets of {stream.key.bucket}" if stream.key.bucket is not None else ""
    indexes = f", indexes: {', '.join(index.name for index in stream.index)}" if stream.index else ""
    mode = "on demand" if stream.capacity.mode == "on-demand" else "provisioned"
    return f"a table per {stream.period.value}, partitioned {layout}{bucket}, {mode}{indexes}"


def warn_about(config: Config) -> list[str]:
    """Each with the key and what to do, most costly first."""
    found = []
    tables = sum(count_tables(stream, config.lifecycle.delete_grace) for stream in config.streams.values())
    if tables > 0.8 * TABLE_QUOTA:
        found.append(
            f"{tables:,} tables are close to or above DynamoDB's quota of {TABLE_QUOTA:,} per Region: take a longer period or a "
            "shorter retention, or have the quota raised"
        )
    leaving = [name for name, stream in config.streams.items() if stream.on_expiry != "keep"]
    if leaving and not config.lifecycle.delete_expired:
        found.append(
            f"lifecycle.delete_expired is false, its default: expired tables of {', '.join(leaving)} are never deleted, and "
            "their number grows; set it to true"
        )
    for name, stream in config.streams.items():
        found += [f"streams.{name}.{warning}" for warning in _of_stream(stream)]
    return found


def _of_stream(stream: Stream) -> Iterator[str]:
    for index in stream.index:
        if stream.key.partition_by == "time" and index.partition_by == "*" and index.sort_by == TIME:
            yield (
                f"index {index.name}: all events by time is the order that the table has; it costs each event a second time "
                "and answers nothing new: remove it"
            )
    if stream.key.bucket is not None:
        partitions = ceil(timedelta(days=1) / stream.key.bucket) * stream.key.shards
        if partitions > _MANY_PARTITIONS:
            yield (
                f"key: a query over a day asks {partitions} partitions (a day / bucket x shards), each a request: take a longer "
                "bucket unless a bucket takes more than 1,000 write units per second and shard"
            )
    if stream.capacity.mode == "provisioned" and stream.late > 2 * _SHORTEST[stream.period]:
        open_tables = 1 + ceil(stream.late / _SHORTEST[stream.period])
        yield (
            f"late: {open_tables} tables are open at once, each with the units of age 0: keep late short in provisioned mode, "
            "or take on-demand"
        )
    yield from _slow_export(stream)


def _slow_export(stream: Stream) -> Iterator[str]:
    step = stream.capacity.step_at(max(1, stream.retention))
    if stream.on_expiry != "archive" or stream.capacity.on_demand(step) or step.read is None:
        return
    units = max(step.read, stream.archive.read_units or 0)
    needed = timedelta(seconds=1e9 / (units * stream.archive.read_share * 4096))
    if needed > _SLOW_EXPORT:
        yield (
            f"archive: {units} read units at read_share = {stream.archive.read_share:g} export a gigabyte in "
            f"{needed / timedelta(days=1):.1f} days: set read_units, such as 400"
        )
