"""The adapters of the write path: their requests to AWS, and their handling of answers that report partial failures."""

from itertools import count
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from aws.notices import EventBus
from aws.overflow import SqsDeadLetters, SqsOverflow
from aws.zstd import Zstd
from tests.fakes import FakeValues
from tests.ingest.streams import NOW
from tidetable.events import Event
from tidetable.ingest.overflow import decode_message
from tidetable.lifecycle.report import Notice

REFUSED = ClientError({"Error": {"Code": "ServiceUnavailable"}}, "SendMessageBatch")
UNREACHABLE = EndpointConnectionError(endpoint_url="https://sqs")


class Sqs:
    """SQS as AWS documents it: at most ten messages per batch. Messages whose numbers, over all batches, are in
    ``fails`` fail.
    """

    def __init__(self, fails: set[int] | None = None, error: Exception | None = None) -> None:
        self.fails = fails or set()
        self.error = error
        self.batches: list[list[str]] = []
        self.taken: list[str] = []
        self._numbers = count()

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803
        if self.error is not None:
            raise self.error
        assert 1 <= len(Entries) <= 10, "TooManyEntriesInBatchRequest"
        assert len({entry["Id"] for entry in Entries}) == len(Entries), "BatchEntryIdsNotDistinct"
        self.batches.append([entry["MessageBody"] for entry in Entries])
        failed = [entry for entry in Entries if next(self._numbers) in self.fails]
        taken = [entry for entry in Entries if entry not in failed]
        self.taken += [entry["MessageBody"] for entry in taken]
        answer: dict[str, Any] = {}
        if taken:
            answer["Successful"] = [{"Id": entry["Id"]} for entry in taken]
        if failed:
            answer["Failed"] = [
                {"Id": result["Id"], "SenderFault": False, "Code": "InternalError"} for result in failed
            ]
        return answer

    def send_message(self, **_: Any) -> None:
        if self.error is not None:
            raise self.error


def events(number: int) -> list[Event]:
    return [Event("a", NOW, str(index), {"n": index}) for index in range(number)]


def large_events(number: int) -> list[Event]:
    """Events of which each message has two."""
    return [Event("a", NOW, str(index), {"text": "x" * 400_000}) for index in range(number)]


def send(sqs: Sqs, sent: list[Event]) -> list[Event]:
    client: Any = sqs
    return list(SqsOverflow(lambda: client, "queue", FakeValues(), Zstd()).send("quakes", sent, 7))


def queued(sqs: Sqs) -> list[str]:
    return [event.id for body in sqs.taken for event in decode_message(body).events]


@pytest.mark.parametrize("failing", [{0}, {1}, {2}, {0, 2}, {0, 1, 2}])
def test_the_events_of_messages_that_sqs_did_not_take_come_back_and_no_others(failing: set[int]) -> None:
    """Six events are three messages of two."""
    sqs, sent = Sqs(failing), large_events(6)
    back = send(sqs, sent)
    assert back == [event for number in sorted(failing) for event in sent[2 * number : 2 * number + 2]]
    assert sorted(queued(sqs) + [event.id for event in back]) == sorted(event.id for event in sent)


@pytest.mark.parametrize("error", [REFUSED, UNREACHABLE])
def test_all_come_back_if_sqs_does_not_answer(error: Exception) -> None:
    assert send(Sqs(error=error), events(3)) == events(3)


def test_a_message_has_all_events_that_sqs_lets_it_have() -> None:
    sqs, sent = Sqs(), events(15_000)
    assert send(sqs, sent) == []
    assert [len(batch) for batch in sqs.batches] == [1]
    assert queued(sqs) == [event.id for event in sent]


@pytest.mark.parametrize(
    ("size", "batches"), [(190_000, [5, 1]), (199_800, [5, 1]), (99_000, [6]), (400_000, [2, 2, 2]), (600_000, [1] * 6)]
)
def test_a_batch_has_no_more_bytes_than_sqs_takes(size: int, batches: list[int]) -> None:
    """AWS: 1 MiB for all messages of a batch."""
    sqs = Sqs()
    sent = [Event("a", NOW, str(number), {"text": "x" * size}) for number in range(6)]
    assert send(sqs, sent) == []
    assert [sum(decode_count(body) for body in batch) for batch in sqs.batches] == batches
    assert max(sum(map(len, batch)) for batch in sqs.batches) <= 1_000_000


def decode_count(body: str) -> int:
    return len(decode_message(body).events)


@pytest.mark.parametrize(("error", "kept"), [(None, True), (REFUSED, False), (UNREACHABLE, False)])
def test_a_letter_is_buried_only_if_sqs_took_it(error: Exception | None, kept: bool) -> None:
    client: Any = Sqs(error=error)
    assert SqsDeadLetters(lambda: client, "queue").bury("body", "why") is kept


class Events:
    """EventBridge, which answers the number of entries that it did not take."""

    def __init__(self, *failed: int) -> None:
        self.failed = list(failed)
        self.calls: list[int] = []

    def put_events(self, *, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        assert len(Entries) <= 10
        self.calls.append(len(Entries))
        failed = self.failed.pop(0)
        if failed < 0:
            raise UNREACHABLE
        return {"FailedEntryCount": failed, "Entries": []}


def test_notices_that_the_bus_did_not_take_are_counted() -> None:
    """25 notices: two are refused in an answer, ten have none, and the last five are taken."""
    client: Any = Events(2, -1, 0)
    assert EventBus(client).publish([Notice("Period Table Created", {})] * 25) == 12
    assert client.calls == [10, 10, 5]
