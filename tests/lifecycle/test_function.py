"""The lifecycle's function: its payloads, the figures that it measures, and its notices."""

from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

import settings
import wiring
from tests.lifecycle.world import NOON, World
from tidetable.catalog import Backfill, Opening
from tidetable.errors import BadBackfill, BadInvocation
from tidetable.feed.mappings import FollowedFeeds
from tidetable.lifecycle import RunReport
from tidetable.lifecycle.outlook import Outlook, RemovedStream
from tidetable.lifecycle.report import Done, Notice
from tidetable.upkeep.actions import Delete

DAY = timedelta(days=1)
MIDNIGHT = NOON.replace(hour=0)
SPAN = {"stream": "s", "from": "2026-03-10", "to": "2026-03-11T06:00:00Z"}
ROLLUP = 'rollup = [{ name = "hours", every = "1h", retention = "730d" }]'


class Function:
    """The function on a world of fakes, and what its last call measured and published. ``lost`` notices get lost."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seconds = 60.0
        self.lost = 0
        self.notices: list[Notice] = []
        self.measured: list[tuple[str, str, float]] = []

    def __call__(self, **payload: Any) -> Any:
        from handlers import lifecycle

        self.measured.clear()
        self.notices.clear()
        context: Any = SimpleNamespace(
            function_name="f",
            memory_limit_in_mb=512,
            invoked_function_arn="arn",
            aws_request_id="request",
            get_remaining_time_in_millis=lambda: int(1000 * self.seconds),
        )
        with wiring.serve_pipeline(self.world.pipeline(event_bus=SimpleNamespace(publish=self._publish))):
            return lifecycle.handler(payload, context)

    def _publish(self, notices: list[Notice]) -> int:
        self.notices += notices
        return self.lost

    def measure(self, name: str, unit: Any, value: float) -> None:
        self.measured.append((name, unit.value, value))

    @property
    def backfills(self) -> list[Backfill]:
        return list(self.world.catalog.backfills("s"))


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> Iterator[Function]:
    monkeypatch.setenv("TIDETABLE_STAGE", "t")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    settings.read_settings.cache_clear()
    made = Function(World())
    monkeypatch.setattr("handlers._observe.metrics.add_metric", made.measure)
    yield made
    settings.read_settings.cache_clear()


def test_a_run_measures_the_numbers_of_its_report(function: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    (action, *_) = [done.action for done in function.world.run(dry_run=True).done]
    done = [Done(action, outcome) for outcome in ("done",) * 5 + ("deferred",) * 6 + ("failed",) * 7 + ("lost",) * 8]
    removed = (RemovedStream("x", NOON, 1),) * 4
    report = RunReport(NOON, False, 9, done, outlook=Outlook(("a",) * 2, ("b",) * 3, removed=removed))
    monkeypatch.setattr("handlers.lifecycle.reconcile", lambda *_, **__: report)
    actions = [("done", 5), ("deferred", 6), ("failed", 7), ("lost", 8)]
    always = [("LifecycleRuns", "Count", 1), ("LifecycleHealthy", "Count", 0)]
    outcomes = [(f"LifecycleActions_{outcome}", "Count", count) for outcome, count in actions]
    whole = [("PeriodTables", 9), ("StreamsWithoutNextTable", 2), ("ArchivesOverdue", 3), ("RemovedStreams", 4)]
    function()
    assert function.measured == [*always, *((name, "Count", count) for name, count in whole), *outcomes]
    # A run for one stream does not know the numbers of the stage.
    report.only = "s"
    function()
    assert function.measured == [*always, *outcomes]
    report.done.clear()
    function()
    assert function.measured[1] == ("LifecycleHealthy", "Count", 1)
    report.skipped = "another run is under way"
    assert function()["skipped"] == "another run is under way"
    assert function.measured == [("LifecycleSkipped", "Count", 1)]


def test_a_run_measures_the_tables_that_were_deleted_though_rollups_needed_them(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    (action, *_) = [done.action for done in function.world.run(dry_run=True).done]
    marked = Delete(action.entry, "why", unarchived=True, marked=True)
    done = [
        *(Done(marked, outcome) for outcome in ("done", "done", "failed", "planned")),
        Done(Delete(action.entry, "why", unarchived=True), "done"),
    ]
    monkeypatch.setattr("handlers.lifecycle.reconcile", lambda *_, **__: RunReport(NOON, False, 9, done))
    function()
    assert ("DeletedWithMarks", "Count", 2) in function.measured


def test_a_run_tells_what_it_did_and_counts_the_notices_that_are_lost(function: Function) -> None:
    function.lost = 2
    report = function(source="schedule")
    assert len(report["actions"]) == len(function.notices) == 4
    assert ("NoticesLost", "Count", 2) in function.measured
    # The next run has nothing to tell, so it publishes nothing.
    assert function()["actions"] == []
    assert "NoticesLost" not in {name for name, *_ in function.measured}


def test_a_dry_run_shows_another_time_and_measures_nothing(function: Function) -> None:
    report = function(dry_run=True, at="2026-12-01T00:00:00Z")
    assert (report["now"], report["dry_run"]) == ("2026-12-01T00:00:00.000000Z", True)
    assert (function.measured, function.notices, function.world.tables.names) == ([], [], set())


def test_only_the_local_stage_acts_as_at_another_time(function: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInvocation, match="only the local stage may act as if it were another time"):
        function(at="2026-12-01T00:00:00Z")
    monkeypatch.setenv("TIDETABLE_ALLOW_TIME_TRAVEL", "on")
    settings.read_settings.cache_clear()
    function(at="2026-12-01T00:00:00Z")
    assert "tidetable-t.s.2026-12-01" in function.world.tables.names


def test_ten_seconds_of_a_call_are_kept_for_its_report(function: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lease holds for what is left of the call, and for ten seconds of records."""
    lengths: list[timedelta] = []
    acquire = function.world.catalog.acquire
    monkeypatch.setattr(
        function.world.catalog,
        "acquire",
        lambda *given: lengths.append(given[3]) or acquire(*given),  # type: ignore[func-returns-value]
    )
    function.seconds = 90
    function()
    assert lengths == [timedelta(seconds=80 + 10)]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"now": 1}, "unknown key 'now': the payload may have dry_run, at, backfill and end_backfill"),
    ({"dry_run": 1}, "dry_run must be true or false"),
    ({"backfill": SPAN, "end_backfill": "s"}, "one call opens a backfill or ends one: send"),
    ({"backfill": SPAN, "at": "2026-03-01T00:00:00Z", "dry_run": True}, '"at" goes with neither'),
    ({"end_backfill": "s", "at": "2026-03-01T00:00:00Z", "dry_run": True}, '"at" goes with neither'),
    ({"at": "soon", "dry_run": True}, "at: 'soon'"),
    ({"backfill": SPAN | {"from": "soon"}}, "backfill: 'soon"),
    ({"backfill": SPAN | {"until": "2026-03-12"}}, "backfill: Object contains unknown field"),
    ({"backfill": SPAN | {"hours": 0}}, "backfill: hours must be within 1 to 720"),
    ({"backfill": SPAN | {"hours": 721}}, "backfill: hours must be within 1 to 720"),
    ({"end_backfill": {"stream": "s", "from": "2026-03-10"}}, "end_backfill: name both from and to"),
    ({"end_backfill": {"stream": "s", "to": "2026-03-10"}}, "end_backfill: name both from and to"),
    ({"end_backfill": SPAN | {"from": "soon"}}, "end_backfill: 'soon"),
    ({"end_backfill": 7}, "end_backfill: Expected"),
]


