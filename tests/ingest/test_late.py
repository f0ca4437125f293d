"""Tables that are lowered for late events: throttled events are queued at once, counted separately, and drained step by
step.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

import wiring
from tests.api.gateway import Context
from tests.ingest.streams import NOW
from tests.worlds.functions import SENT, environment, record
from tests.worlds.intake import World, event, world
from tidetable.catalog import Opening, State
from tidetable.config import Capacity, LadderStep
from tidetable.config.stream import LargePolicy, PackPolicy
from tidetable.durations import Duration
from tidetable.errors import NotDrained, Undrainable
from tidetable.events import Event
from tidetable.ingest.drain import Drained, drain_message
from tidetable.ingest.overflow import encode_message
from tidetable.ingest.saving import Received
from tidetable.ports import Guard, Put, Written

__all__ = ["environment"]

LADDER = (LadderStep(age=0, write=5, read=5), LadderStep(age="late", write=1, read=5))
LATE = Capacity(mode="provisioned", ladder=LADDER)
# Now is five minutes past midnight of 1 March: 28 February is not lowered yet, 27 February is.
TODAY, YESTERDAY, LOWERED = (f"tidetable-t.quakes.2026-{day}" for day in ("03-01", "02-28", "02-27"))


@pytest.mark.parametrize(
    ("tables", "hours", "seconds", "counts"),
    [
        ({LOWERED}, 30, 0, (0, 1)),
        ({YESTERDAY}, 6, 5, (7, 0)),
        ({TODAY}, 0, 5, (7, 0)),
    ],
    ids=["lowered", "not settled", "present"],
)
def test_only_a_lowered_table_is_tried_once(
    tables: set[str], hours: int, seconds: int, counts: tuple[int, int]
) -> None:
    stage = world(capacity=LATE)
    stage.store.throttles = tables
    outcome = stage.send(event(1, hours=hours), seconds=5)
    assert (outcome.status, outcome.queued, [message.id for message in stage.overflow.queued]) == (202, 1, ["1"])
    waited = (stage.clock.now() - NOW).total_seconds()
    assert seconds - 2 < waited <= seconds
    late = outcome.throttled_late
    assert (late, outcome.throttled > 3) == (counts[1], counts[0] > 3)


@pytest.mark.parametrize(
    "policy",
    [{"versions": "keep"}, {"large": LargePolicy(compress_above=1024)}, {"pack": PackPolicy(span=Duration(minutes=1))}],
    ids=["versions", "compressed", "packs"],
)
def test_a_lowered_table_is_tried_once_in_whatever_form_the_event_is_written(policy: dict[str, Any]) -> None:
    stage = world(capacity=LATE, **policy)
    stage.store.throttles = {LOWERED}
    outcome = stage.send(event(1, hours=30) | {"data": {"n": "x" * 3000}}, seconds=5)
    assert (outcome.queued, outcome.throttled, outcome.throttled_late) == (1, 0, 1)
    assert stage.clock.now() == NOW


def test_without_the_step_every_table_is_tried_for_the_time_of_the_request() -> None:
    stage = world(capacity=Capacity(mode="provisioned", ladder=LADDER[:1]))
    stage.store.throttles = {LOWERED}
    outcome = stage.send(event(1, hours=30), seconds=5)
    assert stage.clock.now() - NOW > timedelta(seconds=3)
    assert (outcome.throttled > 3, outcome.throttled_late) == (True, 0)


def test_a_lowered_table_that_is_open_for_a_backfill_is_one_like_the_others() -> None:
    stage = world(capacity=LATE)
    entry = next(entry for entry in stage.catalog.entries("quakes") if entry.table == LOWERED)
    stage.catalog.move(entry, entry.state, expected=(entry.state,), opened=Opening(NOW + timedelta(hours=1), 50, 5))
    stage.store.throttles = {LOWERED}
    outcome = stage.send(event(1, hours=30), seconds=5)
    assert stage.clock.now() - NOW > timedelta(seconds=3)
    assert (outcome.throttled > 3, outcome.throttled_late) == (True, 0)


def test_a_lowered_table_is_left_alone_while_it_is_throttled_and_the_present_is_written() -> None:
    stage = world(capacity=LATE)
    stage.store.throttles = {LOWERED}
    assert (stage.send(event(1, hours=30), event(2)).queued, stage.count("2026-03-01")) == (1, 1)
    outcome = stage.send(event(3, hours=30), event(4))
    assert (outcome.queued, outcome.throttled_late, stage.count("2026-03-01")) == (1, 0, 2), "it was not even tried"
    assert stage.clock.now() == NOW


def test_throttles_of_lowered_tables_are_a_metric_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alarm WritesThrottled watches the other metric."""
    from handlers import ingest

    stage = world(capacity=LATE)
    stage.store.throttles = {LOWERED}
    measured: dict[str, Any] = {}
    monkeypatch.setattr("handlers._observe.metrics.add_metric", lambda name, _, value: measured.update({name: value}))
    body = f'[{{"series": "a", "time": "{(NOW - timedelta(hours=30)).isoformat()}", "data": {{}}}}]'
    with wiring.serve_pipeline(stage.pipeline()):
        answer = ingest.handler({"pathParameters": {"stream": "quakes"}, "body": body}, Context())  # type: ignore[arg-type]
    assert answer["statusCode"] == 202
    assert (measured["ThrottledWrites"], measured["ThrottledLateWrites"]) == (0, 1)


