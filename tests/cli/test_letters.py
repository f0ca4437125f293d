"""Dead letters: they are counted by reason, and none is lost when they are sent back."""

import pytest

from cli.letters import UNKNOWN, replay, summarize
from tests.fakes.letters import Queues, message


class Returning(Queues):
    """A queue in which each message of the overflow becomes a dead letter again at once."""

    def send_message(self, QueueUrl: str, MessageBody: str) -> None:  # noqa: N803
        self.returned = getattr(self, "returned", 0) + 1
        id = f"back {self.returned}"
        self.messages["dead"][id] = {"MessageId": id, "Body": MessageBody}


def test_events_are_counted_by_stream_and_reason_and_stay() -> None:
    queues = Queues((message(3), "archived"), (message(2), "archived"), (message(1), None), ("junk", "unreadable"))
    summary = summarize(queues, "dead")
    assert summary.events == {("s", "archived"): 5, ("s", UNKNOWN): 1, ("?", "unreadable"): 1}
    assert summary.messages == 4
    assert len(queues.messages["dead"]) == 4
    assert queues.hidden == set(), "whoever looks next sees them"


@pytest.mark.parametrize("fails", ["", "send", "delete"])
def test_stopped_anywhere_none_is_lost(fails: str) -> None:
    queues = Queues((message(3), "archived"), (message(2), None))
    queues.fails = fails
    moved: list[int] = []
    if fails:
        with pytest.raises(ConnectionError):
            replay(queues, "dead", "overflow", 2, moved.append)
    else:
        assert replay(queues, "dead", "overflow", 2, moved.append) == 5
        assert moved == [3, 5]
        assert queues.messages["dead"] == {}
    bodies = [value["Body"] for queue in queues.messages.values() for value in queue.values()]
    assert {message(3), message(2)} <= set(bodies)


def test_what_comes_back_at_once_does_not_go_round_for_ever() -> None:
    queues = Returning((message(3), "archived"), (message(2), "archived"))
    assert replay(queues, "dead", "overflow", 2, lambda _: None) == 5
    assert len(queues.messages["dead"]) == 2
