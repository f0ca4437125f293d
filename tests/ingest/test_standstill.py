"""A drain that stands still, for longer than the fourteen days that a queue keeps a message."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from aws.zstd import Zstd
from tests.fakes.stage import Stage
from tests.worlds.saved import DAY, NOON, list_saved, queue_events, read_events, stage_of, throttle
from tidetable.events import Event
from tidetable.ingest.beat import BeatingOverflow
from tidetable.ingest.overflow import Wake, decode_message, encode_message, encode_wake, keep_message
from tidetable.ingest.saved import drain_saved, take_messages
from tidetable.ingest.saved_names import SavedMessage
from tidetable.ingest.saving import Received
from tidetable.ingest.standstill import WatchReport
from tidetable.problems import ProblemError
from tidetable.times import to_text

MINUTE = timedelta(minutes=1)


def alive() -> Stage:
    """A stage whose drain has recorded a beat just now."""
    stage = stage_of()
    stage.watch()
    stage.drain()
    assert (stage.beats.beat, stage.queue.messages) == (stage.clock.now(), [])
    return stage


def stopped(after: timedelta = 31 * MINUTE) -> Stage:
    """A stage whose drain has recorded its last beat some time ago."""
    stage = alive()
    stage.clock.sleep(after.total_seconds())
    return stage


def send(stage: Stage, *ids: str, **data: Any) -> int:
    """Send events of noon, and return how many of them are queued."""
    events = [{"series": "a", "id": id, "time": to_text(NOON), "data": data} for id in ids]
    return stage.send("s", json.dumps(events).encode()).queued


@pytest.mark.parametrize(("silence", "saved"), [(30 * MINUTE - timedelta(seconds=1), 0), (30 * MINUTE, 1)])
def test_events_become_an_object_while_the_last_beat_is_old(silence: timedelta, saved: int) -> None:
    stage = alive()
    stage.beats.beat = (sent := stage.clock.now()) - silence
    assert not stage.pipeline.overflow.send("s", [Event("a", NOON, "1", {"n": 1}), Event("a", NOON, "2", {})], 5)
    assert (len(list_saved(stage)), len(stage.queue.messages)) == (saved, 1 - saved)
    for key in list_saved(stage):
        assert key.startswith(f"saved/stream=s/{int(sent.timestamp() * 1000):013}/events=2/")
        message = decode_message(Zstd().expand(stage.values.blobs[key].body))
        assert ([event.id for event in message.events], message.at) == (["1", "2"], 5)


def test_two_requests_at_one_instant_are_two_objects() -> None:
    stage = stopped()
    throttle(stage)
    assert (send(stage, "1"), send(stage, "2"), len(list_saved(stage))) == (1, 1, 2)


def test_a_stage_without_any_beat_yet_uses_the_queue() -> None:
    stage = stage_of()
    throttle(stage)
    assert (send(stage, "1"), len(stage.queue.messages), list_saved(stage)) == (1, 1, [])


def test_a_request_uses_the_queue_if_the_beat_cannot_be_read() -> None:
    stage = stopped()
    throttle(stage)
    stage.beats.fails = True
    assert (send(stage, "1"), len(stage.queue.messages), list_saved(stage)) == (1, 1, [])


def test_a_beat_that_was_read_gets_old_while_the_table_does_not_answer() -> None:
    stage = alive()
    overflow = BeatingOverflow(stage.queue, stage.beats, stage.large, stage.clock)
    event = Event("a", NOON, "1", {})
    assert (overflow.send("s", [event], 5), list_saved(stage)) == ([], [])
    stage.beats.fails = True
    stage.clock.sleep(30 * 60 - 1)
    assert (overflow.send("s", [event], 5), list_saved(stage)) == ([], [])
    stage.clock.sleep(1)
    assert (overflow.send("s", [event], 5), len(list_saved(stage))) == ((), 1)


def test_a_request_uses_the_queue_if_the_bucket_takes_nothing_and_is_refused_if_neither_does() -> None:
    stage = stopped()
    throttle(stage)
    stage.values.refuses = True
    assert (send(stage, "1"), len(stage.queue.messages), list_saved(stage)) == (1, 1, [])
    stage.queue.refuses = True
    with pytest.raises(ProblemError) as refusal:
        send(stage, "2")
    assert (refusal.value.problem.status, refusal.value.problem.code) == (503, "not_durable")


def test_a_request_that_queues_nothing_reads_no_beat_and_others_read_one_a_minute() -> None:
    stage = alive()
    stage.beats.reads = 0
    assert (send(stage, "1"), stage.beats.reads) == (0, 0)
    overflow = BeatingOverflow(stage.queue, stage.beats, stage.large, stage.clock)
    for seconds, reads in [(0, 1), (59, 1), (1, 2), (-3600, 3), (59, 3)]:
        stage.clock.sleep(seconds)
        assert overflow.send("s", [Event("a", NOON, "1", {})], 5) == []
        assert stage.beats.reads == reads, seconds
    stage.beats.fails = True
    for seconds, reads in [(60, 4), (59, 4), (1, 5)]:
        stage.clock.sleep(seconds)
        assert overflow.send("s", [Event("a", NOON, "1", {})], 5) == []
        assert stage.beats.reads == reads, "no second request waits for a table that does not answer"


def test_a_beat_counts_from_when_it_was_sent_and_not_at_all_if_it_needs_half_an_hour() -> None:
    stage = alive()
    sent = stage.clock.now()
    stage.clock.sleep(60)
    stage.watch()
    stage.clock.sleep(29 * 60)
    stage.drain()
    assert stage.beats.beat == sent + MINUTE
    stage.watch()
    stage.clock.sleep(30 * 60)
    stage.drain()
    assert (stage.beats.beat, stage.queue.messages) == (sent + MINUTE, [])


def test_a_beat_that_cannot_be_recorded_comes_again() -> None:
    stage = alive()
    stage.clock.sleep(300)
    stage.watch()
    stage.beats.fails = True
    stage.drain()
    assert len(stage.queue.messages) == 1
    stage.beats.fails, sent = False, stage.clock.now()
    stage.clock.sleep(360)
    stage.drain()
    assert (stage.beats.beat, stage.queue.messages) == (sent, [])


def test_the_watch_saves_nothing_while_the_drain_is_alive_and_gives_a_new_one_time() -> None:
    stage = stage_of()
    queue_events(stage, "1")
    assert stage.watch() == WatchReport(timedelta())
    stage.clock.sleep(29 * 60)
    assert stage.watch() == WatchReport(29 * MINUTE)
    assert list_saved(stage) == []
    stage.clock.sleep(60)
    assert stage.watch() == WatchReport(30 * MINUTE, 1)
    assert len(list_saved(stage)) == 1


def test_the_watch_saves_what_waits_and_what_died_without_a_reason() -> None:
    stage = alive()
    queue_events(stage, *[f"{number:02}" for number in range(12)])
    queue_events(stage, "late", at=7)
    large = [Event("a", NOON, "large", {"text": "x"})]
    ticket = keep_message("s", encode_message("s", large), large[0], stage.values, Zstd(), "kept")
    stage.queue.push(str(ticket))
    stage.queue.push(encode_message("s", [Event("a", NOON, "dead", {})], 5))
    stage.queue.dead.append(stage.queue.messages.pop())
    stage.queue.bury(encode_message("s", [Event("a", NOON, "buried", {})], 5), "DynamoDB refuses it")
    sent = stage.clock.now()
    stage.clock.sleep(13 * 86_400)
    assert stage.watch() == WatchReport(13 * DAY, 12 + 1 + 1 + 1)
    assert {SavedMessage.of(key).sent for key in list_saved(stage)} == {sent}
    # The beat of this run, and the dead letter with its reason, stay.
    assert [message.body[:8] for message in stage.queue.messages] == ['{"wake":']
    assert [message.reason for message in stage.queue.dead] == ["DynamoDB refuses it"]
    stage.drain_saved()
    assert sorted(read_events(stage)) == [*[f"{number:02}" for number in range(12)], "dead", "large", "late"]


def test_the_watch_leaves_what_nobody_can_read_and_what_still_wakes_a_worker() -> None:
    stage = stopped(20 * DAY)
    stage.queue.push("no message of ours")
    stage.queue.push(encode_wake(Wake("s", 1, 2, stage.clock.now() + MINUTE)))
    stage.queue.push(encode_wake(Wake("s", 1, 2, stage.clock.now())))
    queue_events(stage, "1")
    report = stage.watch()
    assert (report.saved, len(report.problems)) == (1, 1)
    assert "cannot be read" in report.problems[0]
    assert [message.id for message in stage.queue.messages] == ["m2", "m3", "m6"]


def test_a_message_stays_in_the_queue_while_the_bucket_takes_nothing() -> None:
    stage = stopped()
    queue_events(stage, "1")
    queue_events(stage, "2")
    stage.values.refuses = True
    report = stage.watch()
    assert (report.saved, report.problems) == (0, ("the message is old, and could not be saved in the bucket",))
    stage.values.refuses = False
    stage.clock.sleep(300)
    assert (stage.watch().saved, len(list_saved(stage))) == (2, 2)


def test_the_watch_goes_on_without_the_right_to_receive(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator is told, the dead letters are saved, and the beat is sent."""
    from tidetable.ingest.standstill import watch_drain

    stage = stopped()
    queue_events(stage, "1")
    queue_events(stage, "2")
    stage.queue.dead.append(stage.queue.messages.pop())
    ports = stage.pipeline.watch
    monkeypatch.setattr(ports.waiting, "fails", True)
    report = watch_drain(ports, lambda: 100.0)
    assert (report.stands_still, report.saved, len(report.problems)) == (True, 1, 1)
    assert "SQS did not answer" in report.problems[0]
    assert [message.body[:8] for message in stage.queue.messages] == ['{"versio', '{"wake":']


