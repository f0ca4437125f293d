"""The lifecycle's function: its payloads, and what it measures."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.gateway import Context
from tests.fakes.serial import everywhere
from tests.fakes.stage import Stage
from tests.worlds.killed import CONFIG, NOON
from tidetable.config import parse
from tidetable.lifecycle.backfill import BadBackfill

JANUARY = {"stream": "s", "from": "2026-02-10", "to": "2026-02-13"}
TWENTIETH = {"stream": "s", "from": "2026-02-20T00:00:00Z", "to": "2026-02-21"}
OTHER = '\n[streams.other]\nperiod = "day"\nlate = "1d"\nretention = 3\nkey = { partition_by = "series" }\n'


class Bus:
    def publish(self, notices: Any) -> int:
        return 0


class Function:
    """The handler on a stage in memory, and the last value of each metric of its last run."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        from handlers import lifecycle

        self.stage = stage
        self.measured: dict[str, float] = {}
        self._handler = lifecycle.handler
        monkeypatch.setattr("wiring_control.reconciler", stage.reconciler)
        monkeypatch.setattr("wiring_control.clock", lambda: stage.clock)
        monkeypatch.setattr("wiring_control.event_bus", Bus)
        monkeypatch.setattr("handlers.lifecycle.metrics.add_metric", self._measure)

    def _measure(self, name: str, unit: Any, value: float) -> None:
        self.measured[name] = value

    def __call__(self, **payload: Any) -> Any:
        self.measured.clear()
        context: Any = Context()
        return self._handler(payload, context)

    def backfills(self) -> list[str]:
        return [one.document()["from"][:10] for one in self.stage.catalog.backfills("s")]


@pytest.fixture
def function(monkeypatch: pytest.MonkeyPatch) -> Iterator[Function]:
    monkeypatch.setenv("TIDETABLE_STAGE", "lapse")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    import settings

    settings.settings.cache_clear()
    everywhere(monkeypatch)
    stage = Stage(NOON, CONFIG)
    stage.run_lifecycle()
    yield Function(stage, monkeypatch)
    settings.settings.cache_clear()


def test_backfills_are_opened_side_by_side_and_ended_one_by_one_or_all(function: Function) -> None:
    function(backfill=JANUARY)
    function(backfill=TWENTIETH)
    assert function.backfills() == ["2026-02-10", "2026-02-20"]
    function(end_backfill=JANUARY, dry_run=True)
    assert function.backfills() == ["2026-02-10", "2026-02-20"]
    function(end_backfill=JANUARY)
    assert function.backfills() == ["2026-02-20"]
    with pytest.raises(BadBackfill, match="no backfill of s from 2026-02-10"):
        function(end_backfill=JANUARY)
    function(end_backfill="s")
    assert function.backfills() == []


WRONG = [
    ({"stream": "s", "from": "2026-02-10"}, "name both from and to, or neither"),
    ({"stream": "s", "from": "soon", "to": "later"}, "end_backfill: "),
    ({"stream": "s", "until": "2026-02-10"}, "unknown field `until`"),
    (7, "end_backfill: Expected `object`"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=[message for _, message in WRONG])
def test_an_end_that_is_not_understood_ends_nothing(function: Function, given: Any, message: str) -> None:
    from handlers.lifecycle import BadInvocation

    function(backfill=JANUARY)
    with pytest.raises(BadInvocation, match=message):
        function(end_backfill=given)
    assert function.backfills() == ["2026-02-10"]


@pytest.mark.parametrize("hours", [0, 721, 10**12])
def test_hours_that_nobody_can_mean_open_nothing(function: Function, hours: int) -> None:
    from handlers.lifecycle import BadInvocation

    with pytest.raises(BadInvocation, match="hours must be within 1 to 720"):
        function(backfill={**JANUARY, "hours": hours})
    assert function.backfills() == []


def test_a_run_for_one_stream_does_not_measure_the_whole_stage(function: Function) -> None:
    function()
    # On the 15th at noon, late by a day: the 14th, the 15th and two ahead, each with its table of parts.
    assert {name: function.measured[name] for name in ("PeriodTables", "RemovedStreams")} == {
        "PeriodTables": 8,
        "RemovedStreams": 0,
    }
    function(backfill=JANUARY)
    assert "LifecycleRuns" in function.measured
    assert (
        not {"PeriodTables", "RemovedStreams", "StreamsWithoutNextTable", "ArchivesOverdue"} & function.measured.keys()
    )


def test_removed_streams_are_measured(function: Function) -> None:
    function.stage.config = parse(CONFIG[: CONFIG.index("[streams.s]")] + OTHER)
    report = function()
    assert [one["stream"] for one in report["removed_streams"]] == ["s"]
    assert (function.measured["RemovedStreams"], function.measured["PeriodTables"]) == (1, 12)
