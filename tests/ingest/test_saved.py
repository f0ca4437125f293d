"""Messages that wait too long for the queue: they are saved in the bucket, and written from there, the oldest first."""

import json
from datetime import timedelta
from typing import Any

import pytest

from aws.zstd import Zstd
from tests.worlds.saved import DAY, HOUR, NOON, TWO, list_saved, queue_events, read_events, stage_of, throttle
from tidetable.catalog import SeenTable
from tidetable.config import TableClass
from tidetable.errors import NotDrained
from tidetable.events import Event
from tidetable.ingest.overflow import decode_message, encode_message, keep_message
from tidetable.ingest.saved import drain_saved
from tidetable.ingest.saved_names import Backlog, SavedMessage, count_backlog
from tidetable.large.sweep_ports import Stored
from tidetable.times import to_text


@pytest.mark.parametrize(("age", "saved"), [(HOUR - timedelta(seconds=1), 0), (HOUR, 1), (13 * DAY, 1)])
def test_a_message_is_saved_after_an_hour(age: timedelta, saved: int) -> None:
    stage = stage_of()
    queue_events(stage, "1", "2")
    stage.clock.sleep(age.total_seconds())
    stage.drain()
    assert (stage.queue.messages, stage.queue.dead, len(list_saved(stage))) == ([], [], saved)
    assert len(read_events(stage)) == (0 if saved else 2)
    stage.drain_saved()
    assert (sorted(read_events(stage)), list_saved(stage)) == (["1", "2"], [])


def test_a_saved_message_is_named_by_its_time_its_stream_and_its_events() -> None:
    stage = stage_of()
    sent = stage.clock.now()
    queue_events(stage, "1", "2")
    stage.clock.sleep(11 * 86_400)
    stage.drain()
    (key,) = list_saved(stage)
    assert key == f"saved/stream=s/{int(sent.timestamp() * 1000):013}/events=2/m1"
    assert SavedMessage.of(key) == SavedMessage(sent, "s", 2, "m1")
    message = decode_message(Zstd().expand(stage.values.blobs[key].body))
    assert ([event.id for event in message.events], message.at) == (["1", "2"], 5)


def test_a_message_is_deleted_only_after_its_object_is_written() -> None:
    stage = stage_of()
    queue_events(stage, "1")
    stage.clock.sleep(11 * 86_400)
    stage.values.refuses = True
    stage.drain()
    assert (len(stage.queue.messages), list_saved(stage)) == (1, [])
    stage.values.refuses = False
    stage.clock.sleep(400)
    stage.drain()
    assert (len(stage.queue.messages), len(list_saved(stage))) == (0, 1)


def test_saved_messages_are_written_oldest_first() -> None:
    stage = stage_of(TWO)
    for number in range(12):
        queue_events(stage, f"{number:02}", stream="st"[number % 2], at=number)
        stage.clock.sleep(7)
    stage.clock.sleep(11 * 86_400)
    stage.drain()
    order: list[str] = []
    get = stage.values.get
    stage.values.get = lambda key: (order.append(key), get(key))[1]  # type: ignore[method-assign, func-returns-value]
    run = stage.drain_saved()
    assert order == sorted(order)
    assert (len(order), run.events, run.backlog.messages, run.backlog.events) == (12, 12, 12, 12)
    assert len(read_events(stage)) + len(read_events(stage, "t")) == 12


def test_an_event_that_was_accepted_later_is_not_replaced() -> None:
    stage = stage_of()
    queue_events(stage, "1", "2", state="old")
    stage.clock.sleep(11 * 86_400)
    event = {"series": "a", "id": "1", "time": to_text(NOON), "data": {"state": "new"}}
    assert stage.send("s", json.dumps([event]).encode()).accepted == 1
    stage.drain()
    stage.drain_saved()
    assert read_events(stage) == {"1": {"state": "new"}, "2": {"state": "old"}}
    assert list_saved(stage) == []


