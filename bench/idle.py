"""A minute of 500 streams with a rollup each, in which nothing is due: the calls of the scheduler, on the strict service."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

from bench.results import note_ratios
from tests.fakes.stage import Stage
from tests.fakes.work_queue import FakeWorkQueue
from tidetable.rollup_model.bounds import choose_lease_length
from tidetable.rollups.refresh import schedule_rollups

START = datetime(2026, 3, 2, tzinfo=UTC)
STREAM = """
[streams.s{number}]
period = "month"
late = "2h"
retention = 9
key = {{ partition_by = "time", bucket = "1h", shards = 2 }}
[[streams.s{number}.rollup]]
name = "hours"
every = "1h"
fields = ["mag"]
stats = ["count", "sum"]
retention = "9d"
"""
STREAMS, WORKERS, CALL = 500, 10, 0.005


def main() -> None:
    """Begin the rollups, wait until nothing is due, and count the calls of one run of the scheduler."""
    stage = Stage(
        START, "[lifecycle]\ntable_quota = 10000\n" + "".join(STREAM.format(number=number) for number in range(STREAMS))
    )
    pipeline = stage.pipeline
    length = choose_lease_length(timedelta(minutes=1))
    for _ in range(3):
        stage.refresh()
        stage.clock.sleep(60)
    services = pipeline.refresher(lambda: 60.0)
    before = sum(stage.dynamo.calls.values())
    found = schedule_rollups(pipeline.definitions, services, FakeWorkQueue(), WORKERS, length)
    calls = sum(stage.dynamo.calls.values()) - before
    assert found is not None
    assert (found[0].due, found[1].failed) == (0, []), found
    note_ratios(
        idle_streams_calls_per_minute=calls,
        idle_stream_calls_per_minute=calls / STREAMS,
        idle_streams_scheduler_seconds=calls * CALL,
    )


if __name__ == "__main__":
    main()
