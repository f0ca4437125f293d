"""The streams that rollups are: each rollup of the configuration becomes a stream with tables, an archive and a policy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from tidetable.config.model import Capacity, KeyPolicy, PackPolicy, RollupPolicy, Stream, TablePolicy
from tidetable.durations import Duration
from tidetable.periods import LONGEST, Kind

# A bucket is sealed after its last event may have come, and after a pause of the pipeline of so long.
_SLACK = Duration(days=1)
_HOUR, _DAY = Duration(hours=1), Duration(days=1)
_PACK_BYTES = 65_536
# Days of the months that follow each other in a year without 29 February.
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def derive_name(stream: str, rollup: RollupPolicy) -> str:
    """The name of the stream that a rollup is, such as ``quakes-hours``."""
    return f"{stream}-{rollup.name}"


def derive_streams(streams: Mapping[str, Stream]) -> dict[str, Stream]:
    """The streams that the rollups of these streams are, by name. Where the names of two collide, the last is there."""
    derived = [derive_stream(stream, rollup) for stream in streams.values() for rollup in stream.rollup]
    return {stream.name: stream for stream in derived}


def derive_stream(source: Stream, rollup: RollupPolicy) -> Stream:
    """The stream that a rollup is.

    It is partitioned by time, packed and on demand. Its tables are as those of the source where a rollup has no key for it.
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
        pack=PackPolicy(span=max(rollup.every, Duration(seconds=1)), max_bytes=_PACK_BYTES),
        capacity=Capacity(mode="on-demand"),
        table=TablePolicy(encryption=source.table.encryption, tags=source.table.tags),
    )


def derive_late(source: Stream) -> Duration:
    """How late cells may be written: as late as an event of the source, and the time in which its bucket is sealed anew."""
    return Duration(seconds=int((source.late + _SLACK).total_seconds()))


def count_periods_within(length: timedelta, kind: Kind) -> int:
    """The fewest whole periods that take so long, whichever they are: 24 months are 730 days at the least. One at the least."""
    if kind is not Kind.MONTH:
        return max(-(-length // LONGEST[kind]), 1)
    days = -(-length // timedelta(days=1))
    months = max(days // 366 * 12, 1)
    while _count_least_days(months) < days:
        months += 1
    return months


def _count_least_days(months: int) -> int:
    years, rest = divmod(months, 12)
    return years * 365 + min(sum((_MONTHS * 2)[start : start + rest]) for start in range(12))
