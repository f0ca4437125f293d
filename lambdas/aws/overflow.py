"""The overflow queue on SQS. A message carries events, not items: the layout is looked up when they are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from tidetable.events import Event
from tidetable.ingest.overflow import encode_message

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

# AWS: a message and a batch of messages are at most 1 MiB; some is left for the envelope.
_MAX_BYTES = 1_000_000
_MAX_MESSAGES = 10
# Small messages: a partial failure of the drain then repeats little.
_MESSAGE_EVENTS = 25
_MESSAGE_BYTES = 200_000
_MAX_REASON = 500
REASON = "reason"


class SqsOverflow:
    """The overflow queue through boto3."""

    def __init__(self, client: SQSClient, queue_url: str) -> None:
        self._client = client
        self._url = queue_url

    def send(self, stream: str, events: Sequence[Event]) -> Sequence[Event]:
        """Queue the events; those of a message that SQS refused, or did not answer for, come back."""
        failed: list[Event] = []
        for batch in _batches(list(_messages(stream, events))):
            entries: list[Any] = [{"Id": str(index), "MessageBody": body} for index, (body, _) in enumerate(batch)]
            try:
                answer = self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
                taken = {int(one["Id"]) for one in answer.get("Successful", [])}
            except (ClientError, BotoCoreError):
                taken = set()
            failed += [event for index, (_, held) in enumerate(batch) if index not in taken for event in held]
        return failed


class DeadLetters:
    """The queue of what cannot be written, with the reason beside each message."""

    def __init__(self, client: SQSClient, queue_url: str) -> None:
        self._client = client
        self._url = queue_url

    def bury(self, body: str, reason: str) -> bool:
        """Keep a message and why it is here; False if SQS did not take it."""
        attributes: Any = {REASON: {"DataType": "String", "StringValue": reason[:_MAX_REASON]}}
        try:
            self._client.send_message(QueueUrl=self._url, MessageBody=body, MessageAttributes=attributes)
        except (ClientError, BotoCoreError):
            return False
        return True


_Message = tuple[str, list[Event]]


def _messages(stream: str, events: Sequence[Event]) -> Iterator[_Message]:
    held: list[Event] = []
    size = 0
    for event in events:
        length = len(encode_message(stream, [event]).encode())
        if held and (len(held) == _MESSAGE_EVENTS or size + length > _MESSAGE_BYTES):
            yield encode_message(stream, held), held
            held, size = [], 0
        held = [*held, event]
        size += length
    if held:
        yield encode_message(stream, held), held


def _batches(messages: list[_Message]) -> Iterator[list[_Message]]:
    batch: list[_Message] = []
    size = 0
    for message in messages:
        length = len(message[0].encode())
        if batch and (len(batch) == _MAX_MESSAGES or size + length > _MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch = [*batch, message]
        size += length
    if batch:
        yield batch
