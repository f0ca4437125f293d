"""A stream of five days with another layout each day, some of them archived, and the same events in DuckDB."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa

from aws.zstd import Zstd
from tests.fakes import FakeStore
from tests.worlds.days import Days
from tidetable.config import Stream, parse
from tidetable.events import Event, Item
from tidetable.exact_json import encode_json
from tidetable.layout import Layout
from tidetable.periods import Kind, find_containing
from tidetable.query import Reader
from tidetable.times import to_text

START = datetime(2026, 3, 1, tzinfo=UTC)
NOW = datetime(2026, 3, 6, tzinfo=UTC)
DAYS = 5
ARCHIVED = (0, 2)
_INDEXES = """
[[streams.s.index]]
name = "by_status"
partition_by = "status"
shards = 3
[[streams.s.index]]
name = "narrow"
partition_by = "place.state"
project = ["place", "mag"]
[[streams.s.index]]
name = "by_kind"
kind = "type"
partition_by = { order = "customer", refund = "order" }
project = "keys"
[[streams.s.index]]
name = "best"
partition_by = "status"
sort_by = "mag"
shards = 4
project = ["status"]
[[streams.s.index]]
name = "best_of_all"
partition_by = "*"
sort_by = "mag"
shards = 2
[[streams.s.index]]
name = "replica"
replica = true
"""
_STREAM = """
[streams.s]
period = "day"
late = "5d"
retention = 9
"""
BY_TIME = 'key = { partition_by = "time", bucket = "6h", shards = 4 }'
BY_SERIES = 'key = { partition_by = "series", shards = 3 }'
EVERYTHING = '[[streams.s.index]]\nname = "everything"\npartition_by = "*"\nshards = 2\n'


def stream(key: str, indexes: str = _INDEXES) -> Stream:
    """The policy of the stream."""
    return parse(_STREAM + key + indexes).streams["s"]


# The days' layouts; the last is the stream's own. One has large values, one has no indexes.
TIMELY = stream(BY_TIME)
SERIAL = stream(BY_SERIES, _INDEXES + EVERYTHING)
COLUMNS = (
    "series VARCHAR, time TIMESTAMPTZ, id VARCHAR, mag DECIMAL(18,4), status VARCHAR, state VARCHAR, type VARCHAR, "
    "customer VARCHAR, ok BOOLEAN"
)


@dataclass
class StoredEvents:
    """The events in tables, archives and DuckDB."""

    policy: Stream
    events: Sequence[Event]
    layouts: Sequence[Layout]
    store: FakeStore = field(init=False)
    reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        days = Days()
        self.store, self.reader = days.store, days.reader
        for day in range(DAYS):
            period, layout = find_containing(START + timedelta(days=day), Kind.DAY), self.layouts[day]
            mine = [event for event in self.events if event.time in period]
            if day in ARCHIVED:
                days.add_archive(period, layout, mine)
            else:
                days.add_table(
                    period, layout, [self._packed(layout.make_item(event), n) for n, event in enumerate(mine)]
                )

    def _packed(self, item: Item, number: int) -> Item:
        """Every tenth event's data is compressed."""
        if number % 10:
            return item
        packed = Zstd().compress(encode_json(item["data"]))
        return {**{name: value for name, value in item.items() if name != "data"}, "z": packed}

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        """Query the same events in SQL, as the table ``e``."""
        rows = [
            {
                "series": event.series,
                "time": to_text(event.time),
                "id": event.id,
                "mag": event.data.get("mag"),
                "status": event.data.get("status"),
                "state": event.data.get("place", {}).get("state"),
                "type": event.data.get("type"),
                "customer": event.data.get("customer"),
                "ok": event.data.get("ok"),
            }
            for event in self.events
        ]
        base = _connect()
        base.execute(f"CREATE OR REPLACE TABLE e ({COLUMNS})")
        if rows:
            base.register("given", pa.Table.from_pylist([json.loads(encode_json(row)) for row in rows]))
            base.execute("INSERT INTO e BY NAME SELECT * FROM given")
            base.unregister("given")
        return base.execute(query).fetchall()


@cache
def _connect() -> duckdb.DuckDBPyConnection:
    """One database per process: to make one takes longer than to ask it."""
    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'")
    base.execute("SET threads = 1")
    return base