def test_the_watch_says_if_the_queue_does_not_take_its_beat() -> None:
    stage = alive()
    stage.queue.refuses = True
    assert stage.watch().problems == ("the queue did not take the beat",)


def test_the_watch_receives_nothing_more_with_little_time() -> None:
    from tidetable.ingest.standstill import watch_drain

    stage = stopped()
    queue_events(stage, "1")
    assert watch_drain(stage.pipeline.watch, lambda: 19.9).saved == 0
    assert watch_drain(stage.pipeline.watch, lambda: 20.0).saved == 1


def expire(stage: Stage) -> None:
    """Delete what is 14 days old, as SQS does, in both queues."""
    oldest = stage.clock.now() - 14 * DAY
    for messages in (stage.queue.messages, stage.queue.dead):
        messages[:] = [message for message in messages if message.sent is None or message.sent > oldest]


def live_without_a_drain(stage: Stage, die: Callable[[], None]) -> None:
    """Let twenty days pass, and send an event every twelve hours. Then the drain is alive, and writes all of them."""
    end, ids = throttle(stage), [f"{number:02}" for number in range(40)]
    for id in ids:
        assert send(stage, id) == 1
        die()
        for _ in range(2):
            stage.clock.sleep(6 * 3600)
            stage.watch()
            expire(stage)
    assert stage.queue.dead == []
    end()
    stage.drain()
    assert (stage.queue.messages, len(list_saved(stage))) == ([], 40)
    stage.drain_saved()
    assert (list_saved(stage), stage.queue.dead) == ([], [])
    assert sorted(read_events(stage)) == ids


