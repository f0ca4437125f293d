"""The contract of the watch over the drain: the record of its last beat, and the messages that wait in a queue."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from aws.dynamodb.beats import LeanBeats
from aws.overflow import SqsDeadLetters
from aws.waiting import SqsMessages
from local.stack import make_aws_client
from strict import StrictDynamo, SystemClock
from strict.memory import MemoryEngine
from tests.contract.conftest import CLOCK, LEAN, make_lean_client, make_records
from tests.contract.engines import _numbers
from tests.fakes.queue import FakeBeats, FakeMessages, FakeQueue
from tests.fakes.transport import StrictTransport
from tidetable.errors import StoreUnavailable, TableMissing
from tidetable.ingest.beat import Beats
from tidetable.ingest.standstill import WaitingMessages

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(params=["fake", "strict memory", *LEAN])
def beats(request: pytest.FixtureRequest) -> Beats:
    if request.param == "fake":
        return FakeBeats()
    return LeanBeats(*make_records(request, "beats"))


def test_the_record_has_the_last_beat_to_the_millisecond(beats: Beats) -> None:
    assert beats.read() is None
    beats.write(NOON + timedelta(milliseconds=7))
    assert beats.read() == NOON + timedelta(milliseconds=7)
    # A beat that was late in the queue is recorded, too: then the drain seems to stand still a little earlier.
    beats.write(NOON)
    assert beats.read() == NOON


def test_a_missing_table_and_a_table_that_does_not_answer_are_told() -> None:
    service = StrictDynamo(MemoryEngine(), CLOCK)
    transport: Any = StrictTransport(service)
    gone = LeanBeats(transport, "gone")
    with pytest.raises(TableMissing):
        gone.read()
    with pytest.raises(TableMissing):
        gone.write(NOON)
    lost = LeanBeats(make_lean_client("http://127.0.0.1:9"), "gone")
    with pytest.raises(StoreUnavailable):
        lost.read()
    with pytest.raises(StoreUnavailable):
        lost.write(NOON)


class Waiting(NamedTuple):
    """A queue with its clock and its receiver, and functions that send a message and a dead letter with a reason."""

    now: Callable[[], datetime]
    messages: WaitingMessages
    send: Callable[[str], object]
    bury: Callable[[str, str], object]


@pytest.fixture(params=["fake", "sqs"])
def waiting(request: pytest.FixtureRequest) -> Waiting:
    if request.param == "fake":
        queue = FakeQueue(CLOCK.now)
        queue.messages = queue.dead
        return Waiting(CLOCK.now, FakeMessages(queue.dead, CLOCK.now, lambda: None), queue.push, queue.bury)
    client = make_aws_client(request.getfixturevalue("emulator"), "sqs")
    url = client.create_queue(QueueName=f"waiting-{next(_numbers)}")["QueueUrl"]
    # The emulator's queues have the system's clock.
    return Waiting(
        SystemClock().now,
        SqsMessages(lambda: client, url),
        lambda body: client.send_message(QueueUrl=url, MessageBody=body),
        SqsDeadLetters(lambda: client, url).bury,
    )


def test_a_message_is_received_with_its_time_and_its_reason_and_then_hidden_until_it_is_deleted(
    waiting: Waiting,
) -> None:
    before = waiting.now() - timedelta(seconds=1)
    waiting.send("plain")
    waiting.bury("dead", "DynamoDB refuses it")
    taken = sorted(waiting.messages.receive(), key=lambda taken: taken.message.body)
    assert [(each.message.body, each.reason) for each in taken] == [("dead", "DynamoDB refuses it"), ("plain", None)]
    assert all(before < each.message.sent < waiting.now() + timedelta(seconds=1) for each in taken)
    assert len({each.message.id for each in taken}) == 2
    assert list(waiting.messages.receive()) == []
    for each in taken:
        waiting.messages.delete(each)


def test_ten_messages_are_received_at_once(waiting: Waiting) -> None:
    for number in range(11):
        waiting.send(str(number))
    assert len(waiting.messages.receive()) == 10


def test_a_queue_that_does_not_answer_is_told() -> None:
    client: Any = make_aws_client("http://127.0.0.1:9", "sqs")
    messages = SqsMessages(lambda: client, "http://127.0.0.1:9/0/none")
    with pytest.raises(StoreUnavailable):
        messages.receive()
