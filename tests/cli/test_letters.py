"""Dead letters: they are counted by reason, and none is lost when they are sent back."""

import json
from typing import Any

import pytest

from cli.letters import UNKNOWN, find_lost_events
from tests.fakes.letters import Queues, message


class Returning(Queues):
    """A queue in which each message of the overflow becomes a dead letter again at once."""

    def send_message(self, QueueUrl: str, MessageBody: str) -> None:  # noqa: N803
        self.returned = getattr(self, "returned", 0) + 1
        id = f"back {self.returned}"
        self.messages["dead"][id] = {"MessageId": id, "Body": MessageBody}


def test_events_are_counted_by_stream_and_reason_and_stay() -> None:
    queues = Queues((message(3), "archived"), (message(2), "archived"), (message(1), None), ("junk", "unreadable"))
    summary = find_lost_events(queues, "dead", "overflow").summarize()
    assert summary.counts == {("s", "archived"): 5, ("s", UNKNOWN): 1, ("?", "unreadable"): 1}
    assert summary.messages == 4
    assert len(queues.messages["dead"]) == 4
    assert queues.hidden == set(), "whoever looks next sees them"


@pytest.mark.parametrize("fails", ["", "send", "delete"])
def test_stopped_anywhere_none_is_lost(fails: str) -> None:
    queues = Queues((message(3), "archived"), (message(2), None))
    queues.fails = fails
    letters = find_lost_events(queues, "dead", "overflow")
    if fails:
        with pytest.raises(ConnectionError):
            letters.resend(2)
    else:
        assert letters.resend(2).count == 5
        assert queues.messages["dead"] == {}
    bodies = [value["Body"] for queue in queues.messages.values() for value in queue.values()]
    assert {message(3), message(2)} <= set(bodies)


def test_what_comes_back_at_once_does_not_go_round_for_ever() -> None:
    queues = Returning((message(3), "archived"), (message(2), "archived"))
    assert find_lost_events(queues, "dead", "overflow").resend(2).count == 5
    assert len(queues.messages["dead"]) == 2


class Asked(Queues):
    """A queue that keeps what it was asked, as SQS has it: whoever does not ask for attributes gets none."""

    def __init__(self, *dead: tuple[str, str | None]) -> None:
        super().__init__(*dead)
        self.asked: list[Any] = []

    def receive_message(self, QueueUrl: str, **options: Any) -> Any:  # noqa: N803 - boto3's names
        self.asked.append(options)
        return super().receive_message(QueueUrl, **options)

    def change_message_visibility(self, ReceiptHandle: str, **options: Any) -> None:  # noqa: N803
        self.asked.append(options)
        super().change_message_visibility(ReceiptHandle, **options)


def test_letters_are_hidden_for_a_minute_and_shown_again_at_once() -> None:
    """A call waits for a second, as SQS asks only some of its servers otherwise."""
    queues = Asked((message(3), "archived"))
    find_lost_events(queues, "dead", "overflow").summarize()
    asked = {
        "MaxNumberOfMessages": 10,
        "VisibilityTimeout": 60,
        "MessageAttributeNames": ["All"],
        "WaitTimeSeconds": 1,
    }
    assert queues.asked == [asked, asked, {"QueueUrl": "dead", "VisibilityTimeout": 0}]


def test_a_message_whose_events_are_in_the_bucket_has_one_at_least() -> None:
    kept = json.dumps({"version": 2, "stream": "s", "events": [], "kept": "overflow/a"})
    queues = Queues((kept, "archived"), (message(2), "archived"))
    assert find_lost_events(queues, "dead", "overflow").summarize().counts == {("s", "archived"): 3}
    assert find_lost_events(queues, "dead", "overflow").resend(1).count == 1
    assert [one["Body"] for one in queues.messages["overflow"].values()] == [kept]
