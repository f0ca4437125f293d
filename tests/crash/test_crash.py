"""Every function stopped after every single call that it makes to AWS, in turn, and run again."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes.stage import Killed, Stage
from tidetable.catalog import State
from tidetable.events import Event
from tidetable.query import parse_query, run_query
from tidetable.times import from_text, to_text

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
[streams.s]
period = "day"
late = "1d"
retention = 5
large = { beyond = "chunks" }
[streams.s.key]
partition_by = "time"
bucket = "6h"
shards = 2
[streams.s.capacity]
mode = "provisioned"
ladder = [
    { age = 0, write = 10, read = 10 },
    { age = 1, write = 2, read = 5 },
    { age = 3, write = 1, read = 1, class = "infrequent-access" },
]
"""
EVENTS = [
    {"series": "a", "id": f"e{number}", "time": to_text(NOON - timedelta(hours=number)), "data": {"n": number}}
    for number in range(20)
]
IDS = sorted(str(event["id"]) for event in EVENTS)


def built() -> Stage:
    """A stage with its tables and twenty events of two days."""
    stage = Stage(NOON, CONFIG)
    stage.run_lifecycle()
    stage.send("s", json.dumps(EVENTS).encode())
    return stage


def ids(stage: Stage) -> list[str]:
    """The ids of everything that a query over all time finds."""
    policy, now = stage.config.streams["s"], stage.clock.now()
    asked = {"from": [to_text(NOON - timedelta(days=3))], "to": [to_text(now)], "limit": ["1000"]}
    answer: Any = run_query(
        parse_query(policy, asked, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
    ).document()
    return sorted(event["id"] for event in answer["events"])


def state(stage: Stage) -> Any:
    """Everything that a run of the lifecycle is responsible for, without the times at which it was done."""
    stage.clock.sleep(120)
    stage.dynamo.account.settle()
    entries = {
        entry.period.label: (entry.state, entry.archive and replace(entry.archive, at=NOON))
        for entry in stage.catalog.entries("s")
    }
    tables = {
        name: (table.status, table.write, table.read, table.infrequent)
        for name, table in stage.dynamo.account.tables.items()
    }
    # Progress that was not cleared any more belongs to nothing: the next archive of its period begins with clearing it.
    return entries, tables, sorted(key for key in stage.bucket.objects if "_progress" not in key)


def killed_after_every_call(
    prepare: Callable[[], Stage], act: Callable[[Stage], object]
) -> Iterator[tuple[int, Stage]]:
    """Stages in which the act was stopped after its first call, its second, and so on to its last but one."""
    whole = prepare()
    whole.restart()
    whole.client.calls = 0
    act(whole)
    total = whole.client.calls
    assert total > 3, "a function that makes no calls proves nothing"
    for calls in range(1, total):
        stage = prepare()
        stage.restart()
        stage.client.calls, stage.client.allowance = 0, calls
        with pytest.raises(Killed):
            act(stage)
        stage.client.allowance = None
        stage.restart()
        # What the dead function held runs out.
        stage.clock.sleep(300)
        yield calls, stage


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
    for calls, stage in killed_after_every_call(later(days), Stage.run_lifecycle):
        assert ids(stage) == everything, f"killed after {calls} calls: something cannot be found meanwhile"
        for _ in range(3):
            stage.run_lifecycle()
            stage.clock.sleep(300)
        assert state(stage) == expected, f"killed after {calls} calls"
        assert ids(stage) == everything, f"killed after {calls} calls"
        assert stage.run_lifecycle().done == []


def test_the_first_run_of_all_is_finished_by_the_next() -> None:
    def nothing() -> Stage:
        return Stage(NOON, CONFIG)

    whole = nothing()
    whole.run_lifecycle()
    expected = state(whole)
    for calls, stage in killed_after_every_call(nothing, Stage.run_lifecycle):
        for _ in range(2):
            stage.run_lifecycle()
            stage.clock.sleep(300)
        assert state(stage) == expected, f"killed after {calls} calls"


def test_an_archive_is_finished_by_the_next_one() -> None:
    def closed() -> Stage:
        stage = built()
        stage.clock.sleep(6 * 86_400)
        for entry in stage.catalog.entries("s"):
            if entry.period.label == "2026-03-15":
                stage.catalog.move(entry, State.CLOSED, expected=[State.OPEN])
        return stage

    def archive(stage: Stage) -> None:
        stage.runs += 1
        stage.archive("s", "2026-03-15", within=240)

    whole = closed()
    archive(whole)
    expected = state(whole)
    for calls, stage in killed_after_every_call(closed, archive):
        assert len(ids(stage)) == len(EVENTS), f"killed after {calls} calls: something cannot be found meanwhile"
        archive(stage)
        assert state(stage) == expected, f"killed after {calls} calls"
        assert len(ids(stage)) == len(EVENTS)


@pytest.mark.parametrize("days", [0, 1.5])
def test_a_drain_is_finished_when_its_message_comes_again(days: float) -> None:
    """Within the window events are written in batches; behind it each in a transaction with the catalog."""
    waiting = [Event("a", from_text(str(one["time"])), f"waiting-{one['id']}", {}) for one in EVENTS]

    def queued() -> Stage:
        stage = built()
        stage.queue.send("s", waiting, 0)
        stage.clock.sleep(days * 86_400)
        return stage

    expected = sorted([*IDS, *(event.id for event in waiting)])
    for calls, stage in killed_after_every_call(queued, Stage.drain):
        stage.clock.sleep(400)
        stage.drain()
        assert ids(stage) == expected, f"killed after {calls} calls"
        assert stage.queue.messages == []


def test_a_request_that_was_cut_short_is_sent_again_without_harm() -> None:
    more = json.dumps([{**event, "id": f"more-{event['id']}"} for event in EVENTS]).encode()
    expected = sorted([*IDS, *(f"more-{id}" for id in IDS)])
    for calls, stage in killed_after_every_call(built, lambda stage: stage.send("s", more)):
        stage.send("s", more)
        assert ids(stage) == expected, f"killed after {calls} calls"
