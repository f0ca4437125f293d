"""What there is: the streams, and the tables of one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from tidetable.catalog import Entry
from tidetable.config import Config, Stream
from tidetable.keys import Layout
from tidetable.ports import CatalogReader, Table, Tables
from tidetable.times import to_text

_CONCURRENCY = 16


def describe_streams(config: Config, now: datetime) -> dict[str, Any]:
    """Every stream with its policy and its writable window."""
    return {"streams": [_stream(stream, now) for stream in config.streams.values()]}


def describe_periods(stream: Stream, catalog: CatalogReader, tables: Tables) -> dict[str, Any]:
    """Every period of a stream, newest first, with its table as DynamoDB describes it now."""
    entries = sorted(catalog.entries(stream.name), key=lambda entry: entry.period.start, reverse=True)
    with ThreadPoolExecutor(_CONCURRENCY) as pool:
        described: Iterable[Table | None] = pool.map(
            lambda entry: tables.describe(entry.table) if entry.live else None, entries
        )
        return {"periods": [_period(entry, table) for entry, table in zip(entries, described, strict=True)]}


def _stream(stream: Stream, now: datetime) -> dict[str, Any]:
    return {
        "stream": stream.name,
        "period": stream.period.value,
        "late": str(stream.late),
        "ahead": str(stream.ahead),
        "retention": stream.retention,
        "on_expiry": stream.on_expiry,
        "layout": _layout(stream.layout),
        "window": {"oldest": to_text(now - stream.late), "newest": to_text(now + stream.ahead)},
    }


def _layout(layout: Layout) -> Mapping[str, Any]:
    return {
        "partition_by": layout.partition_by,
        "bucket_seconds": layout.bucket or None,
        "shards": layout.shards,
        "shard_by": layout.shard_by,
    }


def _period(entry: Entry, table: Table | None) -> dict[str, Any]:
    document: dict[str, Any] = {
        "period": entry.period.label,
        "start": to_text(entry.period.start),
        "end": to_text(entry.period.end),
        "state": entry.state.value,
        "table": entry.table,
        "layout": _layout(entry.layout),
        "capacity": None,
        "archive": None,
    }
    if table is not None:
        document["capacity"] = {
            "mode": "on-demand" if table.on_demand else "provisioned",
            "write": table.write,
            "read": table.read,
            "class": table.table_class.value,
        }
        # DynamoDB refreshes these about every six hours.
        document |= {"status": table.status, "size_bytes": table.size_bytes, "item_count": table.item_count}
    if entry.archive is not None:
        facts = entry.archive
        document["archive"] = {"manifest": facts.manifest, "events": facts.events, "bytes": facts.bytes}
        if facts.expired_at is not None:
            document["archive"]["expired_at"] = to_text(facts.expired_at)
    return document
