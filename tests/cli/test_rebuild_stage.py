"""``tidetable rollup --rebuild`` with the real functions: it plans and prices, opens tables, orders, waits and cancels."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest

import wiring
from cli import clock, common
from cli import rebuilding as command
from cli.account import Account
from tests.api.gateway import Context
from tests.fakes.stage import Stage
from tests.fakes.work_queue import FakeWorkQueue
from tests.worlds.commands import OUTPUTS, run
from tests.worlds.functions import environment
from tidetable.times import to_text

__all__ = ["environment"]

START = datetime(2026, 3, 2, tzinfo=UTC)
CONFIG = """
[streams.quakes]
period = "day"
late = "1h"
retention = 9
key = { partition_by = "time", bucket = "6h", shards = 2 }
[[streams.quakes.rollup]]
name = "tens"
every = "10m"
by = ["series"]
fields = ["mag"]
retention = "90d"
[[streams.quakes.rollup]]
name = "hours"
every = "1h"
by = ["series"]
fields = ["mag"]
retention = "90d"
"""


class Functions:
    """The refresher and the lifecycle of a stage."""

    def __init__(self, stage: Stage) -> None:
        self.pipeline = stage.pipeline
        self.pipeline.work_queue = FakeWorkQueue()

    def invoke(self, FunctionName: str, Payload: bytes) -> Any:  # noqa: N803 - boto3's names
        from handlers import lifecycle, refresher

        handle: Callable[..., Any] = refresher.handler if FunctionName == "refresher" else lifecycle.handler
        # What a function prints is not what the command prints.
        with wiring.serve_pipeline(self.pipeline), redirect_stdout(StringIO()):
            body = json.dumps(handle(json.loads(Payload), Context())).encode()

        class Body:
            def read(self) -> bytes:
                return body

        return {"Payload": Body()}


@pytest.fixture
def stage(environment: Any, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Five hours of events, after which the rollups begin; one more hour has been sealed."""
    stage = Stage(START, CONFIG)
    stage.run_lifecycle()
    for minute in range(300):
        event = {
            "series": "ab"[minute % 2],
            "time": to_text(stage.clock.now()),
            "id": str(minute),
            "data": {"mag": minute},
        }
        assert stage.send("quakes", json.dumps([event]).encode()).status == 200
        stage.clock.sleep(60)
    stage.run_lifecycle()
    # As if they were new rollups of an old stream: those of a new stream begin with it.
    for name in ("tens", "hours"):
        stage.rollups.forget("quakes", name)
    for _ in range(2):
        stage.refresh()
        stage.clock.sleep(75 * 60)
    stage.refresh()
    account = Account(stage.pipeline, OUTPUTS | {"RefresherFunction": "refresher"}, Functions(stage))
    monkeypatch.setattr(common, "connect", lambda *_, **__: account)
    monkeypatch.setattr(clock, "read_clock", stage.clock.now)
    return stage


SPAN = ("--rebuild", "--from", "2026-03-02", "--to", "now")


def test_a_rebuild_is_planned_priced_computed_and_done(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = 0

    def work(seconds: float) -> None:
        nonlocal waits
        waits += 1
        stage.clock.sleep(seconds)
        if waits % 12 == 1:
            assert stage.refresh() is not None

    monkeypatch.setattr(command, "sleep", work)
    (tens, hours) = json.loads(run("rollup", "quakes", *SPAN, "--dry-run", "--json").stdout)
    assert (tens["buckets"], tens["price"]["finer"], hours["price"]["finer"]) == (32, None, "quakes-tens")
    assert (hours["buckets"], tens["rebuild"], tens["problem"]) == (6, None, None)
    assert tens["price"]["dollars"] > 0
    shown = run("rollup", "quakes", *SPAN, "--yes")
    assert (shown.exit_code, "quakes-hours: all buckets are computed" in shown.output) == (0, True), shown.output
    # Sealed buckets are computed two minutes after they were marked.
    assert 24 < waits < 80
    for rollup in json.loads(run("rollup", "quakes", "--json").stdout):
        assert (rollup["start"], rollup["marks"], rollup["rebuild"]) == ("2026-03-02T00:00:00.000000Z", 0, None)


def test_a_rebuild_goes_on_without_the_command_until_it_is_cancelled(stage: Stage) -> None:
    begun = run("rollup", "quakes", "--name", "tens", *SPAN, "--yes", "--no-wait")
    assert (begun.exit_code, "The rebuild goes on without this command" in begun.output) == (0, True), begun.output
    joined = run("rollup", "quakes", "--name", "tens", *SPAN, "--dry-run")
    assert "quakes-tens: the rebuild from 2026-03-02T00:00:00.000000Z to" in joined.output
    ended = run("rollup", "quakes", "--name", "tens", "--cancel")
    assert "quakes-tens: its rebuild ends; " in ended.output
    for _ in range(3):
        stage.clock.sleep(600)
        stage.refresh()
    (tens,) = json.loads(run("rollup", "quakes", "--name", "tens", "--json").stdout)
    assert (tens["rebuild"], tens["marks"]) == (None, 0)
    assert stage.work.list_items("rebuild") == []
