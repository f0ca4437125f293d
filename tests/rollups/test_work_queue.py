"""The queue of messages on SQS: batches of ten, what a refused message or no answer means, and what a message says."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from botocore.exceptions import ConnectTimeoutError

from aws.work_queue import SqsWorkQueue
from tidetable.work.claim import ItemName
from tidetable.work.message import read_message

NAMES = [ItemName("part", f"s#m#2026-03-02T01:00:00.000000Z#{number:04}") for number in range(23)]


class Sqs:
    """An SQS that refuses messages whose body contains ``refused``, and breaks after so many requests."""

    def __init__(self, refused: str = "nothing", answers: int = 99) -> None:
        self.batches: list[list[str]] = []
        self.tries = 0
        self._refused, self._answers = refused, answers

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, str]]) -> Any:  # noqa: N803 - boto3's names
        assert QueueUrl == "light"
        assert len({entry["Id"] for entry in Entries}) == len(Entries) <= 10
        self.tries += 1
        if len(self.batches) == self._answers:
            raise ConnectTimeoutError(endpoint_url="sqs")
        self.batches.append([entry["MessageBody"] for entry in Entries])
        fine = [{"Id": entry["Id"]} for entry in Entries if self._refused not in entry["MessageBody"]]
        # SQS answers in any order.
        return {"Successful": fine[::-1], "Failed": []} if fine else {"Failed": []}


def send(sqs: Any, names: Any = NAMES) -> Any:
    return SqsWorkQueue(lambda: sqs, "light").send(names)


def test_messages_are_sent_in_batches_of_ten() -> None:
    sqs = Sqs()
    assert sorted(send(sqs)) == NAMES
    assert [len(batch) for batch in sqs.batches] == [10, 10, 3]
    assert json.loads(sqs.batches[0][1]) == {"kind": "part", "name": "s#m#2026-03-02T01:00:00.000000Z#0001"}
    assert [read_message(body) for batch in sqs.batches for body in batch] == NAMES
    assert send(Sqs(), []) == []


def test_a_refused_message_does_not_count_as_sent() -> None:
    assert sorted(send(Sqs("Z#001"))) == NAMES[:10] + NAMES[20:]


def test_messages_after_a_request_without_an_answer_do_not_count_as_sent() -> None:
    sqs = Sqs(answers=1)
    assert sorted(send(sqs)) == NAMES[:10]
    # A scheduler has no time to wait for each batch until its time-out.
    assert sqs.tries == 2
    assert send(Sqs(answers=0)) == []


@pytest.mark.parametrize(
    "body", ["", "no json", "[]", '{"kind":"seal"}', '{"kind":"seal","name":1}', '{"kind":"a","name":"b","c":1}']
)
def test_a_message_of_nobody_is_not_read(body: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        read_message(body)
