"""GET /v1/activity: rates of whole minutes, the last write, the lag of rollups, and what a key of one stream sees."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.worlds.keyed import Door, open_door
from tidetable.activity import ActivitySources, Counted, describe_activity
from tidetable.work.claim import WorkItem

SECRET = "abcdefghijklmnopqrstuvwxyz012345"
ALL, ONE = f"tt_alloperate_{SECRET}", f"tt_oneoperate_{SECRET}"


@pytest.fixture
def door(tmp_path: Any) -> Iterator[Door]:
    for opened in open_door(tmp_path):
        opened.make(ALL, can=("operate",))
        opened.make(ONE, "quakes", can=("operate",))
        yield opened


def at(minute: int) -> datetime:
    return datetime(2026, 3, 15, 12, tzinfo=UTC) + timedelta(minutes=minute)


def activity(door: Door, key: str = ALL) -> Any:
    answer = door.call("GET", "/v1/activity", key)
    assert answer.status == 200, answer.body
    return answer.body


def test_rates_are_means_of_five_minutes_that_cloudwatch_has_whole(door: Door) -> None:
    # The request waits two seconds until it sees earlier writes.
    door.stage.clock.time = at(40) + timedelta(seconds=18)
    # 12:33 to 12:37 are the five minutes; 12:32 is before them, and 12:38 to 12:40 are not counted yet.
    door.stage.gauges.counted = Counted(
        units={
            "tidetable-lapse.quakes.2026-03-15": {
                at(7): 11,
                at(8): 60,
                at(32): 600,
                at(33): 300,
                at(37): 600,
                at(39): 5,
            },
            "tidetable-lapse.quakes.2026-03-14": {at(35): 300},
            "tidetable-lapse.quakes.2026-03-13": {at(35): 9e9},
        },
        events={at(32): 9e9, at(33): 3000, at(37): 6000, at(38): 9e9},
        queued={at(36): 150},
        arrival={at(33): 2.0, at(34): 4.0, at(38): 99.0},
        waiting={at(34): 30.0, at(35): 20.0},
        sealing={at(31): 900.0, at(36): 15.0},
    )
    body = activity(door)
    assert (body["at"], body["from"], body["to"]) == (
        "2026-03-15T12:40:20.000000Z",
        "2026-03-15T12:33:00.000000Z",
        "2026-03-15T12:38:00.000000Z",
    )
    assert body["stage"] == {
        "events_per_second": 30.0,
        "queued_per_second": 0.5,
        "arrival_seconds": 3.0,
        "queue_seconds": 30.0,
        "rollup_lag_seconds": 15.0,
    }
    quakes = next(row for row in body["streams"] if row["stream"] == "quakes")
    assert quakes["write_units_per_second"] == 4.0
    assert quakes["written"] == "2026-03-15T12:39:00.000000Z"
    assert quakes["write_units"] == [60, *[0] * 23, 600, 300, 0, 300, 0, 600]
    silent = [row for row in body["streams"] if row["stream"] != "quakes"]
    assert silent
    assert all(row["written"] is None and row["write_units_per_second"] == 0 for row in silent)


def test_a_quiet_stage_has_zeros_and_no_lags(door: Door) -> None:
    assert activity(door)["stage"] == {
        "events_per_second": 0,
        "queued_per_second": 0,
        "arrival_seconds": None,
        "queue_seconds": None,
        "rollup_lag_seconds": None,
    }


def test_a_key_of_one_stream_sees_that_stream_alone(door: Door) -> None:
    door.stage.gauges.counted = door.stage.gauges.counted._replace(events={at(-5): 500})
    body = activity(door, ONE)
    assert body["stage"] is None
    assert [row["stream"] for row in body["streams"]] == ["quakes"]


def test_an_answer_is_kept_for_a_minute_and_reads_two_metrics_per_stream(door: Door) -> None:
    door.stage.clock.sleep(40 * 86_400)
    while door.stage.run_lifecycle().done:
        pass
    door.stage.gauges.reads.clear()
    first = activity(door)
    # Each request waits two seconds until it sees earlier writes.
    door.stage.clock.sleep(57)
    assert activity(door) == first
    (tables,) = door.stage.gauges.reads
    assert len(tables) == 2 * len(door.stage.config.streams)
    door.stage.clock.sleep(1)
    activity(door)
    assert len(door.stage.gauges.reads) == 2


@pytest.mark.parametrize(("query", "fails", "status"), [({"stream": "quakes"}, False, 400), ({}, True, 503)])
def test_a_parameter_and_a_failure_are_said(door: Door, query: dict[str, str], fails: bool, status: int) -> None:
    door.stage.gauges.fails = fails
    assert door.call("GET", "/v1/activity", ALL, query=query).status == status


def test_the_lag_of_rollups_is_that_of_the_slowest() -> None:
    from tests.fakes.stage import Stage

    rolled = """
