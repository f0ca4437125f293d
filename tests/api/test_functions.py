"""The handlers around their use cases."""

import gc
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

import wiring
from tests.api.gateway import Context
from tests.fakes.stage import Stage
from tests.ingest.streams import NOW
from tests.worlds.functions import SENT, environment, queue_message, record
from tests.worlds.intake import Letters, World
from tidetable.catalog import State
from tidetable.errors import Outage, StoreUnavailable
from tidetable.ingest.drain import Drained
from tidetable.ingest.saving import Received

__all__ = ["environment"]


def test_the_drain_takes_the_oldest_message_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from handlers import drain

    taken: list[str] = []

    def take(messages: Sequence[Received], *_: Any) -> list[Drained]:
        taken.extend(message.body for message in messages)
        return [Drained(1)] * len(messages)

    monkeypatch.setattr(drain, "take_messages", take)
    event = {"Records": [record(30, "young"), record(9, "oldest"), record(11, "older")]}
    with wiring.serve_pipeline(World().pipeline()):
        assert drain.handler(event, Context()) == {"batchItemFailures": []}  # type: ignore[arg-type]
    assert taken == ["oldest", "older", "young"]


@pytest.fixture
def drained() -> Iterator[tuple[World, Letters, Callable[..., list[str]]]]:
    """The drain's real handler over tables in memory; it answers which messages failed."""
    from handlers import drain

    world = World()
    world.letters.takes = True

    def run(*bodies: str) -> list[str]:
        records = [{**record(SENT + number, body), "messageId": str(number)} for number, body in enumerate(bodies)]
        answer = drain.handler({"Records": records}, Context())  # type: ignore[arg-type]
        return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]

    with wiring.serve_pipeline(world.pipeline()):
        yield world, world.letters, run


def test_a_message_that_was_not_drained_comes_again_and_the_others_do_not(
    drained: tuple[World, Letters, Callable[..., list[str]]],
) -> None:
    world, letters, run = drained
    bodies = [
        queue_message(world, "1"),
        queue_message(world, "2", at=NOW - timedelta(days=1)),
        queue_message(world, "3"),
    ]
    held = world.store.tables.pop("tidetable-t.quakes.2026-02-28")
    assert run(*bodies) == ["1"]
    assert letters.kept == [], "it can be drained once the table is there"
    world.store.tables["tidetable-t.quakes.2026-02-28"] = held
    assert run(bodies[1]) == []
    assert (world.count("2026-03-01"), world.count("2026-02-28")) == (2, 1)


def test_a_message_comes_again_whatever_stopped_it(
    drained: tuple[World, Letters, Callable[..., list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    world, letters, run = drained

    def broken(*_: Any) -> None:
        raise StoreUnavailable(Outage.NO_ANSWER, "connection reset")

    monkeypatch.setattr(world.store, "write_each", broken)
    assert run(queue_message(world, "1")) == ["0"]
    assert letters.kept == []


def test_a_message_that_no_try_can_drain_is_buried_with_its_reason_or_comes_again(
    drained: tuple[World, Letters, Callable[..., list[str]]],
) -> None:
    world, letters, run = drained
    world.move("2026-03-01", State.ARCHIVED)
    bodies = ["no message", queue_message(world, "1"), queue_message(world, "2", at=NOW - timedelta(days=1))]
    letters.takes = False
    assert run(*bodies) == ["0", "1"]
    letters.takes = True
    assert run(*bodies) == []
    assert [reason.partition(":")[0] for reason in letters.kept] == [
        "the message cannot be read",
        "period 2026-03-01 of quakes is archived",
    ]


BAD_EVENTS: list[tuple[str, Any, int]] = [
    (
        "half a surrogate pair in the body",
        {"pathParameters": {"stream": "quakes"}, "body": '{"series": "\ud800"}'},
        400,
    ),
    ("a body that is no base64", {"pathParameters": {"stream": "quakes"}, "body": "x", "isBase64Encoded": True}, 400),
    ("half a surrogate pair for a stream", {"pathParameters": {"stream": "\ud800"}, "body": "{}"}, 404),
    (
        "half a surrogate pair for a type",
        {"pathParameters": {"stream": "quakes"}, "headers": {"content-type": "\ud800"}, "body": "{}"},
        415,
    ),
    ("no path", {"body": "{}"}, 503),
    ("nothing", {}, 503),
    ("no object", None, 503),
]


@pytest.mark.parametrize(("name", "event", "status"), BAD_EVENTS, ids=[name for name, *_ in BAD_EVENTS])
def test_every_event_of_the_gateway_is_answered(name: str, event: Any, status: int) -> None:
    from handlers import ingest

    with wiring.serve_pipeline(World().pipeline()):
        answer = ingest.handler(event, Context())  # type: ignore[arg-type]
    assert answer["statusCode"] == status
    assert json.loads(answer["body"])["status"] == status
    assert answer["headers"].get("Retry-After") == ("5" if status == 503 else None)


@pytest.mark.parametrize("broken", ["publish_metrics", "make_json_response", "make_problem_response"])
def test_no_exception_leaves_the_ingest_function(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also no exception of the metrics or of the answer itself: the gateway would answer 502 without a reason."""
    from handlers import ingest

    whole = getattr(ingest, broken)
    calls: list[Any] = []

    def once(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 1:
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
        return whole(*given)

    monkeypatch.setattr(ingest, broken, once)
    body = "{" if broken == "make_problem_response" else '{"series": "a"}'
    event = {"pathParameters": {"stream": "quakes"}, "body": body}
    with wiring.serve_pipeline(World().pipeline()):
        answer = ingest.handler(event, Context())  # type: ignore[arg-type]
    assert (answer["statusCode"], answer["headers"]["Retry-After"]) == (503, "5")
    assert json.loads(answer["body"])["code"] == "unavailable"


def test_the_collector_stands_still_in_an_invocation_and_goes_on_after_it_whatever_happens() -> None:
    from handlers import _observe

    seen: list[bool] = []

    def handler(event: Any, context: Any) -> None:
        seen.append(gc.isenabled())
        if event is not None:
            raise RuntimeError(event)

    entry = _observe.pause_collector(handler)
    entry(None, Context())  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="broken"):
        entry("broken", Context())  # type: ignore[arg-type]
    assert seen == [False, False]
    assert gc.isenabled()


def test_a_pipeline_with_another_configuration_answers_queries_by_it() -> None:
    from handlers import query

    config = """
[streams.s]
period = "day"
late = "1h"
retention = 3
key = { partition_by = "time", bucket = "1h" }

[api]
cors = ["https://app.example"]
"""
    stage = Stage(NOW, config)

    def get(route: str, **path: str) -> tuple[dict[str, Any], dict[str, str]]:
        headers = {"origin": "https://app.example"}
        event = {"resource": route, "httpMethod": "GET", "headers": headers, "pathParameters": path}
        answer = query.handler(event, Context())  # type: ignore[arg-type]
        return json.loads(answer["body"]), answer["headers"]

    with wiring.serve_pipeline(stage.pipeline):
        health, headers = get("/v1/health")
        listed, _ = get("/v1/streams")
        events, _ = get("/v1/streams/{stream}/events", stream="s")
        unknown, _ = get("/v1/streams/{stream}/events", stream="quakes")
    assert (health["streams"], headers["Access-Control-Allow-Origin"]) == (1, "https://app.example")
    assert [stream["stream"] for stream in listed["streams"]] == ["s"]
    assert (events["events"], unknown["status"]) == ([], 404)
