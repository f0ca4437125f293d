"""Messages of the overflow queue by their sizes: what one request takes, and what is kept in the bucket instead."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from aws.overflow import SqsDeadLetters, SqsOverflow
from aws.zstd import Zstd
from tests.fakes import FakeValues
from tidetable.events import Event
from tidetable.ingest.overflow import encode_message
from tidetable.layout import Key

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
REFUSED = ClientError({"Error": {"Code": "AWS.SimpleQueueService.BatchRequestTooLong"}}, "SendMessageBatch")
UNREACHABLE = EndpointConnectionError(endpoint_url="https://sqs")


class Queue:
    """SQS, which refuses the entries with the ids in ``refuses``, or answers no request if there is an ``error``."""

    def __init__(self, *refuses: str, error: Exception | None = None) -> None:
        self.refuses, self.error = refuses, error
        self.batches: list[list[str]] = []
        self.letters: list[dict[str, Any]] = []

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803
        assert QueueUrl == "queue"
        if self.error is not None:
            raise self.error
        self.batches.append([entry["MessageBody"] for entry in Entries])
        taken = [entry["Id"] for entry in Entries if entry["Id"] not in self.refuses]
        return {"Successful": [{"Id": id} for id in taken]} if taken else {}

    def send_message(self, **letter: Any) -> None:
        if self.error is not None:
            raise self.error
        self.letters.append(letter)


def send(queue: Queue, events: list[Event], values: FakeValues | None = None) -> list[str]:
    """Queue the events; the ids of those that were not accepted."""
    client: Any = queue
    overflow = SqsOverflow(lambda: client, "queue", values or FakeValues(), Zstd())
    return [event.id for event in overflow.send("s", events, 7)]


def sized(id: str, size: int) -> Event:
    """An event whose message has so many bytes."""
    empty = len(encode_message("s", [Event("a", NOON, id, {"text": ""})], 7))
    return Event("a", NOON, id, {"text": "x" * (size - empty)})


@pytest.mark.parametrize(("size", "kept"), [(1_000_000, 0), (1_000_001, 1)])
def test_a_message_of_a_million_bytes_is_queued_and_a_larger_one_kept(size: int, kept: int) -> None:
    """AWS: 1 MiB, of which the envelope needs some bytes."""
    queue, values = Queue(), FakeValues()
    assert send(queue, [sized("1", size)], values) == []
    assert (len(queue.batches), len(values.blobs)) == (1, kept)
    assert (len(queue.batches[0][0]) == size) == (not kept)


@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        # The events of one message share its frame.
        ((600_000, 400_000), [1]),
        ((600_000, 400_100), [1, 1]),
        ((600_000, 600_000, 400_000), [1, 1]),
        ((300_000,) * 7, [1, 1, 1]),
        # A kept message counts with the bytes of its key.
        ((1_300_000, 1_300_000, 990_000), [3]),
        ((200_000,) * 5, [1]),
    ],
)
def test_a_request_has_a_million_bytes_at_the_most(sizes: tuple[int, ...], batches: list[int]) -> None:
    queue = Queue()
    assert send(queue, [sized(str(number), size) for number, size in enumerate(sizes)]) == []
    assert [len(batch) for batch in queue.batches] == batches


def test_a_request_has_ten_messages_at_the_most() -> None:
    queue = Queue()
    assert send(queue, [sized(str(number), 1_000_001) for number in range(21)]) == []
    assert [len(batch) for batch in queue.batches] == [10, 10, 1]


def test_a_kept_message_is_compressed_under_a_key_of_its_own_and_names_its_first_event() -> None:
    queue, values = Queue(), FakeValues()
    events = [sized("1", 1_300_000), sized("2", 1_300_000)]
    assert send(queue, events, values) == []
    assert queue.batches == [[f'{{"version":2,"stream":"s","kept":"{key}"}}' for key in values.blobs]]
    assert len(values.blobs) == 2
    for (key, blob), event in zip(values.blobs.items(), events, strict=True):
        assert key.startswith("overflow/stream=s/")
        assert len(key.rpartition("/")[2]) == 32
        assert blob.owner == Key("a", event.id)
        assert len(blob.body) < 10_000
        kept = json.loads(Zstd().expand(blob.body))
        assert (kept["stream"], kept["at"], [row[2] for row in kept["events"]]) == ("s", 7, [event.id])


def test_events_come_back_whose_message_nobody_took() -> None:
    small = [Event("a", NOON, str(number), {"text": "x" * 150_000}) for number in range(2)]
    large, larger = sized("large", 1_300_000), sized("larger", 1_400_000)
    sent = [*small, large, larger]
    assert send(Queue("1"), sent) == ["large"]
    assert send(Queue("0", "2"), sent) == ["0", "1", "larger"]
    assert send(Queue(*"012"), sent) == ["0", "1", "large", "larger"]
    values = FakeValues()
    values.refuses = True
    assert send(Queue("0"), [large, *small], values) == ["large", "0", "1"]
    for error in (REFUSED, UNREACHABLE):
        assert send(Queue(error=error), small[:2]) == ["0", "1"]


def test_a_dead_letter_has_its_reason_and_is_not_said_to_be_buried_if_nobody_took_it() -> None:
    queue: Any = Queue()
    letters = SqsDeadLetters(lambda: queue, "queue")
    assert letters.bury("body", "y" * 600)
    reason = {"reason": {"DataType": "String", "StringValue": "y" * 500}}
    assert queue.letters == [{"QueueUrl": "queue", "MessageBody": "body", "MessageAttributes": reason}]
    for error in (REFUSED, UNREACHABLE):
        queue.error = error
        assert not letters.bury("body", "why")
