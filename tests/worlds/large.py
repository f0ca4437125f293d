"""Streams with large events, cold fields and versions: their events, an object without an item, and a query of all."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fakes.noise import noise
from tests.fakes.stage import Stage
from tidetable.catalog import Entry, State
from tidetable.ingest.outcome import Outcome
from tidetable.layout import Key, Layout
from tidetable.periods import Kind, Period
from tidetable.ports import Blob
from tidetable.query import parse_query, run_query
from tidetable.times import to_text

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
[streams.chunked]
period = "day"
late = "1d"
retention = 5
cold = ["raw"]
large = { compress_above = 1024, beyond = "chunks" }
key = { partition_by = "time", bucket = "6h", shards = 2 }
index = [{ name = "by_kind", partition_by = "kind" }]
[streams.stored]
period = "day"
late = "1d"
retention = 5
large = { beyond = "s3" }
key = { partition_by = "series", shards = 2 }
[streams.kept]
period = "day"
late = "1d"
retention = 5
versions = "keep"
large = { beyond = "s3" }
key = { partition_by = "time", bucket = "6h", shards = 2 }
index = [{ name = "by_kind", partition_by = "kind" }]
[streams.texts]
period = "day"
late = "1d"
retention = 5
versions = "keep"
cold = ["raw"]
large = { compress_above = 1024, beyond = "chunks" }
key = { partition_by = "series", shards = 2 }
[streams.history]
period = "day"
late = "1d"
retention = 5
versions = "keep"
key = { partition_by = "series", shards = 2 }
"""
DAY = "2026-03-15"
STREAMS = ("chunked", "stored", "kept", "texts")


def built() -> Stage:
    stage = Stage(NOON, CONFIG)
    stage.part_bytes = 10**7
    ready(stage)
    return stage


def ready(stage: Stage) -> None:
    """Run the lifecycle until it has nothing to do: AWS limits the number of creations at a time."""
    while stage.run_lifecycle().done:
        stage.clock.sleep(10)


def event(number: int, data: dict[str, Any], series: str = "a") -> dict[str, Any]:
    return {"series": series, "id": f"e{number}", "time": to_text(NOON - timedelta(minutes=number)), "data": data}


SENT = [
    event(0, {"kind": "small", "n": 1}),
    event(1, {"kind": "loose", "text": "tide " * 1000, "raw": "cold " * 400}),
    event(2, {"kind": "large", "text": noise(900_000), "raw": noise(600)}),
    event(3, {"kind": "large", "text": noise(500_000, 3), "list": [1, 2.5, None]}),
]


def send(stage: Stage, stream: str, *events: dict[str, Any]) -> Outcome:
    return stage.send(stream, json.dumps(events).encode())


def ask(stage: Stage, stream: str, **parameters: str) -> list[dict[str, Any]]:
    """Read every event of a query, page by page."""
    stage.settle()
    policy, now, events = stage.config.streams[stream], stage.clock.now(), list[dict[str, Any]]()
    query_string = {
        "from": [to_text(NOON - timedelta(days=1))],
        "to": [to_text(NOON + timedelta(days=1))],
        "series": ["a"],
    }
    query_string |= {name: [value] for name, value in parameters.items()}
    while True:
        query = parse_query(policy, query_string, now, stage.seal)
        answer: Any = run_query(query, policy, stage.reader(), now, lambda: 100.0).document()
        events += answer["events"]
        if answer["next"] is None:
            return events
        query_string = {"cursor": [answer["next"]], "limit": query_string.get("limit", ["100"])}


def age(stage: Stage) -> None:
    """Run the lifecycle for more than three hours."""
    for _ in range(40):
        stage.run_lifecycle()
        stage.clock.sleep(300)


def read_entry(stage: Stage) -> Entry:
    return next(entry for entry in stage.catalog.entries("stored", consistent=True) if entry.period.label == DAY)


def orphan(stage: Stage, stream: str, number: int) -> Blob:
    """An object in the bucket whose item was never written."""
    key = f"large/stream={stream}/period={DAY}/{number:x}{number:x}/lost"
    return Blob(key, b"x", Key("a#0", "2026-03-15T00:00:00.000000Z#never"))


def make_entry(layout: Layout) -> Entry:
    """The open period of 1 March 2026 of a stream "s"."""
    start = datetime(2026, 3, 1, tzinfo=UTC)
    return Entry("s", Period(start, Kind.DAY), "tidetable-t.s.2026-03-01", layout, State.OPEN, start)