def test_a_payload_that_is_wrong_says_why_and_does_nothing(function: Function) -> None:
    for payload, why in WRONG:
        with pytest.raises(BadInvocation) as refused:
            function(**payload)
        assert str(refused.value).startswith(why), payload
    assert (function.backfills, function.world.tables.names) == ([], set())


@pytest.mark.parametrize(
    ("given", "opened"),
    [
        ({}, Opening(NOON + DAY, None, None)),
        ({"hours": 1, "write": 30, "read": 4}, Opening(NOON + timedelta(hours=1), 30, 4)),
        ({"hours": 720}, Opening(NOON + 30 * DAY, None, None)),
    ],
)
def test_a_backfill_is_recorded_as_it_was_asked_for(function: Function, given: dict[str, Any], opened: Opening) -> None:
    planned = function(backfill=SPAN | given, dry_run=True)
    assert (len(planned["backfills"]), function.backfills) == (1, [])
    function(backfill=SPAN | given)
    assert function.backfills == [Backfill("s", MIDNIGHT - 5 * DAY, MIDNIGHT - 4 * DAY + timedelta(hours=6), opened)]


def test_a_backfill_is_ended_alone_or_with_all_others(function: Function) -> None:
    day = {"stream": "s", "from": "2026-03-12", "to": "2026-03-13"}
    for span in (SPAN, day):
        function(backfill=span)
        function.world.clock.sleep(60)
    assert function(end_backfill=day, dry_run=True)["dry_run"] is True
    assert len(function.backfills) == 2
    # Of another stream nothing is looked at.
    assert function(end_backfill=day)["dry_run"] is False
    assert ("PeriodTables", "Count") not in {figure[:2] for figure in function.measured}
    assert [backfill.start for backfill in function.backfills] == [MIDNIGHT - 5 * DAY]
    function(end_backfill="s")
    assert function.backfills == []


def test_a_rollup_is_opened_without_its_stream_only_to_be_rebuilt(function: Function) -> None:
    function.world.config = World(more=ROLLUP, capacity='mode = "on-demand"').config
    span = {"stream": "s-hours", "from": "2026-02-01", "to": "2026-02-02"}
    with pytest.raises(BadBackfill, match="s-hours is a rollup of s and takes no events"):
        function(backfill=span)
    function(backfill=span | {"rebuild": True})
    assert len(function.world.catalog.backfills("s-hours")) == 1


def test_a_run_by_hand_looks_at_every_mapping_and_a_scheduled_run_relies_on_the_run_before(
    function: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = FollowedFeeds("the tables", NOON)
    run = SimpleNamespace(followed=known)
    monkeypatch.setattr(
        "wiring_upkeep.pipeline", lambda: SimpleNamespace(begin_run=lambda *_: run, config=None, clock=None)
    )
    monkeypatch.setattr("handlers.lifecycle.reconcile", lambda *_, **__: RunReport(NOON, dry_run=False))
    monkeypatch.setattr("handlers.lifecycle._publish_metrics", lambda _: None)
    monkeypatch.setattr("handlers.lifecycle.publish_notices", lambda _: None)
    monkeypatch.setattr("handlers.lifecycle._watch_drain", lambda _: None)
    function(source="schedule")
    assert run.followed is known
    function()
    assert run.followed == FollowedFeeds()
