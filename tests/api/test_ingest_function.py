"""The ingest function and the drain's: the time that they reserve for their last steps, and their metrics."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

import wiring
from tests.api.gateway import Context
from tests.fakes import FakeClock
from tests.ingest.streams import CONFIG, NOW
from tests.worlds.functions import SENT, environment, queue_message, record
from tests.worlds.intake import World, event
from tidetable.config.stream import PackPolicy
from tidetable.durations import Duration
from tidetable.ingest.drain import Drained
from tidetable.ingest.saving import Received

__all__ = ["environment"]


class Timed(Context):
    """Lambda's time, by a world's clock."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self._clock = clock
        self._end = clock.now() + timedelta(seconds=seconds)

    def get_remaining_time_in_millis(self) -> int:
        return int((self._end - self._clock.now()).total_seconds() * 1000)


def post(
    world: World, monkeypatch: pytest.MonkeyPatch, *events: Any, seconds: float = 28
) -> tuple[Any, dict[str, Any]]:
    """The function's answer to a request, and its metrics."""
    from handlers import ingest

    measured: dict[str, Any] = {}
    monkeypatch.setattr("handlers._observe.metrics.add_metric", lambda name, _, value: measured.update({name: value}))
    sent = {"pathParameters": {"stream": "quakes"}, "body": json.dumps(events)}
    with wiring.serve_pipeline(world.pipeline()):
        return ingest.handler(sent, Timed(world.clock, seconds)), measured  # type: ignore[arg-type]


