"""The functions that keep the last periods of a stream without rollups, stopped after each change: no event is missed."""

import json
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest

from tests.fakes.stage import Stage
from tests.worlds.killed import killed_after_every_change
from tidetable.events import Event
from tidetable.query import find_latest
from tidetable.times import to_text

START = datetime(2026, 3, 2, 0, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
CONFIG = """
[streams.s]
period = "hour"
late = "1h"
retention = 7
key = { partition_by = "series" }
"""


@pytest.fixture(autouse=True)
def few_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few tables be many."""
    monkeypatch.setattr("tidetable.config.model.LATEST_TABLES", 3)


@cache
def make_stage() -> Stage:
    """Make a stage of some hours, with an event of ``a`` in the first, and one of ``b`` in the last."""
    stage = Stage(START, CONFIG, stale_seconds=0.0)
    stage.run_lifecycle()
    send(stage, "a")
    for _ in range(15):
        stage.clock.sleep(1_200)
        stage.run_lifecycle()
        stage.refresh()
    send(stage, "b")
    return stage


def send(stage: Stage, series: str) -> None:
    now = stage.clock.now()
    body = [{"series": series, "time": to_text(now), "id": series, "data": {}}]
    assert stage.send("s", json.dumps(body).encode()).accepted


def find_ids(stage: Stage) -> dict[str, Any]:
    names = {"series": ["a", "b", "c"]}
    found = find_latest(stage.config.streams["s"], names, stage.reader(), stage.clock.now(), lambda: 100.0)
    assert not found.stopped
    return {name: event["id"] for name, event in found.events.items()}


def pass_hours(stage: Stage, thirds: int = 3) -> None:
    for _ in range(thirds):
        stage.clock.sleep(1_200)
        stage.drain()
        stage.run_lifecycle()
        stage.refresh()


def test_a_run_that_covers_a_period_is_finished_by_the_next() -> None:
    def prepare() -> Stage:
        stage = make_stage().copy()
        pass_hours(stage, 2)
        stage.clock.sleep(1_800)
        stage.run_lifecycle()
        stage.clock.sleep(1_200)
        return stage

    stops = 0
    for _, stopped in killed_after_every_change(prepare, Stage.refresh):
        stops += 1
        assert find_ids(stopped) == {"a": "a", "b": "b"}
        # The claim of the run that was stopped ends by itself.
        pass_hours(stopped)
        assert find_ids(stopped) == {"a": "a", "b": "b"}
    # The record without the marked period, the mark, the slot, and the record with the period.
    assert stops >= 4


def test_a_closing_that_was_stopped_hides_nothing() -> None:
    def prepare() -> Stage:
        stage = make_stage().copy()
        stage.clock.sleep(3_600)
        return stage

    for _, stopped in killed_after_every_change(prepare, Stage.run_lifecycle):
        pass_hours(stopped, 1)
        send(stopped, "c")
        assert find_ids(stopped) == {"a": "a", "b": "b", "c": "c"}


def test_a_request_that_was_stopped_hides_nothing_that_it_wrote() -> None:
    """Between its mark and its late event, the refresher works; then the request comes again."""
    time = make_stage().clock.now() - HOUR / 4
    (entry,) = make_stage().catalog.entries("s", time, time)
    late = Event("c", time, "c", {})

    def prepare() -> Stage:
        stage = make_stage().copy()
        stage.clock.sleep(1_200)
        return stage

    def send_late(stage: Stage) -> None:
        body = [{"series": "c", "time": to_text(time), "id": "c", "data": {}}]
        assert stage.send("s", json.dumps(body).encode()).accepted

    found = []
    for _, stopped in killed_after_every_change(prepare, send_late):
        is_stored = bool(stopped.store.get_many(entry.table, [entry.layout.make_key(late)]))
        found.append(is_stored)
        for again in (False, True):
            stage = stopped.copy()
            if again:
                stage.refresh()
                send_late(stage)
            assert ("c" in find_ids(stage)) is (is_stored or again)
            pass_hours(stage)
            assert ("c" in find_ids(stage)) is (is_stored or again)
    # Stopped before the mark, and behind it.
    assert found == [False, False]


def test_a_drain_that_was_stopped_hides_nothing_that_it_wrote() -> None:
    """Its message comes again. Meanwhile the refresher works."""
    late = Event("c", make_stage().clock.now() - 4 * HOUR, "c", {})
    (entry,) = make_stage().catalog.entries("s", late.time, late.time)

    def prepare() -> Stage:
        stage = make_stage().copy()
        stage.queue.send("s", [late], 1)
        return stage

    found = []
    for _, stopped in killed_after_every_change(prepare, Stage.drain):
        stopped.refresh()
        found.append("c" in find_ids(stopped))
        assert found[-1] is bool(stopped.store.get_many(entry.table, [entry.layout.make_key(late)]))
        pass_hours(stopped, 2)
        assert find_ids(stopped)["c"] == "c"
    # Stopped behind the mark, and behind the event.
    assert found[-1] or len(found) >= 2
