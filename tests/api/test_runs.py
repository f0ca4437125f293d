"""A run of the lifecycle's function: when it may act, its metrics and its notices."""

from datetime import timedelta
from typing import Any

import pytest

import settings
import wiring
from strict import Fault, Kind
from tests.worlds.functions import JANUARY, Function, function
from tidetable.errors import BadInvocation
from tidetable.lifecycle.report import Notice

__all__ = ["function"]

LATER = "2026-12-01T00:00:00Z"


class Bus:
    """Keeps notices; ``lost`` notices of each call are refused."""

    def __init__(self, lost: int = 0) -> None:
        self.lost = lost
        self.notices: list[Notice] = []

    def publish(self, notices: Any) -> int:
        self.notices += notices
        return self.lost


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch, function: Function) -> Bus:
    made = Bus()
    function.stage.bus = made
    return made


def test_only_the_local_stage_acts_as_at_another_time(function: Function, monkeypatch: pytest.MonkeyPatch) -> None:

    before = set(function.stage.dynamo.account.tables)
    with pytest.raises(BadInvocation, match='"at" goes with "dry_run": true'):
        function(at=LATER)
    assert function(at=LATER, dry_run=True)["now"] == "2026-12-01T00:00:00.000000Z"
    assert set(function.stage.dynamo.account.tables) == before
    monkeypatch.setenv("TIDETABLE_ALLOW_TIME_TRAVEL", "on")
    settings.read_settings.cache_clear()
    function(at=LATER)
    assert "tidetable-lapse.s.2026-12-01" in function.stage.dynamo.account.tables


@pytest.mark.parametrize("payload", [{"now": LATER}, {"dry_run": "true"}, {"dry_run": 1}, {"Dry_run": True}])
def test_a_payload_that_is_not_understood_does_nothing(function: Function, payload: dict[str, Any]) -> None:

    function.stage.clock.sleep(86_400)
    calls = dict(function.stage.dynamo.calls)
    with pytest.raises(BadInvocation, match=r"the payload may have|must be true or false"):
        function(**payload)
    assert function.stage.dynamo.calls == calls


def test_a_dry_run_measures_nothing_and_tells_nobody(function: Function, bus: Bus) -> None:
    function.stage.clock.sleep(86_400)
    report = function(dry_run=True)
    assert report["actions"]
    assert (function.measured, bus.notices) == ({}, [])
    function()
    assert bus.notices


def test_notices_that_are_lost_are_counted(function: Function, bus: Bus) -> None:
    function.stage.clock.sleep(86_400)
    bus.lost = 2
    function()
    assert function.measured["NoticesLost"] == 2


def test_a_run_without_failures_is_healthy_and_one_with_a_failure_is_not(function: Function) -> None:
    function.stage.clock.sleep(86_400)
    function.stage.dynamo.faults.add(Fault(Kind.ACCESS_DENIED, operation="CreateTable"))
    function()
    assert function.measured["LifecycleHealthy"] == 0
    assert function.measured["LifecycleActions_failed"] > 0
    function.stage.dynamo.faults.clear()
    function()
    assert (function.measured["LifecycleHealthy"], function.measured["LifecycleActions_failed"]) == (1, 0)


def test_a_run_that_is_skipped_measures_only_that(function: Function) -> None:
    """Its figures would be zeros, which the alarms would take for a stage without tables."""
    stage = function.stage
    assert stage.catalog.acquire("lifecycle", "another", stage.clock.now(), timedelta(minutes=5))
    report = function()
    assert (report["healthy"], function.measured) == (None, {"LifecycleSkipped": 1})


def test_a_run_for_one_stream_leaves_the_figures_of_the_whole_stage_alone(function: Function) -> None:
    """Of one stream they would be too small, and an alarm of the others would end."""
    whole = {"PeriodTables", "StreamsWithoutNextTable", "ArchivesOverdue", "RemovedStreams"}
    function(backfill=JANUARY)
    assert function.measured["LifecycleRuns"] == 1
    assert not whole & function.measured.keys()
    function()
    assert whole <= function.measured.keys()


def test_an_archive_that_fails_for_more_than_a_day_is_measured(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ConnectionError("no answer")

    monkeypatch.setattr(function.stage, "archive", fail)
    for _ in range(8):
        function.stage.clock.sleep(86_400)
        function()
    report = function()
    assert function.measured["ArchivesOverdue"] == len(report["archives_overdue"]) > 0
    assert function.measured["StreamsWithoutNextTable"] == 0


@pytest.mark.parametrize(("given", "hours"), [({}, 24), ({"hours": 1}, 1), ({"hours": 720}, 720)])
def test_a_backfill_is_open_for_the_hours_that_are_asked_for(
    function: Function, given: dict[str, int], hours: int
) -> None:
    began = function.stage.clock.now()
    function(backfill={**JANUARY, **given})
    (found,) = function.stage.catalog.backfills("s")
    assert found.opened.until == began + timedelta(hours=hours)


def test_a_deployment_tells_of_the_tables_that_it_made(
    function: Function, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    from handlers.deployment import handler
    from tests.api.gateway import Context

    class Unhurried(Context):
        def get_remaining_time_in_millis(self) -> int:
            return 840_000

    monkeypatch.setenv("TIDETABLE_CATALOG_TABLE", "tidetable-lapse-catalog")
    settings.read_settings.cache_clear()
    function.stage.clock.sleep(86_400)
    update = {"RequestType": "Update", "ResourceProperties": {"configuration": "a"}}
    with wiring.serve_pipeline(function.stage.pipeline):
        handler(update, Unhurried())  # type: ignore[arg-type]
    assert bus.notices
