"""Every function is stopped after each of its changes in AWS, and run again."""

import json
from collections.abc import Callable

import pytest

from tests.fakes.stage import Stage
from tests.worlds.killed import (
    BY_SUFFIX,
    CONFIG,
    EVENTS,
    IDS,
    NOON,
    PACKED,
    built,
    ids,
    killed_after_every_change,
    state,
)
from tidetable.catalog import State
from tidetable.events import Event
from tidetable.times import from_text

in_items_and_in_packs = pytest.mark.parametrize(
    "config", [CONFIG, PACKED, BY_SUFFIX], ids=["items", "packs", "suffixes"]
)


def later(days: float) -> Callable[[], Stage]:
    def prepare() -> Stage:
        stage = built()
        stage.clock.sleep(days * 86_400)
        return stage

    return prepare


@pytest.mark.parametrize("days", [0.5, 2, 7])
def test_the_lifecycle_is_finished_by_its_next_runs(days: float) -> None:
    whole = later(days)()
    for _ in range(3):
        whole.run_lifecycle()
        whole.clock.sleep(300)
    expected, everything = state(whole), ids(whole)
    assert everything == IDS
    for calls, stage in killed_after_every_change(later(days), Stage.run_lifecycle):
        assert ids(stage) == everything, f"killed after {calls} calls: something cannot be found meanwhile"
        for _ in range(3):
            stage.run_lifecycle()
            stage.clock.sleep(300)
        assert state(stage) == expected, f"killed after {calls} calls"
        assert ids(stage) == everything, f"killed after {calls} calls"
        assert stage.run_lifecycle().done == []


def test_a_deletion_without_an_archive_is_finished_by_the_next_run() -> None:
    """Between the deletion of a table and its record the table is gone, and is none that was lost."""

    def expired() -> Stage:
        stage = built(CONFIG.replace("retention = 5", 'retention = 5\non_expiry = "delete"'))
        stage.clock.sleep(7 * 86_400)
        return stage

    whole = expired()
    for _ in range(3):
        whole.run_lifecycle()
        whole.clock.sleep(300)
    expected = state(whole)
    for calls, stage in killed_after_every_change(expired, Stage.run_lifecycle):
        for _ in range(3):
            report = stage.run_lifecycle()
            stage.clock.sleep(300)
        assert report.count("lost") == 0, f"killed after {calls} calls"
        assert state(stage) == expected, f"killed after {calls} calls"


def test_the_first_run_of_all_is_finished_by_the_next() -> None:
    def nothing() -> Stage:
        return Stage(NOON, CONFIG)

    whole = nothing()
    whole.run_lifecycle()
    expected = state(whole)
    for calls, stage in killed_after_every_change(nothing, Stage.run_lifecycle):
        for _ in range(2):
            stage.run_lifecycle()
            stage.clock.sleep(300)
        assert state(stage) == expected, f"killed after {calls} calls"


@in_items_and_in_packs
def test_an_archive_is_finished_by_the_next_one(config: str) -> None:
    def closed() -> Stage:
        stage = built(config)
        stage.clock.sleep(6 * 86_400)
        for entry in stage.catalog.entries("s", consistent=True):
            if entry.period.label == "2026-03-15":
                stage.catalog.move(entry, State.CLOSED, expected=[State.OPEN])
        return stage

    def archive(stage: Stage) -> None:
        stage.runs += 1
        stage.archive("s", "2026-03-15", within=240)

    whole = closed()
    archive(whole)
    expected = state(whole)
    for calls, stage in killed_after_every_change(closed, archive):
        assert len(ids(stage)) == len(EVENTS), f"killed after {calls} calls: something cannot be found meanwhile"
        archive(stage)
        assert state(stage) == expected, f"killed after {calls} calls"
        assert len(ids(stage)) == len(EVENTS)


@in_items_and_in_packs
@pytest.mark.parametrize("days", [0, 1.5])
def test_a_drain_is_finished_when_its_message_comes_again(days: float, config: str) -> None:
    """Within the window the drain writes puts; behind it transactions with the catalog."""
    waiting = [Event("a", from_text(str(event["time"])), f"waiting-{event['id']}", {}) for event in EVENTS]

    def queued() -> Stage:
        stage = built(config)
        stage.clock.sleep(days * 86_400)
        stage.queue.send("s", waiting, 0)
        return stage

    expected = sorted([*IDS, *(event.id for event in waiting)])
    for calls, stage in killed_after_every_change(queued, Stage.drain):
        stage.clock.sleep(400)
        stage.drain()
        assert ids(stage) == expected, f"killed after {calls} calls"
        assert stage.queue.messages == []


@in_items_and_in_packs
def test_a_request_that_was_cut_short_is_sent_again_without_harm(config: str) -> None:
    more = json.dumps([{**event, "id": f"more-{event['id']}"} for event in EVENTS]).encode()
    expected = sorted([*IDS, *(f"more-{id}" for id in IDS)])
    for calls, stage in killed_after_every_change(lambda: built(config), lambda stage: stage.send("s", more)):
        stage.send("s", more)
        assert ids(stage) == expected, f"killed after {calls} calls"
