"""Late events on the strict service: events that a lowered table does not take are queued, and the drain writes all of
them.
"""

import json
from datetime import timedelta
from typing import Any

from strict.refusals import Refusal
from tests.fakes.stage import Stage
from tests.lifecycle.world import outcomes
from tests.worlds.killed import CONFIG, NOON
from tidetable.config.capacity import LATE_SETTLE
from tidetable.times import to_text

FIRST = "    { age = 0, write = 10, read = 10 },\n"
LATE = CONFIG.replace(FIRST, FIRST + '    { age = "late", write = 1, read = 5 },\n')
TABLE = "tidetable-lapse.s.2026-03-15"


def events(count: int) -> list[dict[str, Any]]:
    """Events of the 15th, from noon on."""
    times = [to_text(NOON + timedelta(seconds=number)) for number in range(count)]
    return [
        {"series": f"s{number % 50}", "id": f"e{number}", "time": time, "data": {"n": number}}
        for number, time in enumerate(times)
    ]


def lowered(config: str = LATE) -> Stage:
    """A stage an hour after the 15th, whose table was lowered."""
    stage = Stage(NOON, config)
    stage.run_lifecycle()
    stage.clock.sleep(13 * 3600)
    assert stage.run_lifecycle().healthy
    stage.clock.sleep(60)
    stage.dynamo.account.settle()
    assert stage.dynamo.account.tables[TABLE].write == 1
    return stage


def send(stage: Stage, some: list[dict[str, Any]]) -> Any:
    return stage.send("s", json.dumps(some).encode())


def stored(stage: Stage) -> int:
    return len(stage.dynamo.account.engine.call("Scan", {"TableName": TABLE, "ConsistentRead": True})["Items"])


def drain_all(stage: Stage, longest: timedelta) -> timedelta:
    """Deliver what waits in the queue, and write what is saved in the bucket once a minute; return how long it took."""
    began = stage.clock.now()
    while (stage.queue.messages or stage.values.blobs) and stage.clock.now() - began < longest:
        stage.drain()
        begun = stage.clock.now()
        stage.drain_saved()
        stage.clock.sleep(max(60 - (stage.clock.now() - begun).total_seconds(), 1))
    return stage.clock.now() - began


def test_a_request_does_not_wait_for_a_lowered_table_and_the_drain_writes_what_it_throttled() -> None:
    stage = lowered()
    began = stage.clock.now()
    outcome = send(stage, events(500))
    assert stage.clock.now() == began, "it was queued at once, and no sender waited"
    assert outcome.status == 202
    # The table has saved the most possible: a minute of its lowered unit, and the rest of the earlier hours.
    assert 0 < outcome.queued < 500
    assert outcome.accepted == 500 - outcome.queued
    assert outcome.throttled == 0, "no alarm for this"
    assert outcome.throttled_late >= outcome.queued
    drain_all(stage, timedelta(hours=1))
    assert stage.queue.messages == []
    assert stage.queue.dead == []
    assert stored(stage) == 500


def test_events_of_the_present_are_written_though_late_events_of_the_same_request_are_throttled() -> None:
    stage = lowered()
    send(stage, events(500))
    now = stage.clock.now()
    present = [{"series": "a", "id": f"p{n}", "time": to_text(now), "data": {}} for n in range(5)]
    outcome = send(stage, events(600)[500:] + present)
    assert (outcome.accepted, outcome.queued) == (5, 100)
    assert stage.clock.now() == now


def test_many_more_late_events_than_a_lowered_table_takes_in_a_day_of_tries_are_all_written() -> None:
    """Each try makes progress, because only the missing events of a repeated message are written."""
    stage = lowered()
    wanted = 3_000
    some = events(wanted)
    for start in range(0, wanted, 500):
        assert send(stage, some[start : start + 500]).rejections == []
    waiting = len(stage.queue.messages)
    assert waiting == 6, "a message has 500 events, and a try of 50 seconds writes less than a tenth of them"
    # A quarter of the twelve hours of tries, after which a message is a dead letter.
    drain_all(stage, timedelta(hours=3))
    assert stage.queue.messages == []
    assert stage.queue.dead == []
    assert stored(stage) == wanted


def test_versions_and_compressed_events_of_a_repeated_message_are_not_written_again() -> None:
    text = LATE.replace('large = { beyond = "chunks" }', 'versions = "keep"\nlarge = { compress_above = 1024 }')
    stage = lowered(text)
    some = [
        {**event, "data": {"n": number, "text": "x" * 3000 * (number % 2)}} for number, event in enumerate(events(500))
    ]
    send(stage, some)
    send(stage, [{**event, "data": {"n": -1}} for event in some[:100]])
    drain_all(stage, timedelta(hours=3))
    assert stage.queue.messages == []
    assert stage.queue.dead == []
    assert stored(stage) == 600, "each event, and the former version of a hundred"


def test_four_decreases_of_the_day_put_the_lowering_off_and_nothing_is_refused() -> None:
    stage = Stage(NOON, LATE)
    stage.run_lifecycle()
    stage.clock.time = NOON + timedelta(hours=12, minutes=1)
    for _ in range(4):
        for units in (20, 10):
            throughput = {"WriteCapacityUnits": units, "ReadCapacityUnits": 10}
            stage.dynamo.call("UpdateTable", {"TableName": TABLE, "ProvisionedThroughput": throughput})
            stage.clock.sleep(30)
            stage.dynamo.account.settle()
    stage.clock.time = NOON + timedelta(hours=12) + LATE_SETTLE + timedelta(minutes=1)
    refused: list[str] = []
    call = stage.dynamo.call

    def watched(operation: str, payload: Any) -> Any:
        try:
            return call(operation, payload)
        except Refusal as refusal:
            refused.append(refusal.code)
            raise

    stage.dynamo.call = watched  # type: ignore[method-assign]
    report = stage.run_lifecycle()
    assert ("deferred", "2026-03-15", "deferred") in outcomes(report)
    stage.clock.sleep(3600)
    assert ("capacity", "2026-03-15", "done") in outcomes(stage.run_lifecycle())
    stage.clock.sleep(60)
    stage.dynamo.account.settle()
    assert stage.dynamo.account.tables[TABLE].write == 1
    assert "LimitExceededException" not in refused
