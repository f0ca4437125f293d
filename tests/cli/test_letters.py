"""Dead letters: counted by reason, and none is lost on the way back."""

from typing import Any

import pytest

from cli.letters import UNKNOWN, replay, summarize
from tidetable.events import Event
from tidetable.ingest.overflow import encode_message
from tidetable.times import EPOCH


class Queues:
    """Two queues; ``fails`` is the operation after which the connection is gone."""

    def __init__(self, *dead: tuple[str, str | None]) -> None:
        self.fails = ""
        self.hidden: set[str] = set()
        self.held: dict[str, dict[str, Any]] = {"overflow": {}, "dead": {}}
        for index, (body, reason) in enumerate(dead):
            attributes = {} if reason is None else {"reason": {"StringValue": reason}}
            self.held["dead"][str(index)] = {"MessageId": str(index), "Body": body, "MessageAttributes": attributes}

    def _did(self, operation: str) -> None:
        if operation == self.fails:
            raise ConnectionError

    def receive_message(self, QueueUrl: str, **_: Any) -> Any:  # noqa: N803 - boto3's names
        visible = [id for id in self.held[QueueUrl] if id not in self.hidden][:2]
        self.hidden |= set(visible)
        found = [{**self.held[QueueUrl][id], "ReceiptHandle": id} for id in visible]
        return {"Messages": found} if found else {}

    def change_message_visibility(self, ReceiptHandle: str, **_: Any) -> None:  # noqa: N803
        self.hidden.discard(ReceiptHandle)

    def send_message(self, QueueUrl: str, MessageBody: str) -> None:  # noqa: N803
        self.held[QueueUrl][f"new {len(self.held[QueueUrl])}"] = {"Body": MessageBody}
        self._did("send")

    def delete_message(self, QueueUrl: str, ReceiptHandle: str) -> None:  # noqa: N803
        del self.held[QueueUrl][ReceiptHandle]
        self._did("delete")


class Returning(Queues):
    """What is sent to the overflow is dead again at once."""

    def send_message(self, QueueUrl: str, MessageBody: str) -> None:  # noqa: N803
        self.returned = getattr(self, "returned", 0) + 1
        id = f"back {self.returned}"
        self.held["dead"][id] = {"MessageId": id, "Body": MessageBody}


def message(count: int) -> str:
    return encode_message("s", [Event("a", EPOCH, str(number), {}) for number in range(count)])


def test_events_are_counted_by_stream_and_reason_and_stay() -> None:
    queues = Queues((message(3), "archived"), (message(2), "archived"), (message(1), None), ("junk", "unreadable"))
    found = summarize(queues, "dead")
    assert found.events == {("s", "archived"): 5, ("s", UNKNOWN): 1, ("?", "unreadable"): 1}
    assert found.messages == 4
    assert len(queues.held["dead"]) == 4
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
        assert queues.held["dead"] == {}
    bodies = [one["Body"] for queue in queues.held.values() for one in queue.values()]
    assert {message(3), message(2)} <= set(bodies)


def test_what_comes_back_at_once_does_not_go_round_for_ever() -> None:
    queues = Returning((message(3), "archived"), (message(2), "archived"))
    assert replay(queues, "dead", "overflow", 2, lambda _: None) == 5
    assert len(queues.held["dead"]) == 2
