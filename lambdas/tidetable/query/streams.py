"""What there is: the streams."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from tidetable.config import Config, Stream
from tidetable.keys import Layout
from tidetable.times import to_text


def describe_streams(config: Config, now: datetime) -> dict[str, Any]:
    """Every stream with its policy and its writable window."""
    return {"streams": [_stream(stream, now) for stream in config.streams.values()]}


def _stream(stream: Stream, now: datetime) -> dict[str, Any]:
    return {
        "stream": stream.name,
        "period": stream.period.value,
        "late": str(stream.late),
        "ahead": str(stream.ahead),
        "retention": stream.retention,
        "on_expiry": stream.on_expiry,
        "layout": describe_layout(stream.layout),
        "window": {"oldest": to_text(now - stream.late), "newest": to_text(now + stream.ahead)},
    }


def describe_layout(layout: Layout) -> Mapping[str, Any]:
    """A layout as the API shows it."""
    return {
        "partition_by": layout.partition_by,
        "bucket_seconds": layout.bucket or None,
        "shards": layout.shards,
        "shard_by": layout.shard_by,
        "pack": None if layout.pack is None else {"span_seconds": layout.pack.span, "max_bytes": layout.pack.max_bytes},
    }
