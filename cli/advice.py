"""Describe the streams of a valid configuration, and warn about unusual settings. All functions here are pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from math import ceil

from tidetable.config import Config, Stream
from tidetable.config.demand import EVENTS_PER_SHARD, SHORTEST, give_advice

_MANY_PARTITIONS = 48
_SLOW_EXPORT = timedelta(days=1)


def describe_stream(stream: Stream) -> str:
    """Describe a stream's layout in one line."""
    layout = f"by {stream.key.partition_by}, {stream.key.shards} {'shard' if stream.key.shards == 1 else 'shards'}"
    bucket = f", buckets of {stream.key.bucket}" if stream.key.bucket is not None else ""
    indexes = f", indexes: {', '.join(index.name for index in stream.index)}" if stream.index else ""
    mode = "on demand" if stream.capacity.mode == "on-demand" else "provisioned"
    packs = f", packs of up to {stream.pack.span}" if stream.pack is not None else ""
    until = f" up to {stream.key.shard_until}" if stream.key.shard_until else ""
    packs += f" by the suffix of the series{until}" if packs and stream.key.shard_by == "series" else ""
    return f"a table per {stream.period.value}, partitioned {layout}{bucket}, {mode}{indexes}{packs}"


def warn_about(config: Config) -> list[str]:
    """List the warnings of the synth, and warnings about unusual settings.

    Each warning names the key and the remedy.
    """
    warnings = [
        f"streams.{name}.{warning}"
        for name, stream in config.streams.items()
        for warning in _warn_about_stream(stream, config)
    ]
    return give_advice(config) + warnings + [*_warn_about_instances(config)]


def _warn_about_instances(config: Config) -> Iterator[str]:
    """Warn about OpenTelemetry's default series in streams partitioned by series that may get it, once for all of them."""
    doors = config.doors
    named = {name for name in (doors.otlp_metrics, doors.otlp_logs) if name}
    begun = [
        name
        for name, stream in config.streams.items()
        if doors.otlp
        and stream.key.partition_by == "series"
        and not (stream.source or stream.otlp.series)
        and (not named or name in named)
    ]
    if begun:
        others = f"; the same holds for {', '.join(begun[1:])}" if begun[1:] else ""
        yield (
            f"streams.{begun[0]}.otlp.series: by default a series has all attributes, also service.instance.id, which SDKs draw "
            "anew at each start: each restart begins new series, and a query must name its series. Name the attributes, such as "
            '["service.name", "host.name"]; with replicas on one host, name one that tells them apart, such as "k8s.pod.name"'
            f"{others}"
        )


def _warn_about_stream(stream: Stream, config: Config) -> Iterator[str]:
    if stream.key.bucket is not None:
        partitions = ceil(timedelta(days=1) / stream.key.bucket) * stream.key.shards
        if partitions > _MANY_PARTITIONS:
            yield (
                f"key: a query over a day reads {partitions} partitions (a day / bucket x shards), one request each: take a "
                "longer bucket unless a bucket takes more than 1,000 write units per second and shard"
            )
    if stream.pack is not None and stream.key.partition_by == "series" and not stream.source:
        yield (
            "pack: a table by series has packs of one series each, so a request with 500 series takes 500 write units, as many "
            'as without packs: take partition_by = "time" and shard_by = "series", or send many events of few series in a '
            "request; `cost --series-per-request` prices both"
        )
    most = config.api.max_events // EVENTS_PER_SHARD
    if stream.pack is not None and stream.key.shard_by == "series" and stream.key.shards > max(most, 1):
        yield (
            f"key.shards: {stream.key.shards} shards divide a request of {config.api.max_events:,} events (api.max_events) into "
            f"packs of less than {EVENTS_PER_SHARD}, which take a write unit each: take a shard per {EVENTS_PER_SHARD} events of "
            f"a request, {max(most, 1)} at the most"
        )
    capacity = stream.capacity
    provisioned = not capacity.begins_on_demand
    if provisioned and capacity.late_step is None and stream.late > 2 * SHORTEST[stream.period]:
        open_tables = 1 + ceil(stream.late / SHORTEST[stream.period])
        yield (
            f'late: {open_tables} tables are open at once, each with the units of age 0: add a step with age = "late" to the '
            "ladder, which lowers tables whose period is over; or choose a shorter late, or on-demand tables"
        )
    yield from _warn_about_export(stream)


def _warn_about_export(stream: Stream) -> Iterator[str]:
    """Warn about a slow export. Without ``read_units``, tables are switched to on-demand mode for their export."""
    units = stream.archive.read_units
    step = stream.capacity.step_at(max(1, stream.retention))
    if units is None or stream.on_expiry != "archive" or stream.capacity.on_demand(step):
        return
    units = max(units, step.read or 0)
    needed = timedelta(seconds=1e9 / (units * stream.archive.read_share * 4096))
    if needed > _SLOW_EXPORT:
        yield (
            f"archive.read_units: {units} read units at read_share = {stream.archive.read_share:g} export a gigabyte in "
            f"{needed / timedelta(days=1):.1f} days: remove read_units, so that tables are switched to on-demand for their "
            "export, or choose a value such as 400"
        )
