"""Messages that are too old for the queue: the drain is stopped while it saves them, and while it writes them."""

import pytest

from aws.zstd import Zstd
from tests.fakes.stage import Killed, Stage
from tests.worlds.killed import killed_after_every_change
from tests.worlds.saved import NOON, list_saved, queue_events, read_events, stage_of
from tidetable.events import Event
from tidetable.ingest.overflow import decode_message, encode_message, keep_message
from tidetable.ingest.saved_names import SavedMessage


def test_saving_is_finished_when_its_message_comes_again() -> None:
    def old() -> Stage:
        stage = stage_of()
        queue_events(stage, "1", "2")
        queue_events(stage, "3")
        stage.clock.sleep(11 * 86_400)
        return stage

    for calls, stage in killed_after_every_change(old, Stage.drain):
        stage.clock.sleep(400)
        stage.drain()
        stage.drain_saved()
        assert sorted(read_events(stage)) == ["1", "2", "3"], f"killed after {calls} calls"
        assert (stage.queue.messages, stage.queue.dead, list_saved(stage)) == ([], [], []), (
            f"killed after {calls} calls"
        )


def test_writing_saved_messages_is_finished_by_the_next_run() -> None:
    def saved() -> Stage:
        stage = stage_of()
        queue_events(stage, *[f"{number:02}" for number in range(15)])
        body = encode_message("s", [Event("a", NOON, "large", {"text": "x" * 410_000}), Event("a", NOON, "z", {})], 5)
        stage.queue.push(body)
        stage.clock.sleep(11 * 86_400)
        stage.drain()
        assert len(list_saved(stage)) == 2
        return stage

    for calls, stage in killed_after_every_change(saved, Stage.drain_saved):
        stage.drain_saved()
        assert sorted(read_events(stage)) == [*[f"{number:02}" for number in range(15)], "z"], f"killed after {calls}"
        assert list_saved(stage) == [], f"killed after {calls} calls"
        letters = {decode_message(letter.body).events[0].id for letter in stage.queue.dead}
        assert letters == {"large"}, f"killed after {calls} calls"


def test_what_the_watch_did_not_save_is_saved_by_the_next_one() -> None:
    """The drain stands still: an event waits in the queue, two are a large message, and one died without a reason."""

    def waiting() -> Stage:
        stage = stage_of()
        stage.watch()
        stage.drain()
        queue_events(stage, "1")
        large = [Event("a", NOON, id, {"text": "x"}) for id in ("2", "3")]
        ticket = keep_message("s", encode_message("s", large), large[0], stage.values, Zstd(), "kept")
        stage.queue.push(str(ticket))
        queue_events(stage, "4")
        stage.queue.dead.append(stage.queue.messages.pop())
        stage.clock.sleep(13 * 86_400)
        return stage

    for calls, stage in killed_after_every_change(waiting, Stage.watch):
        for _ in range(2):
            stage.watch()
            stage.clock.sleep(300)
        events = [SavedMessage.of(key).events for key in list_saved(stage)]
        assert (sorted(events), stage.queue.dead) == ([1, 1, 2], []), f"killed after {calls} calls"
        assert all('{"wake":' in message.body for message in stage.queue.messages), f"killed after {calls} calls"
        stage.drain()
        stage.drain_saved()
        assert sorted(read_events(stage)) == ["1", "2", "3", "4"], f"killed after {calls} calls"
        assert (stage.queue.messages, stage.queue.dead, list_saved(stage)) == ([], [], []), (
            f"killed after {calls} calls"
        )


def test_a_request_that_saves_its_events_is_not_acknowledged_before_that() -> None:
    """A stopped request was not acknowledged: its sender sends it again, and no event is there twice."""
    stage = stage_of()
    stage.watch()
    stage.drain()
    stage.clock.sleep(1800)
    for number in range(2):
        stage.client.calls, stage.client.allowance = 0, 1
        with pytest.raises(Killed):
            stage.pipeline.overflow.send("s", [Event("a", NOON, "1", {})], 5)
        stage.client.allowance = None
        assert len(list_saved(stage)) == number + 1
    assert stage.pipeline.overflow.send("s", [Event("a", NOON, "1", {})], 5) == ()
    stage.drain_saved()
    assert (sorted(read_events(stage)), list_saved(stage)) == (["1"], [])