def test_what_a_throttled_table_does_not_take_is_queued_with_ten_seconds_left(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.store.throttles = {"tidetable-t.quakes.2026-03-01"}
    answer, measured = post(world, monkeypatch, event(1), seconds=14)
    assert (answer["statusCode"], [message.id for message in world.overflow.queued]) == (202, ["1"])
    # Four of the 14 s are for writing, however long the table is throttled.
    assert timedelta(seconds=2) < world.clock.now() - NOW <= timedelta(seconds=4)
    assert (measured["EventsAccepted"], measured["EventsQueued"]) == (0, 1)
    assert measured["ThrottledWrites"] > 1
    assert "ThrottledLateWrites" not in measured


def test_what_was_refused_is_counted_in_a_header_and_by_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    answer, measured = post(World(), monkeypatch, event(1), event(2, days=9), event(3, days=-1))
    assert (answer["statusCode"], answer["headers"]["Tidetable-Rejected"]) == (200, "2")
    assert (measured["EventsRejected_too_old"], measured["EventsRejected_too_new"]) == (1, 1)


@pytest.mark.parametrize("prefer", ["handling=strict", "respond-async, Handling=Strict", "handling = strict,wait=3"])
def test_strict_handling_may_be_one_preference_of_several(prefer: str) -> None:
    from handlers import ingest

    world = World()
    body = json.dumps([event(1), event(2, days=9)])
    sent = {"pathParameters": {"stream": "quakes"}, "headers": {"Prefer": prefer}, "body": body}
    with wiring.serve_pipeline(world.pipeline()):
        answer = ingest.handler(sent, Context())  # type: ignore[arg-type]
    assert (answer["statusCode"], world.stored()) == (400, 0)


@pytest.mark.parametrize(("minutes", "lag"), [(10, 600), (0, 0), (-3, 0)])
def test_the_lag_is_that_of_the_newest_event_and_never_negative(
    monkeypatch: pytest.MonkeyPatch, minutes: int, lag: int
) -> None:
    _, measured = post(World(), monkeypatch, event(1, days=1), event(2, minutes=minutes))
    assert measured["NewestEventLag"] == lag


def test_the_drain_gives_a_message_back_with_five_seconds_left() -> None:
    from handlers import drain

    world = World()
    world.store.throttles = {"tidetable-t.quakes.2026-03-01"}
    sent = {"Records": [{**record(SENT + 1, queue_message(world, "1")), "messageId": "1"}]}
    with wiring.serve_pipeline(world.pipeline()):
        answer = drain.handler(sent, Timed(world.clock, 6.5))  # type: ignore[arg-type]
    assert answer == {"batchItemFailures": [{"itemIdentifier": "1"}]}
    assert world.clock.now() - NOW <= timedelta(seconds=1.5)


def test_packs_are_counted_beside_their_events_and_the_units_are_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = replace(CONFIG.streams["quakes"], pack=PackPolicy(span=Duration.parse("1m")))
    world = World(replace(CONFIG, streams={"quakes": stream}))
    answer, measured = post(world, monkeypatch, *[event(number, seconds=number) for number in range(40)])
    assert (answer["statusCode"], answer["headers"]["Tidetable-Write-Units"]) == (200, "1")
    assert (measured["EventsAccepted"], measured["PacksWritten"], measured["WriteUnits"]) == (40, 1, 1)
    assert "PacksWritten" not in post(World(), monkeypatch, event(1))[1]


def test_the_drain_counts_events_and_the_messages_that_it_could_not_write(monkeypatch: pytest.MonkeyPatch) -> None:
    from handlers import drain

    measured: list[tuple[str, float]] = []
    monkeypatch.setattr("handlers._observe.metrics.add_metric", lambda name, _, value: measured.append((name, value)))
    world = World()
    world.letters.takes = True
    bodies = [queue_message(world, "1", "2", "3"), "no message", queue_message(world, "4", at=NOW - timedelta(days=9))]
    sent = {
        "Records": [{**record(SENT + number, body), "messageId": str(number)} for number, body in enumerate(bodies)]
    }
    with wiring.serve_pipeline(world.pipeline()):
        answer = drain.handler(sent, Timed(world.clock, 60))  # type: ignore[arg-type]
    # The second is buried, and the third waits for its table.
    assert answer == {"batchItemFailures": [{"itemIdentifier": "2"}]}
    counted = [found for found in measured if found[0] != "OldestMessage"]
    assert counted == [("EventsDrained", 3), ("MessagesNotDrained", 1), ("MessagesNotDrained", 1)]


def test_the_drain_measures_how_long_the_oldest_message_has_waited_however_often_it_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SQS leaves a message that was received three times out of its own metric."""
    from handlers import drain

    measured: list[tuple[str, float]] = []
    monkeypatch.setattr("handlers._observe.metrics.add_metric", lambda name, _, value: measured.append((name, value)))
    world = World()
    waiting = queue_message(world, "1", at=NOW - timedelta(days=9))
    old, young = [(world.clock.now() - timedelta(minutes=ago)).timestamp() * 1000 for ago in (90, 10)]
    sent = {"Records": [record(int(young), "no message"), {**record(int(old), waiting), "messageId": "1"}]}
    sent["Records"][1]["attributes"]["ApproximateReceiveCount"] = "15"
    with wiring.serve_pipeline(world.pipeline()):
        drain.handler(sent, Timed(world.clock, 60))  # type: ignore[arg-type]
    assert ("OldestMessage", 5400.0) in measured
    assert [name for name, _ in measured].count("OldestMessage") == 1


@pytest.mark.parametrize(("received", "count"), [({}, 1), ("1", 1), ("2", 2), ("120", 120)])
def test_the_drain_knows_how_often_a_message_came(monkeypatch: pytest.MonkeyPatch, received: Any, count: int) -> None:
    from handlers import drain

    counts: list[int] = []

    def take(messages: Sequence[Received], *_: Any) -> list[Drained]:
        counts.extend(message.received for message in messages)
        return [Drained(1)] * len(messages)

    monkeypatch.setattr(drain, "take_messages", take)
    message = record(SENT + 1, "body")
    if received:
        message["attributes"]["ApproximateReceiveCount"] = received
    with wiring.serve_pipeline(World().pipeline()):
        drain.handler({"Records": [message]}, Context())  # type: ignore[arg-type]
    assert counts == [count]


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ({}, True),
        ({"multiValueQueryStringParameters": {"refs": ["true"]}}, True),
        ({"multiValueQueryStringParameters": {"refs": ["false"]}}, False),
        ({"headers": {"Prefer": "return=minimal"}}, False),
        ({"headers": {"Prefer": "handling=lenient, Return = Minimal"}}, False),
        ({"headers": {"Prefer": "return=representation"}}, True),
    ],
)
def test_an_answer_may_leave_the_refs_out(sent: dict[str, Any], shown: bool) -> None:
    from handlers import ingest

    world = World()
    request = {"pathParameters": {"stream": "quakes"}, "body": json.dumps([event(1), event(2, days=9)]), **sent}
    with wiring.serve_pipeline(world.pipeline()):
        answer = ingest.handler(request, Timed(world.clock, 28))  # type: ignore[arg-type]
    body = json.loads(answer["body"])
    assert body.keys() == {"accepted", "queued", "rejected", "window", "errors"} | ({"refs"} if shown else set())
    assert (body["accepted"], [error["index"] for error in body["errors"]]) == (1, [1])


@pytest.mark.parametrize("values", [["no"], [""], ["true", "true"]])
def test_another_value_of_refs_is_refused_and_nothing_is_written(values: list[str]) -> None:
    from handlers import ingest

    world = World()
    request: dict[str, Any] = {"pathParameters": {"stream": "quakes"}, "body": json.dumps(event(1))}
    request["multiValueQueryStringParameters"] = {"refs": values}
    with wiring.serve_pipeline(world.pipeline()):
        answer = ingest.handler(request, Timed(world.clock, 28))  # type: ignore[arg-type]
    assert (answer["statusCode"], json.loads(answer["body"])["code"]) == (400, "bad_parameter")
    assert not any(world.store.tables.values())