def test_what_a_throttled_table_does_not_take_stays_and_no_other_stream_waits() -> None:
    stage = stage_of(TWO)
    for number in range(6):
        queue_events(stage, f"s{number}")
    queue_events(stage, "t1", stream="t")
    stage.clock.sleep(11 * 86_400)
    stage.drain()
    end = throttle(stage)
    begun = stage.clock.now()
    run = stage.drain_saved()
    assert stage.clock.now() - begun < timedelta(seconds=15), "after three failures the stream is left alone"
    assert (run.events, run.backlog.messages, len(list_saved(stage))) == (1, 7, 6)
    (reason,) = run.reasons
    assert reason.startswith("6 of 6 items of s are still to be written: ProvisionedThroughputExceededException")
    assert list(read_events(stage, "t")) == ["t1"]
    end()
    assert stage.drain_saved().events == 6
    assert (len(read_events(stage)), list_saved(stage), stage.queue.dead) == (6, [], [])


def test_a_message_that_fails_two_days_after_it_was_saved_becomes_a_dead_letter_with_its_reason() -> None:
    stage = stage_of()
    for number in range(4):
        queue_events(stage, f"s{number}")
    stage.clock.sleep(11 * 86_400)
    stage.drain()
    end = throttle(stage)
    stage.clock.sleep(2 * 86_400 - 60)
    stage.drain_saved()
    assert (len(list_saved(stage)), stage.queue.dead) == (4, [])
    stage.clock.sleep(120)
    stage.drain_saved()
    assert (len(list_saved(stage)), len(stage.queue.dead)) == (0, 4)
    end()
    for letter in stage.queue.dead:
        stage.queue.push(letter.body)
    stage.drain()
    assert (len(read_events(stage)), stage.queue.messages) == (4, [])


def test_an_event_that_can_never_be_written_is_buried_and_its_object_goes() -> None:
    stage = stage_of()
    queue_events(stage, "1")
    stage.queue.send("s", [Event("a", NOON, "large", {"text": "x" * 410_000}), Event("a", NOON, "2", {})], 5)
    stage.clock.sleep(11 * 86_400)
    stage.drain()
    stage.drain_saved()
    assert (sorted(read_events(stage)), list_saved(stage)) == (["1", "2"], [])
    assert [[event.id for event in decode_message(own.body).events] for own in stage.queue.dead] == [["large"]]


def test_an_object_stays_if_the_dead_letters_cannot_be_reached() -> None:
    stage = stage_of()
    stage.queue.send("s", [Event("a", NOON, "large", {"text": "x" * 410_000})], 5)
    stage.clock.sleep(11 * 86_400)
    stage.drain()
    bury, stage.queue.bury = stage.queue.bury, lambda *_: False  # type: ignore[method-assign]
    assert stage.drain_saved().events == 0
    assert len(list_saved(stage)) == 1
    stage.queue.bury = bury  # type: ignore[method-assign]
    stage.drain_saved()
    assert (list_saved(stage), len(stage.queue.dead)) == ([], 1)


def test_a_message_whose_events_an_object_keeps_is_saved_with_its_events() -> None:
    """The object of a message that was too large for the queue expires; a saved message does not."""
    stage = stage_of()
    text = encode_message("s", [Event("a", NOON, "1", {"n": 1}), Event("a", NOON, "2", {})], 5)
    ticket = keep_message("s", text, Event("a", NOON, "1", {}), stage.values, Zstd(), "name")
    assert ticket is not None
    stage.queue.push(ticket)
    stage.clock.sleep(11 * 86_400)
    stage.drain()
    (kept,) = [key for key in stage.values.blobs if key.startswith("overflow/")]
    del stage.values.blobs[kept]
    assert stage.drain_saved().events == 2
    assert sorted(read_events(stage)) == ["1", "2"]


def test_a_letter_that_is_too_large_for_the_queue_refers_to_an_object() -> None:
    stage = stage_of()
    text = encode_message("s", [Event("a", NOON, str(n), {"text": "x" * 410_000}) for n in range(3)], 5)
    ticket = keep_message("s", text, Event("a", NOON, "0", {}), stage.values, Zstd(), "name")
    assert ticket is not None
    stage.queue.push(ticket)
    stage.clock.sleep(11 * 86_400)
    stage.drain()
    stage.drain_saved()
    (letter,) = stage.queue.dead
    message = decode_message(letter.body)
    assert message.kept is not None
    assert message.kept.startswith("overflow/stream=s/")
    kept = decode_message(Zstd().expand(stage.values.blobs[message.kept].body))
    assert [event.id for event in kept.events] == ["0", "1", "2"]
    assert list_saved(stage) == []


