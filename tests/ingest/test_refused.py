"""Events that DynamoDB refuses for ever: alone, at once, with its reason, and without harm to any other event."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes.noise import noise
from tests.fakes.stage import Stage
from tidetable.catalog import State
from tidetable.errors import NotDrained
from tidetable.events import Event
from tidetable.ingest.batches import SentBatch
from tidetable.ingest.drain import drain_message
from tidetable.ingest.overflow import decode_message, encode_message
from tidetable.ingest.request import IngestRequest, ingest_batch, ingest_body
from tidetable.layout import Layout
from tidetable.problems import ProblemError
from tidetable.query import parse_query, run_query
from tidetable.times import to_text
from tidetable.values import count_item_bytes

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
REASON = "ValidationException: Item size has exceeded the maximum allowed size"
STREAM = """
[streams.s]
period = "day"
late = "1d"
retention = 5
"""
PLAIN = STREAM + 'key = { partition_by = "time", bucket = "1h" }\n'
BY_SERIES = STREAM + 'key = { partition_by = "series" }\n'
# Two indexes that hold all of an event, and one that holds its keys.
THREE = """
index = [
    { name = "near", local = true, sort_by = ["country"] },
    { name = "best", local = true, sort_by = "score" },
    { name = "bare", local = true, sort_by = "score", project = "keys" },
]
"""


def stage_of(config: str) -> Stage:
    stage = Stage(NOON, config)
    stage.run_lifecycle()
    stage.clock.sleep(60)
    return stage


def event(id: str, size: int = 10, **data: Any) -> dict[str, Any]:
    data = {"text": "x" * size, "country": "US", "score": 5} | data
    return {"series": "a", "id": id, "time": to_text(NOON - timedelta(minutes=5)), "data": data}


def send(stage: Stage, *many: dict[str, Any]) -> Any:
    return stage.send("s", json.dumps(many).encode())


def read(stage: Stage) -> dict[str, int]:
    """The ids of the stored events, with the lengths of their texts."""
    stage.clock.sleep(60)
    policy, now = stage.config.streams["s"], stage.clock.now()
    parameters = {"series": ["a"], "from": [to_text(NOON - timedelta(days=2))], "limit": ["1000"]}
    query = parse_query(policy, parameters, now, stage.seal)
    answer = run_query(query, policy, stage.reader(), now, lambda: 100.0)
    return {row["id"]: len(row["data"]["text"]) for row in answer.document()["events"]}


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """This service takes every item for small, so that only DynamoDB refuses it."""
    monkeypatch.setattr(Layout, "measure", property(lambda _: lambda item: min(count_item_bytes(item), 1)))
    monkeypatch.setattr("tidetable.layout.period_layout.count_item_bytes", lambda _: 1)


@pytest.mark.parametrize("base", [PLAIN, BY_SERIES], ids=["time", "series"])
@pytest.mark.parametrize(
    ("index", "room"),
    [
        # An item has 127 bytes besides its text, and each index adds about 60 for its keys: the sizes are rounded down.
        ("", 409_000),
        ('index = [{ name = "near", local = true, sort_by = ["country"] }]', 204_000),
        ('index = [{ name = "near", local = true, sort_by = ["country"], project = "keys" }]', 409_000),
        ('index = [{ name = "near", local = true, sort_by = ["country"], project = ["text"] }]', 136_000),
        ('index = [{ name = "near", local = true, sort_by = ["country"], project = ["score"] }]', 409_000),
        ('index = [{ name = "near", partition_by = "country" }]', 409_000),
        (THREE, 136_000),
        (THREE + "\n[streams.s.large]\nbeyond = 's3'", 2_400_000),
        (THREE + "\n[streams.s.large]\nbeyond = 'chunks'", 2_400_000),
        (THREE + "\n[streams.s.large]\ncompress_above = 1024", 2_400_000),
        ('versions = "keep"' + THREE, 40_000),
    ],
)
def test_an_event_is_stored_or_refused_as_too_large_with_all_entries_of_local_indexes(
    base: str, index: str, room: int
) -> None:
    stage = stage_of(base + index)
    begun = stage.clock.now()
    outcome = send(stage, event("small"), event("fits", room))
    assert (outcome.status, outcome.accepted, outcome.queued, list(outcome.rejections)) == (200, 2, 0, [])
    if room < 1_000_000 and "versions" not in index:
        outcome = send(stage, event("other"), event("over", room + 1_000))
        assert (outcome.accepted, outcome.queued) == (1, 0)
        (rejection,) = outcome.rejections
        assert (rejection.id, rejection.code) == ("over", "too_large")
        assert ("local indexes" in rejection.detail) is ("local = true" in index)
    assert stage.clock.now() - begun < timedelta(seconds=1), "nobody waits"
    stored = read(stage)
    assert stored["fits"] == room
    assert "over" not in stored


@pytest.mark.parametrize("beyond", ["refuse", "s3"])
def test_every_version_of_an_event_in_local_indexes_is_stored(beyond: str) -> None:
    stage = stage_of(BY_SERIES + 'versions = "keep"' + THREE + f"\n[streams.s.large]\nbeyond = '{beyond}'")
    for number in range(5):
        outcome = send(stage, event("v", 60_000 + number, round=number))
        stage.clock.sleep(2)
        assert (outcome.status, outcome.accepted, outcome.queued) == (200, 1, 0)
    assert read(stage) == {"v": 60_004}


def test_sizes_around_the_limit_are_never_queued() -> None:
    """What this service accepts, DynamoDB accepts, to the byte: 3 entries and 409,600 bytes."""
    stage = stage_of(BY_SERIES + THREE)
    outcomes = []
    for size in range(136_300, 136_420, 3):
        outcome = send(stage, event("e", size), event("small"))
        stage.clock.sleep(5)
        outcomes.append(not outcome.rejections)
        assert (outcome.accepted, outcome.queued) == (2 - len(outcome.rejections), 0)
        assert [rejection.code for rejection in outcome.rejections] in ([], ["too_large"])
    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == {True, False}


@pytest.mark.parametrize(
    "config", [PLAIN, BY_SERIES + THREE, PLAIN + 'versions = "keep"'], ids=["plain", "local", "kept"]
)
@pytest.mark.usefixtures("unmeasured")
def test_one_refused_event_is_rejected_with_dynamodbs_reason_and_all_others_are_stored(config: str) -> None:
    stage = stage_of(config)
    begun = stage.clock.now()
    outcome = send(stage, *[event(f"e{number:02}") for number in range(30)], event("bad", 410_000), event("last"))
    assert (outcome.status, outcome.accepted, outcome.queued, outcome.throttled) == (200, 31, 0, 0)
    (rejection,) = outcome.rejections
    assert (rejection.index, rejection.id, rejection.code) == (30, "bad", "invalid")
    assert rejection.detail == f"DynamoDB refuses the event: {REASON}"
    assert [ref is None for ref in outcome.refs] == [False] * 30 + [True, False]
    assert stage.clock.now() - begun < timedelta(seconds=1), "nobody waits"
    assert stage.queue.messages == []
    # The circuit is closed: the next event is stored, too.
    assert send(stage, event("next")).accepted == 1
    assert sorted(read(stage)) == [*[f"e{number:02}" for number in range(30)], "last", "next"]


@pytest.mark.usefixtures("unmeasured")
def test_a_request_whose_every_event_is_refused_is_refused() -> None:
    stage = stage_of(PLAIN)
    with pytest.raises(ProblemError) as refused:
        send(stage, event("a", 410_000), event("b", 410_000))
    problem = refused.value.problem
    assert (problem.status, problem.code, problem.more["rejected"]) == (422, "all_refused", 2)
    assert REASON in problem.more["errors"][0]["detail"]
    strict = IngestRequest("s", json.dumps([event("a", 410_000)]).encode(), strict=True)
    with pytest.raises(ProblemError) as refused:
        ingest_body(strict, stage.pipeline.ingest, lambda: 20.0)
    assert (refused.value.problem.status, refused.value.problem.code) == (400, "strict")
    # A door's own answer lists the rejection.
    outcome = ingest_batch("s", SentBatch.of_values([event("a", 410_000)]), stage.pipeline.ingest, lambda: 20.0)
    assert (outcome.accepted, outcome.queued, [own.code for own in outcome.rejections]) == (0, 0, ["invalid"])
    assert send(stage, event("c")).accepted == 1


@pytest.mark.usefixtures("unmeasured")
def test_with_strict_handling_the_other_events_are_stored() -> None:
    stage = stage_of(PLAIN)
    request = IngestRequest("s", json.dumps([event("a"), event("b", 410_000)]).encode(), strict=True)
    outcome = ingest_body(request, stage.pipeline.ingest, lambda: 20.0)
    assert (outcome.status, outcome.accepted, [own.id for own in outcome.rejections]) == (200, 1, ["b"])
    assert read(stage) == {"a": 10}


def test_chunks_that_dynamodb_refuses_reject_their_event_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidetable.large.forms.CHUNK_BYTES", 420_000)
    stage = stage_of(PLAIN + "[streams.s.large]\nbeyond = 'chunks'\n")
    outcome = send(stage, event("small"), event("bad", text=noise(1_500_000)))
    assert (outcome.accepted, outcome.queued, [own.id for own in outcome.rejections]) == (1, 0, ["bad"])
    close(stage)
    late = [Event("a", NOON, "late", {}), Event("a", NOON, "bad", {"text": noise(1_500_000)})]
    drained = drain_message(encode_message("s", late, 5), stage.pipeline.drain, lambda: 60.0)
    assert (drained.events, drained.buried) == (1, f"DynamoDB refuses 1 items of s: {REASON}")


def close(stage: Stage) -> None:
    stage.clock.sleep(86_400 + 13 * 3600)
    for _ in range(3):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    (entry,) = stage.catalog.entries("s", NOON, NOON)
    assert entry.state is State.CLOSED


@pytest.mark.parametrize("when", [lambda _: None, close], ids=["open", "closed"])
@pytest.mark.parametrize(
    "config", [PLAIN, BY_SERIES + THREE, PLAIN + 'versions = "keep"'], ids=["plain", "local", "kept"]
)
@pytest.mark.usefixtures("unmeasured")
def test_the_drain_buries_only_the_refused_event_with_dynamodbs_reason(
    config: str, when: Callable[[Stage], None]
) -> None:
    stage = stage_of(config)
    when(stage)
    events = [Event("a", NOON, f"e{number:02}", event("")["data"]) for number in range(14)]
    events.insert(3, Event("a", NOON, "bad", event("", 410_000)["data"]))
    drained = drain_message(encode_message("s", events, 5), stage.pipeline.drain, lambda: 60.0)
    # A transaction calls the same error ValidationError.
    reason = (drained.buried or "").replace("ValidationError", "ValidationException")
    assert (drained.events, reason) == (14, f"DynamoDB refuses 1 items of s: {REASON}")
    (letter,) = stage.queue.dead
    assert [own.id for own in decode_message(letter.body).events] == ["bad"]
    assert decode_message(letter.body).at == 5
    assert sorted(read(stage)) == [f"e{number:02}" for number in range(14)]


def test_the_drain_buries_only_the_event_that_no_policy_can_keep() -> None:
    stage = stage_of(BY_SERIES + THREE)
    events = [Event("a", NOON, "large", event("", 150_000)["data"]), Event("a", NOON, "small", event("")["data"])]
    drained = drain_message(encode_message("s", events, 5), stage.pipeline.drain, lambda: 60.0)
    assert (drained.events, drained.buried) == (1, "an event of s is too large for period 2026-03-15")
    assert [own.id for own in decode_message(stage.queue.dead[0].body).events] == ["large"]
    assert list(read(stage)) == ["small"]


def refuse_writes(stage: Stage, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from strict.refusals import Refusal

    call = stage.dynamo.call

    def refuse(operation: str, payload: Any) -> Any:
        if operation in ("BatchWriteItem", "PutItem"):
            raise Refusal(code, "the reason of the service")
        return call(operation, payload)

    monkeypatch.setattr(stage.dynamo, "call", refuse)


@pytest.mark.parametrize(
    "code",
    [
        "AccessDeniedException",
        "ProvisionedThroughputExceededException",
        "InternalServerError",
        "ResourceInUseException",
    ],
)
def test_a_refusal_that_may_end_is_queued_and_the_drain_says_why(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A right that is missing, or a key of KMS that is disabled, may come back: nothing of the event is wrong."""
    stage = stage_of(PLAIN)
    refuse_writes(stage, code, monkeypatch)
    assert send(stage, event("a"), event("b")).queued == 2
    (message,) = stage.queue.messages
    with pytest.raises(NotDrained) as refused:
        drain_message(message.body, stage.pipeline.drain, lambda: 60.0)
    assert str(refused.value) == f"2 of 2 items of s are still to be written: {code}: the reason of the service"
    assert stage.queue.dead == []
    # After the last try the queue would throw it to the dead letters without a reason.
    drained = drain_message(message.body, stage.pipeline.drain, lambda: 60.0, received=120)
    assert (drained.events, drained.buried) == (0, str(refused.value))
    assert [letter.body for letter in stage.queue.dead] == [message.body]


@pytest.mark.parametrize("code", ["ValidationException", "SerializationException"])
def test_a_refusal_of_what_is_in_the_item_is_final(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_of(PLAIN)
    refuse_writes(stage, code, monkeypatch)
    with pytest.raises(ProblemError) as refused:
        send(stage, event("a"), event("b"))
    assert refused.value.problem.code == "all_refused"
    drained = drain_message(encode_message("s", [Event("a", NOON, "a", {})], 5), stage.pipeline.drain, lambda: 60.0)
    assert drained.buried == f"DynamoDB refuses 1 items of s: {code}: the reason of the service"


def test_packs_that_dynamodb_refuses_reject_their_events(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = stage_of(PLAIN + 'pack = { span = "10m" }\n')
    refuse_writes(stage, "ValidationException", monkeypatch)
    with pytest.raises(ProblemError) as refused:
        send(stage, event("a"), event("b"))
    assert (refused.value.problem.code, refused.value.problem.more["rejected"]) == ("all_refused", 2)
    assert stage.queue.messages == []
