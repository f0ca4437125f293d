"""The overflow queue on SQS. A message carries events, not items: the layout is looked up when they are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from botocore.exceptions import BotoCoreError, ClientError

from tidetable.events import Event
from tidetable.ingest.overflow import encode_message, encode_ticket
from tidetable.keys import Key
from tidetable.ports import Blob, Compressor, Values

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
OVERFLOW_PREFIX = "overflow/"


class SqsOverflow:
    """The overflow queue through boto3, and a bucket for what is too large for a message."""

    def __init__(self, client: SQSClient, queue_url: str, values: Values, compressor: Compressor) -> None:
        self._client = client
        self._url = queue_url
        self._values = values
        self._compressor = compressor

    def send(self, stream: str, events: Sequence[Event], at: int) -> Sequence[Event]:
        """Queue the events; those of a message that SQS refused, or did not answer for, come back."""
        failed: list[Event] = []
        messages: list[_Message] = []
        for body, held in _messages(stream, events, at):
            sent = body if len(body.encode()) <= _MAX_BYTES else self._ticket(stream, body, held)
            if sent is None:
                failed += held
            else:
                messages.append((sent, held))
        for batch in _batches(messages):
            entries: list[Any] = [{"Id": str(index), "MessageBody": body} for index, (body, _) in enumerate(batch)]
            try:
                answer = self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
                taken = {int(one["Id"]) for one in answer.get("Successful", [])}
            except (ClientError, BotoCoreError):
                taken = set()
            failed += [event for index, (_, held) in enumerate(batch) if index not in taken for event in held]
        return failed

    def _ticket(self, stream: str, body: str, events: list[Event]) -> str | None:
        """Keep a message in the bucket, from which it expires after the queue's longest retention, and queue its key."""
        key = f"{OVERFLOW_PREFIX}stream={stream}/{uuid4().hex}"
        blob = Blob(key, self._compressor.compress(body.encode()), Key(events[0].series, events[0].id))
        return encode_ticket(stream, key) if self._values.put(blob) else None


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


def _messages(stream: str, events: Sequence[Event], at: int) -> Iterator[_Message]:
    held: list[Event] = []
    size = 0
    for event in events:
        length = len(encode_message(stream, [event]).encode())
        if held and (len(held) == _MESSAGE_EVENTS or size + length > _MESSAGE_BYTES):
            yield encode_message(stream, held, at), held
            held, size = [], 0
        held = [*held, event]
        size += length
    if held:
        yield encode_message(stream, held, at), held


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