[streams.quakes]
period = "day"
late = "1h"
retention = 2
key = { partition_by = "time", bucket = "1h", shards = 1 }
[[streams.quakes.rollup]]
name = "minutes"
every = "5m"
by = ["series"]
retention = "30d"
[[streams.quakes.rollup]]
name = "hours"
every = "1h"
by = ["series"]
retention = "30d"
[streams.plain]
period = "day"
late = "1h"
retention = 2
key = { partition_by = "time", bucket = "1h", shards = 1 }
"""
    stage = Stage(at(0), rolled)
    while stage.run_lifecycle().done:
        pass
    stage.refresh()
    stage.clock.time = at(150)
    stage.refresh()
    pipeline = stage.pipeline
    sources = ActivitySources(
        stage.catalog, stage.gauges, lambda: stage.rollups, pipeline.definitions, lambda: stage.work, pipeline.pools
    )

    def lags(now: datetime) -> list[int | None]:
        body = describe_activity(stage.config, sources, now, lambda _: True, whole=True)
        return [row["rollup_lag_seconds"] for row in body["streams"]]

    assert lags(at(150)) == [0, None]
    # The next bucket of minutes ends at 14:30 and could be sealed three and a half minutes later; that of hours at 15:03.
    assert lags(at(300)) == [8790, None]
    # An edge of a newer version hides nothing but the lag of its stream.
    stream = next(iter(pipeline.definitions))
    edges = stage.rollups.read_state(stream).edges
    assert stage.rollups.put_edge(stream, edges[0]._replace(definition='{"newer":1}'), edges[0])
    assert lags(at(300)) == [None, None]


def test_work_that_waits_or_failed_is_shown_to_those_who_see_its_stream(door: Door) -> None:
    now = door.stage.clock.now()
    for kind, name in (("seal", "quakes"), ("seal", "stations"), ("sweep", "objects")):
        door.stage.work.mark_sent(WorkItem(kind, name), now, now + timedelta(minutes=15))
    claim = door.stage.work.claim("seal", "stations", "a worker", now, now + timedelta(minutes=5))
    assert claim is not None
    door.stage.work.release(claim, "", problem="no answer")
    door.stage.clock.sleep(600)
    quakes, stations, sweep = activity(door)["work"]
    idle = {
        "waiting": 0,
        "running": 0,
        "failed": 0,
        "oldest_seconds": 0,
        "problem": None,
        "paused": False,
        "alarm": None,
    }
    failed = {"failed": 1, "problem": "no answer", "due": 1, "command": "bin/tidetable rollup stations"}
    failed["alarm"] = "RollupsFailing"
    assert stations == {"kind": "seal", "stream": "stations"} | idle | failed
    # The request waits two seconds until it sees earlier writes.
    waits = {"waiting": 1, "oldest_seconds": 602, "due": 1}
    pause = {"command": "bin/tidetable rollup quakes --pause"}
    assert quakes == {"kind": "seal", "stream": "quakes"} | idle | waits | pause
    assert sweep == {"kind": "sweep", "stream": None} | idle | waits | {"command": None}
    assert [row["stream"] for row in activity(door, ONE)["work"]] == ["quakes"]
