"""The streams of rollups: each rollup of the configuration becomes a stream with tables, an archive and a policy."""

from __future__ import annotations

from datetime import timedelta

from tidetable.config.capacity import Capacity
from tidetable.config.model import Stream
from tidetable.config.stream import KeyPolicy, PackPolicy, RollupPolicy, TablePolicy
from tidetable.durations import Duration
from tidetable.periods import LONGEST, Kind

# A bucket is sealed after its last event may have come, and after a pause of the pipeline of up to this time.
_SLACK = Duration(days=1)
_HOUR, _DAY = Duration(hours=1), Duration(days=1)
_PACK_BYTES = 65_536
# The days of the months, from January on, in a year without 29 February.
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def derive_name(stream: str, rollup: RollupPolicy) -> str:
    """Return the name of a rollup's stream, such as ``quakes-hours``."""
    return f"{stream}-{rollup.name}"


def add_rollups(streams: dict[str, Stream]) -> dict[str, Stream]:
    """Add the streams of all rollups of these streams.

    A rollup's stream never takes the place of one of these streams; ``check`` reports the collision.
    """
    derived = [derive_stream(stream, rollup) for stream in streams.values() for rollup in stream.rollup]
    return streams | {stream.name: stream for stream in derived} | streams


def derive_stream(source: Stream, rollup: RollupPolicy) -> Stream:
    """Return the stream of a rollup.

    The stream is partitioned by time, packed and on demand. It takes all settings for which a rollup has no key from
    the source.
    """
    kind = rollup.kind
    bucket = _HOUR if rollup.every < _HOUR or kind is Kind.HOUR else _DAY
    return Stream(
        name=derive_name(source.name, rollup),
        source=source.name,
        period=kind,
        late=derive_late(source),
        retention=count_periods_within(rollup.retention, kind),
        on_expiry=rollup.on_expiry,
        removal=source.removal,
        replicas=source.replicas,
        key=KeyPolicy(partition_by="time", bucket=bucket),
        # All cells of a bucket have one time, so a pack may hold a whole bucket.
        pack=PackPolicy(span=rollup.every, max_bytes=_PACK_BYTES),
        capacity=Capacity(mode="on-demand"),
        table=TablePolicy(encryption=source.table.encryption, tags=source.table.tags),
    )


def derive_late(source: Stream) -> Duration:
    """Return the ``late`` of a rollup's stream: ``late`` of the source, plus the time until a bucket is sealed anew."""
    return Duration(seconds=int((source.late + _SLACK).total_seconds()))


def count_periods_within(length: timedelta, kind: Kind) -> int:
    """Return the least number of whole periods that always take this long, at least 1: any 24 months are at least 730
    days.
    """
    if kind is not Kind.MONTH:
        return max(-(-length // LONGEST[kind]), 1)
    days = -(-length // timedelta(days=1))
    months = max(days // 366 * 12, 1)
    # The fewest days that so many months have, from any month on.
    while months // 12 * 365 + min(sum((_MONTHS * 2)[start : start + months % 12]) for start in range(12)) < days:
        months += 1
    return months
