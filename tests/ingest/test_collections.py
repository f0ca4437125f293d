"""Item collections that are full: in tables with local indexes DynamoDB keeps 10 GB per partition key, here 20 KB."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes.stage import Stage
from tidetable.catalog import State
from tidetable.errors import NotDrained, Undrainable
from tidetable.events import Event
from tidetable.ingest.drain import drain_message
from tidetable.ingest.overflow import decode_message, encode_message
from tidetable.query import parse_query, run_query
from tidetable.times import to_text

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
CONFIG = """
[streams.s]
period = "day"
late = "1d"
retention = 5
key = { partition_by = "series" }
index = [{ name = "near", local = true, sort_by = ["country"] }]
"""
VERSIONED = CONFIG.replace("retention = 5", 'retention = 5\nversions = "keep"')


def stage_of(config: str = CONFIG) -> Stage:
    stage = Stage(NOON, config)
    stage.run_lifecycle()
    stage.clock.sleep(60)
    stage.dynamo.account.collection_bytes = 20 * 1024
    return stage


def event(series: str, number: int, **data: Any) -> dict[str, Any]:
    at = to_text(NOON - timedelta(minutes=number))
    return {
        "series": series,
        "id": f"{series}{number}",
        "time": at,
        "data": {"text": "x" * 2100, "country": "US"} | data,
    }


def send(stage: Stage, many: list[dict[str, Any]]) -> Any:
    return stage.send("s", json.dumps(many).encode())


def find_ids(stage: Stage, *series: str) -> list[str]:
    stage.clock.sleep(60)
    policy, now = stage.config.streams["s"], stage.clock.now()
    parameters = {"series": list(series), "from": [to_text(NOON - timedelta(days=2))], "limit": ["1000"]}
    query = parse_query(policy, parameters, now, stage.seal)
    answer = run_query(query, policy, stage.reader(), now, lambda: 100.0)
    return sorted(row["id"] for row in answer.document()["events"])


@pytest.mark.parametrize("config", [CONFIG, VERSIONED], ids=["plain", "versions"])
def test_events_of_a_full_collection_become_dead_letters_and_all_others_are_stored(config: str) -> None:
    """Of 2 KB each, and as much in the local index, a collection has room for four; the other series are not held up."""
    stage = stage_of(config)
    assert send(stage, [event("a", number) for number in range(4)]).queued == 0
    full, others = [event("a", number) for number in range(4, 9)], [event("b", number) for number in range(3)]
    calls = stage.dynamo.calls.get("BatchWriteItem", 0)
    outcome = send(stage, [*full, *others])
    assert (outcome.status, outcome.accepted, outcome.queued, outcome.full, outcome.throttled) == (202, 3, 5, 5, 0)
    assert stage.dynamo.calls.get("BatchWriteItem", 0) - calls <= 1, "what is full is not tried again"
    assert find_ids(stage, "a") == [f"a{number}" for number in range(4)]
    assert find_ids(stage, "b") == ["b0", "b1", "b2"]
    (message,) = stage.queue.messages
    drained = drain_message(message.body, stage.pipeline.drain, lambda: 30.0)
    assert drained.buried is not None
    assert "5 items of s belong to item collections that hold 10 GB" in drained.buried
    (letter,) = stage.queue.dead
    assert [event.id for event in decode_message(letter.body).events] == [event["id"] for event in full]


def test_a_full_collection_does_not_close_its_table_to_other_events() -> None:
    """A table that takes nothing for several requests is not tried for a while; this table takes every other event."""
    stage = stage_of()
    send(stage, [event("a", number) for number in range(4)])
    for number in range(4, 14):
        assert send(stage, [event("a", number)]).queued == 1
    assert send(stage, [event("c", 1)]).accepted == 1


def test_a_message_is_buried_after_everything_else_of_it_is_written() -> None:
    stage = stage_of()
    send(stage, [event("a", number) for number in range(4)])
    stage.dynamo.account.collection_bytes = 0
    many = [event("a", 9), event("b", 1), event("d", 2)]
    assert send(stage, many).queued == 3
    stage.dynamo.account.collection_bytes = 20 * 1024
    stage.drain()
    assert stage.queue.messages == []
    assert len(stage.queue.dead) == 1
    assert find_ids(stage, "a", "b", "d") == ["a0", "a1", "a2", "a3", "b1", "d2"]
    # The operator's remedy: the letter is sent again when there is room.
    stage.dynamo.account.collection_bytes = 10**9
    assert drain_message(stage.queue.dead[0].body, stage.pipeline.drain, lambda: 30.0).events == 1
    assert find_ids(stage, "a", "b", "d") == ["a0", "a1", "a2", "a3", "a9", "b1", "d2"]


def test_a_message_is_not_buried_for_a_full_collection_while_an_event_of_it_waits_for_its_table() -> None:
    stage = stage_of()
    send(stage, [event("a", number) for number in range(4)])
    full = Event("a", NOON, "a9", event("a", 9)["data"])
    body = encode_message("s", [full, Event("b", NOON + timedelta(days=30), "b1", {})], 5)
    with pytest.raises(NotDrained, match="no period table of s is recorded") as refused:
        drain_message(body, stage.pipeline.drain, lambda: 30.0)
    assert not isinstance(refused.value, Undrainable)
    assert stage.queue.dead == []


def test_a_further_version_of_an_event_in_a_full_collection_is_a_dead_letter() -> None:
    """A version is added by a transaction, which says that the collection is full."""
    stage = stage_of(VERSIONED)
    send(stage, [event("a", number) for number in range(4)])
    # An earlier version is in no index, so there is room for one.
    assert send(stage, [event("a", 1, text="y" * 2100)]).accepted == 1
    calls = stage.dynamo.calls.get("TransactWriteItems", 0)
    outcome = send(stage, [event("a", 1, text="z" * 2100), event("b", 1)])
    assert (outcome.accepted, outcome.queued, outcome.full, outcome.throttled) == (1, 1, 1, 0)
    assert stage.dynamo.calls["TransactWriteItems"] - calls == 1, "what is full is not tried again"
    stage.drain()
    assert (stage.queue.messages, len(stage.queue.dead)) == ([], 1)
    assert find_ids(stage, "a", "b") == ["a0", "a1", "a2", "a3", "b1"]


@pytest.mark.parametrize("config", [CONFIG, VERSIONED], ids=["plain", "versions"])
def test_a_late_event_of_a_full_collection_is_buried_too(config: str) -> None:
    """Events of a closed table are written in transactions, each of which says that its collection is full."""
    stage = stage_of(config)
    send(stage, [event("a", number) for number in range(4)])
    stage.clock.sleep(86_400 + 13 * 3600)
    for _ in range(3):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    (entry,) = stage.catalog.entries("s", NOON, NOON)
    assert entry.state is State.CLOSED
    late = [Event(id[0], NOON, id, event("a", 0)["data"]) for id in ("a8", "a9", "b9")]
    drained = drain_message(encode_message("s", late, 5), stage.pipeline.drain, lambda: 30.0)
    assert (drained.buried or "").startswith("2 items of s belong to item collections that hold 10 GB")
    assert len(stage.queue.dead) == 1
    assert find_ids(stage, "b") == ["b9"]


def test_an_event_of_a_full_collection_is_buried_although_the_table_takes_what_follows_in_its_message() -> None:
    """The drain writes ten items at a time: the full collection is met in the first ten, and the last two are written."""
    stage = stage_of()
    send(stage, [event("a", number) for number in range(4)])
    others = [f"b{number:02}" for number in range(11)]
    waiting = [Event("a", NOON, "a9", event("a", 9)["data"]), *[Event(name, NOON, name, {}) for name in others]]
    drained = drain_message(encode_message("s", waiting, 5), stage.pipeline.drain, lambda: 30.0)
    assert (drained.buried or "").startswith("1 items of s belong to item collections that hold 10 GB")
    assert len(stage.queue.dead) == 1
    assert find_ids(stage, *others) == others


def test_an_event_of_a_full_collection_is_buried_although_a_later_period_takes_its_events() -> None:
    """Each period is written by itself: the collection of the day before is full, and the collection of today is not."""
    stage = stage_of()
    yesterday = NOON - timedelta(hours=23)
    assert send(stage, [event("a", 23 * 60 - number) for number in range(4)]).queued == 0
    data = event("a", 9)["data"]
    body = encode_message("s", [Event("a", yesterday, "a9", data), Event("a", NOON, "today", data)], 5)
    drained = drain_message(body, stage.pipeline.drain, lambda: 30.0)
    assert (drained.buried or "").startswith("1 items of s belong to item collections that hold 10 GB")
    assert len(stage.queue.dead) == 1
    ids = find_ids(stage, "a")
    assert ("today" in ids, "a9" in ids) == (True, False)
