"""The rebuild of a day of hourly or of ten-minute buckets, from a table or from an archive, on the strict service.

It counts the requests and units of everything: the order, the turn of the stream, and the pieces. Requests to the bucket
of the archive are not counted. One run computes all pieces, in passes and with every bucket read by itself. More workers
divide the same requests.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

from tests.fakes.stage import Stage
from tidetable.rollup_model.cover import find_present
from tidetable.rollups import rebuild_turn
from tidetable.rollups.rebuild import list_rebuilds, order_rebuild
from tidetable.times import to_text

START = datetime(2026, 3, 2, tzinfo=UTC)
DAY = timedelta(days=1)
STREAM = """
[streams.s]
period = "day"
late = "1h"
retention = 1
key = {{ partition_by = "time", bucket = "1h", shards = {shards} }}
[[streams.s.rollup]]
name = "r"
every = "{every}"
by = ["series"]
fields = ["mag"]
stats = ["count", "sum", "min", "max"]
retention = "90d"
"""
EVENTS, SERIES = 7_200, 20


class Meter:
    """Counts requests and units by operation."""

    def __init__(self, stage: Stage) -> None:
        self.requests, self.units = Counter[str](), Counter[str]()
        self._call = stage.dynamo.call
        stage.dynamo.call = self.call  # type: ignore[method-assign]

    def call(self, operation: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a request, and count it."""
        answer = self._call(operation, {**payload, "ReturnConsumedCapacity": "TOTAL"})
        self.requests[operation] += 1
        consumed = answer.get("ConsumedCapacity") or []
        for one in consumed if isinstance(consumed, list) else [consumed]:
            is_read = operation in ("Query", "GetItem", "BatchGetItem", "Scan")
            self.units["read" if is_read else "write"] += one["CapacityUnits"]
        return answer


def build_day(every: str, shards: int, *, archived: bool) -> Stage:
    """A day with events, and a rollup that begins after it."""
    stage = Stage(START, STREAM.format(every=every, shards=shards))
    stage.run_lifecycle()
    for minute in range(24 * 60):
        at = stage.clock.now()
        events = [
            {
                "series": f"device-{(minute * 5 + number) % SERIES:04}",
                "time": to_text(at - timedelta(seconds=10 * number)),
                "id": f"{minute}-{number}",
                "data": {"mag": number},
            }
            for number in range(EVENTS // 1_440)
        ]
        if minute:
            stage.send("s", json.dumps(events).encode())
        if minute % 60 == 0:
            stage.run_lifecycle()
        stage.clock.sleep(60)
    stage.run_lifecycle()
    # As if it was a new rollup of an old stream: that of a new stream begins with it.
    stage.rollups.forget("s", "r")
    stage.refresh()
    for _ in range(14 if not archived else 5 * 24):
        stage.clock.sleep(1_800)
        stage.run_lifecycle()
        stage.refresh()
    return stage


def rebuild_day(every: str, shards: int, *, together: int, archived: bool = False) -> None:
    """Rebuild the day, and print what it took."""
    stage = build_day(every, shards, archived=archived)
    rebuild_turn.MOST_TOGETHER = together
    services = stage.pipeline.refresher(lambda: 290.0)
    (definition,) = stage.pipeline.definitions["s"]
    version = find_present(definition, stage.rollups.read_state("s"))
    assert version is not None
    buckets = (version.start - START) // definition.every
    states = {str(entry.state) for entry in stage.catalog.entries("s", START, START + DAY, consistent=True)}
    meter = Meter(stage)
    order_rebuild(version, START, START + DAY, services)
    report = stage.refresh()
    assert report is not None
    assert (report.rebuilt, report.failed, report.blocked) == (buckets, [], []), report
    assert list_rebuilds(services, "s") == []
    requests, units = meter.requests, meter.units
    print(
        f"| {every} | {shards} | {' and '.join(sorted(states))} | {together} | {buckets}"
        f" | {requests.total()} | {requests.total() / buckets:.1f} | {requests['Query'] / buckets:.1f}"
        f" | {units['read'] / buckets:.1f} | {units['write'] / buckets:.1f} |"
    )


def main() -> None:
    """Print a row for each kind of rebuild."""
    print(
        "| every | shards | periods | read together | buckets | requests | per bucket | queries | read units | write units |"
    )
    for every in ("1h", "10m"):
        for shards in (2, 20):
            for together in (20, 1):
                rebuild_day(every, shards, together=together)
    rebuild_day("10m", 2, together=20, archived=True)


if __name__ == "__main__":
    main()