def test_nothing_is_lost_while_the_drain_is_not_called_for_twenty_days() -> None:
    live_without_a_drain(alive(), lambda: None)


def test_nothing_is_lost_while_the_drain_dies_at_each_message_for_twenty_days() -> None:
    stage = alive()

    def die() -> None:
        """SQS moves a message to the dead letters after 120 deliveries, here at once."""
        stage.queue.dead += stage.queue.messages
        stage.queue.messages.clear()

    live_without_a_drain(stage, die)


def test_only_what_was_queued_before_the_beat_was_old_can_be_lost_without_the_lifecycle_too() -> None:
    stage = alive()
    throttle(stage)
    assert send(stage, "queued") == 1
    stage.clock.sleep(1800)
    for number in range(20):
        assert send(stage, str(number)) == 1
        stage.clock.sleep(86_400)
        expire(stage)
    assert (len(list_saved(stage)), stage.queue.messages) == (20, [])


def test_the_drain_writes_old_messages_and_objects_in_any_order_and_never_over_a_later_event() -> None:
    stage = alive()
    queue_events(stage, "a", "b", at=5, n="queued")
    stage.clock.sleep(31 * 60)
    overflow = BeatingOverflow(stage.queue, stage.beats, stage.large, stage.clock)
    assert overflow.send("s", [Event("a", NOON, "b", {"n": "saved"}), Event("a", NOON, "c", {"n": "saved"})], 6) == ()
    assert send(stage, "c", n="later") == 0
    for first in (stage.drain, stage.drain_saved):
        copy = stage.copy()
        (copy.drain if first == stage.drain else copy.drain_saved)()
        copy.drain()
        copy.drain_saved()
        found = {id: data["n"] for id, data in read_events(copy).items()}
        assert found == {"a": "queued", "b": "saved", "c": "later"}
        assert (copy.queue.messages, copy.queue.dead, list_saved(copy)) == ([], [], [])


def test_a_drain_that_is_alive_again_takes_the_beat_and_requests_use_the_queue_again() -> None:
    stage = stopped(19 * DAY)
    queue_events(stage, "1")
    stage.watch()
    assert len(list_saved(stage)) == 1
    stage.drain()
    assert (stage.beats.beat, stage.queue.messages) == (stage.clock.now(), [])
    stage.drain_saved()
    assert sorted(read_events(stage)) == ["1"]
    throttle(stage)
    assert (send(stage, "2"), len(stage.queue.messages), list_saved(stage)) == (1, 1, [])


def test_a_message_that_the_drain_has_too_is_written_once_more_and_harms_nothing() -> None:
    """The watch and a drain that is alive again have the same message."""
    stage = stopped()
    queue_events(stage, "1", n=1)
    (message,) = stage.queue.messages
    stage.watch()
    received = Received(message.body, NOON, message.id)
    (outcome,) = take_messages([received], stage.pipeline.drain, lambda: 60.0)
    assert outcome.events == 1  # type: ignore[union-attr]
    drain_saved(stage.pipeline.drain, lambda: 60.0)
    assert (read_events(stage), list_saved(stage)) == ({"1": {"n": 1}}, [])
