"""The lifecycle's function: its payloads and its metrics."""

from typing import Any

import pytest

from tests.worlds.functions import JANUARY, Function, function
from tests.worlds.killed import CONFIG, NOON
from tidetable.config import parse
from tidetable.errors import BadBackfill, BadInvocation
from tidetable.events import Event

__all__ = ["function"]

TWENTIETH = {"stream": "s", "from": "2026-02-20T00:00:00Z", "to": "2026-02-21"}
OTHER = '\n[streams.other]\nperiod = "day"\nlate = "1d"\nretention = 3\nkey = { partition_by = "series" }\n'


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

    function(backfill=JANUARY)
    with pytest.raises(BadInvocation, match=message):
        function(end_backfill=given)
    assert function.backfills() == ["2026-02-10"]


TWO_REQUESTS = [
    ({"backfill": TWENTIETH, "end_backfill": JANUARY}, "one call opens a backfill or ends one"),
    ({"backfill": TWENTIETH, "at": "2026-03-01T00:00:00Z", "dry_run": True}, '"at" goes with neither'),
    ({"end_backfill": "s", "at": "2026-03-01T00:00:00Z", "dry_run": True}, '"at" goes with neither'),
    ({"at": "soon", "dry_run": True}, "at: 'soon' is not an RFC 3339 time"),
]


@pytest.mark.parametrize(("payload", "message"), TWO_REQUESTS, ids=[message for _, message in TWO_REQUESTS])
def test_no_part_of_a_payload_is_ignored(function: Function, payload: dict[str, Any], message: str) -> None:

    function(backfill=JANUARY)
    with pytest.raises(BadInvocation, match=message):
        function(**payload)
    assert function.backfills() == ["2026-02-10"]


@pytest.mark.parametrize("hours", [0, 721, 10**12])
def test_hours_that_nobody_can_mean_open_nothing(function: Function, hours: int) -> None:

    with pytest.raises(BadInvocation, match="hours must be within 1 to 720"):
        function(backfill={**JANUARY, "hours": hours})
    assert function.backfills() == []


def test_a_run_for_one_stream_does_not_measure_the_whole_stage(function: Function) -> None:
    function()
    # On the 15th at noon with `late` = 1 day: the 14th, the 15th and two ahead, each with its table of parts.
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
    assert [stream["stream"] for stream in report["removed_streams"]] == ["s"]
    assert (function.measured["RemovedStreams"], function.measured["PeriodTables"]) == (1, 12)


def test_a_scheduled_run_sends_a_beat_and_counts_a_drain_that_stands_still(function: Function) -> None:
    stage = function.stage
    function(source="schedule")
    stage.drain()
    assert (stage.beats.beat is not None, "DrainStopped" in function.measured) == (True, False)
    stage.queue.send("s", [Event("a", NOON, id, {}) for id in ("1", "2")], 5)
    stage.clock.sleep(1800)
    # Only the schedule's runs watch over the drain.
    function()
    assert "DrainStopped" not in function.measured
    function(source="schedule")
    assert {name: function.measured[name] for name in ("DrainStopped", "EventsSaved")} == {
        "DrainStopped": 1,
        "EventsSaved": 2,
    }
    stage.drain()
    function(source="schedule")
    assert "DrainStopped" not in function.measured


def test_a_run_that_fails_still_watches_over_the_drain(function: Function, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the lifecycle fails")

    monkeypatch.setattr("handlers.lifecycle.reconcile", fail)
    with pytest.raises(RuntimeError, match="the lifecycle fails"):
        function(source="schedule")
    assert len(function.stage.queue.messages) == 1


def test_a_run_goes_on_if_the_drain_cannot_be_watched(function: Function) -> None:
    function.stage.beats.fails = True
    assert function(source="schedule")["healthy"] is True
    assert function.stage.queue.messages == []