def written_by(stage: World) -> list[str]:
    """The ids of the events that are put from now on, once per put."""
    ids: list[str] = []
    write_each = stage.store.write_each

    def watched(puts: Sequence[Put], guard: Guard) -> Written:
        ids.extend(put.item["sk"].rpartition("#")[2] for put in puts)
        return write_each(puts, guard)

    stage.store.write_each = watched  # type: ignore[method-assign]
    return ids


def message(count: int, at: datetime, data: Any = 1) -> str:
    return encode_message("quakes", [Event("a", at, f"e{number}", {"n": data}) for number in range(count)], 1)


@pytest.mark.parametrize(
    "policy",
    [{}, {"versions": "keep"}, {"large": LargePolicy(compress_above=1024)}],
    ids=["plain", "versions", "compressed"],
)
def test_of_a_repeated_message_only_what_is_missing_is_written(policy: dict[str, Any]) -> None:
    stage = world(capacity=LATE, **policy)
    for entry in list(stage.catalog.items.values()):
        layout = stage.config.streams["quakes"].layout
        stage.catalog.items[entry.stream, entry.period] = replace(entry, layout=layout)
    data = "x" * 3000 if "large" in policy else 1
    waiting = message(5, NOW - timedelta(hours=30), data)
    drain_message(message(3, NOW - timedelta(hours=30), data), stage.drainer(), lambda: 60.0)
    ids = written_by(stage)
    assert drain_message(waiting, stage.drainer(), lambda: 60.0, received=2).events == 5
    assert ids == ["e3", "e4"]
    ids.clear()
    assert drain_message(waiting, stage.drainer(), lambda: 60.0).events == 5
    assert ids == ["e0", "e1", "e2", "e3", "e4"], "the first time nothing is read"


def test_an_event_that_differs_from_what_is_there_is_written_though_it_was_accepted_at_the_same_instant() -> None:
    stage = world(capacity=LATE)
    drain_message(message(1, NOW, 1), stage.drainer(), lambda: 60.0)
    drain_message(message(1, NOW, 2), stage.drainer(), lambda: 60.0, received=2)
    assert [item["data"] for item in stage.table("2026-03-01")] == [{"n": 2}]


def test_a_repeated_message_does_not_replace_what_was_accepted_after_it() -> None:
    stage = world(capacity=LATE)
    stage.send({"series": "a", "id": "e0", "time": NOW.isoformat(), "data": {"n": 9}})
    ids = written_by(stage)
    drain_message(message(1, NOW, 2), stage.drainer(), lambda: 60.0, received=2)
    assert [item["data"] for item in stage.table("2026-03-01")] == [{"n": 9}]
    assert ids == []


def test_behind_the_window_only_what_is_missing_is_written_either() -> None:
    stage = world(capacity=LATE)
    at = NOW - timedelta(hours=30)
    drain_message(message(2, at), stage.drainer(), lambda: 60.0)
    stage.clock.time = NOW + timedelta(days=2)
    transacted: list[str] = []
    transact = stage.store.transact

    def watched(puts: Any, entry: Any = None, total: Any = None) -> Any:
        transacted.extend(put.put.item["sk"].rpartition("#")[2] for put in puts)
        return transact(puts, entry, total)

    stage.store.transact = watched  # type: ignore[method-assign]
    drain_message(message(3, at), stage.drainer(), lambda: 60.0, received=2)
    assert transacted == ["e2"]


def test_a_table_that_cannot_be_read_is_written_as_at_the_first_time() -> None:
    stage = world(capacity=LATE)
    waiting = message(3, NOW)
    held = stage.store.tables.pop(TODAY)
    with pytest.raises(NotDrained, match=f"missing: {TODAY}"):
        drain_message(waiting, stage.drainer(), lambda: 60.0, received=2)
    stage.store.tables[TODAY] = held
    assert drain_message(waiting, stage.drainer(), lambda: 60.0, received=2).events == 3
    assert stage.count("2026-03-01") == 3


@pytest.mark.parametrize(("count", "received"), [(None, 1), ("1", 1), ("2", 2), ("119", 119)])
def test_the_drain_knows_a_message_that_came_before(
    monkeypatch: pytest.MonkeyPatch, count: str | None, received: int
) -> None:
    from handlers import drain

    calls: list[int] = []

    def take(messages: Sequence[Received], *_: Any) -> list[Drained]:
        calls.extend(message.received for message in messages)
        return [Drained(1)] * len(messages)

    monkeypatch.setattr(drain, "take_messages", take)
    sent = record(SENT + 1, "x")
    sent["attributes"] |= {} if count is None else {"ApproximateReceiveCount": count}
    with wiring.serve_pipeline(world().pipeline()):
        drain.handler({"Records": [sent]}, Context())  # type: ignore[arg-type]
    assert calls == [received]


@pytest.mark.parametrize("state", [State.ARCHIVING, State.ARCHIVED, State.RESTORING])
def test_a_repeated_message_of_an_archived_period_is_laid_aside_whatever_its_table_still_holds(state: State) -> None:
    """An item that is there may have come after the scan: only a restore and a replay make sure that it is archived."""
    stage = World()
    waiting = message(2, NOW)
    assert drain_message(waiting, stage.drainer(), lambda: 60.0).events == 2
    stage.move("2026-03-01", state)
    with pytest.raises(Undrainable, match=f"period 2026-03-01 of quakes is {state}: restore it, then replay"):
        drain_message(waiting, stage.drainer(), lambda: 60.0, received=2)
