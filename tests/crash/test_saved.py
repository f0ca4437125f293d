"""Messages that are too old for the queue: the drain is stopped while it saves them, and while it writes them."""

from tests.fakes.stage import Stage
from tests.worlds.killed import killed_after_every_change
from tests.worlds.saved import NOON, list_saved, queue_events, read_events, stage_of
from tidetable.events import Event
from tidetable.ingest.overflow import decode_message, encode_message


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