def test_an_old_message_that_cannot_be_read_is_buried() -> None:
    stage = stage_of()
    stage.queue.push("no message")
    stage.clock.sleep(11 * 86_400)
    stage.drain()
    assert ([letter.body for letter in stage.queue.dead], list_saved(stage)) == (["no message"], [])


def test_a_run_ends_in_time_and_the_next_one_goes_on() -> None:
    stage = stage_of()
    (entry,) = stage.catalog.entries("s", NOON, NOON, consistent=True)
    # It begins with 25 units per second, and has 125 at the most.
    stage.catalog.note(entry, SeenTable(100, 400, TableClass.STANDARD))
    for number in range(20):
        queue_events(stage, *[f"{number}-{n}" for n in range(500)])
        stage.clock.sleep(1)
    stage.clock.sleep(11 * 86_400)
    stage.drain()
    begun, counts = stage.clock.now(), []
    for _ in range(3):
        begun = stage.clock.now()
        counts.append(stage.drain_saved().events)
        assert stage.clock.now() - begun < timedelta(seconds=60)
    assert 0 < counts[0] < 10_000
    for _ in range(3):
        stage.drain_saved()
    assert list_saved(stage) == []


def test_a_run_without_time_begins_no_object() -> None:
    stage = stage_of()
    queue_events(stage, "1")
    stage.clock.sleep(11 * 86_400)
    stage.drain()
    assert drain_saved(stage.pipeline.drain, lambda: 4.9)[:2] == (count_backlog(stage.values.stored("saved/")), 0)
    assert drain_saved(stage.pipeline.drain, lambda: 5.0).events == 1


def test_the_backlog_counts_messages_events_bytes_and_the_oldest() -> None:
    early, later = SavedMessage(NOON, "s", 2, "m1"), SavedMessage(NOON + DAY, "t", 3, "m2")
    stored = [Stored(message.key, 10, NOON) for message in (early, later)] + [Stored("saved/x", 1, NOON)]
    assert count_backlog(stored) == Backlog(3, 5, 21, NOON)
    assert count_backlog([]) == Backlog(0, 0, 0, None)


def test_a_message_is_not_saved_twice_if_its_deletion_is_lost() -> None:
    stage = stage_of()
    queue_events(stage, "1")
    (message,) = stage.queue.messages
    stage.clock.sleep(11 * 86_400)
    stage.drain()
    stage.queue.messages.append(message)
    stage.clock.sleep(400)
    stage.drain()
    assert len(list_saved(stage)) == 1


def test_the_save_is_not_tried_for_a_message_whose_bucket_does_not_answer() -> None:
    from tidetable.errors import Outage, StoreUnavailable
    from tidetable.ingest.saved import take_messages
    from tidetable.ingest.saving import Received

    stage = stage_of()
    ticket = keep_message(
        "s", encode_message("s", [Event("a", NOON, "1", {})]), Event("a", NOON, "1", {}), stage.values, Zstd(), "n"
    )

    def fail(_: str) -> Any:
        raise StoreUnavailable(Outage.NO_ANSWER, "time-out")

    stage.values.get = fail  # type: ignore[method-assign, assignment]
    stage.clock.sleep(11 * 86_400)
    (outcome,) = take_messages([Received(str(ticket), NOON, "m")], stage.pipeline.drain, lambda: 60.0)
    assert isinstance(outcome, NotDrained)
    assert str(outcome) == "no answer: time-out"


@pytest.mark.parametrize(("units", "seconds"), [(None, 0), (80, 2.18), (1, 101.9)])
def test_saved_messages_begin_with_a_quarter_of_a_tables_units(units: int | None, seconds: float) -> None:
    """A hundred units in rounds of ten, each of which is a quarter quicker: the last round is not waited for. On demand a
    table is taken for 4,000 units: it takes a hundred in one round.
    """
    stage = stage_of()
    (entry,) = stage.catalog.entries("s", NOON, NOON, consistent=True)
    stage.catalog.note(entry, SeenTable(units, 4_000, TableClass.STANDARD))
    queue_events(stage, *map(str, range(100)))
    stage.clock.sleep(11 * 86_400)
    stage.drain()
    begun = stage.clock.now()
    drain_saved(stage.pipeline.drain, lambda: 1_000.0)
    assert (stage.clock.now() - begun).total_seconds() == pytest.approx(seconds, abs=0.1)
