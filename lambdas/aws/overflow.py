"""The overflow queue on SQS. A message has events, not items: the layout is looked up when the events are written."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aws.errors import list_aws_errors
from aws.messages import REASON, make_reason
from tidetable.events import Event
from tidetable.groups import group_by_size
from tidetable.ingest.overflow import MAX_MESSAGE_BYTES, Encoded, encode_messages, keep_message
from tidetable.ports import Compressor, Values

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

# AWS: a batch has at most ten messages, and 1 MiB like a single message.
_MAX_MESSAGES = 10


class SqsOverflow:
    """The overflow queue through boto3, and a bucket for larger messages. The client is made for the first message."""

    def __init__(self, client: Callable[[], SQSClient], queue_url: str, values: Values, compressor: Compressor) -> None:
        self._client = client
        self._url = queue_url
        self._values = values
        self._compressor = compressor

    def send(self, stream: str, events: Sequence[Event], at: int) -> Sequence[Event]:
        failed: list[Event] = []
        messages: list[Encoded] = []
        for message in encode_messages(stream, events, at):
            stored = message if message.size <= MAX_MESSAGE_BYTES else self._keep(stream, message)
            if stored is None:
                failed += message.events
            else:
                messages.append(stored)
        for batch in group_by_size(messages, lambda message: message.size, MAX_MESSAGE_BYTES, _MAX_MESSAGES):
            accepted = self._send_bodies(stream, [message.body for message in batch])
            for number, message in enumerate(batch):
                if str(number) not in accepted:
                    failed += message.events
        return failed

    def wake(self, stream: str, bodies: Sequence[str]) -> bool:
        return all(
            len(self._send_bodies(stream, bodies[start : start + _MAX_MESSAGES]))
            == len(bodies[start : start + _MAX_MESSAGES])
            for start in range(0, len(bodies), _MAX_MESSAGES)
        )

    def _send_bodies(self, stream: str, bodies: Sequence[str]) -> set[str]:
        """Send at most ten messages, and return the numbers of those that SQS accepted, as texts.

        AWS, "Amazon SQS fair queues": of a queue whose messages have groups, messages of other groups come first while one
        group has a backlog. So the messages of a stream that waits do not delay those of other streams.
        """
        entries: Any = [
            {"Id": str(number), "MessageBody": body, "MessageGroupId": stream} for number, body in enumerate(bodies)
        ]
        try:
            answer = self._client().send_message_batch(QueueUrl=self._url, Entries=entries)
        except list_aws_errors():
            return set()
        return {success["Id"] for success in answer.get("Successful", [])}

    def _keep(self, stream: str, message: Encoded) -> Encoded | None:
        """Keep a message in the bucket, and return a message that refers to it; None if the bucket did not accept it."""
        name, first = os.urandom(16).hex(), message.events[0]
        ticket = keep_message(stream, message.body, first, self._values, self._compressor, name)
        return None if ticket is None else Encoded(ticket, len(ticket.encode()), message.events)


class SqsDeadLetters:
    """The queue of messages that cannot be written; every message has its reason as an attribute."""

    def __init__(self, client: Callable[[], SQSClient], queue_url: str) -> None:
        self._client = client
        self._url = queue_url

    def bury(self, body: str, reason: str) -> bool:
        attributes: Any = {REASON: {"DataType": "String", "StringValue": make_reason(reason)}}
        try:
            self._client().send_message(QueueUrl=self._url, MessageBody=body, MessageAttributes=attributes)
        except list_aws_errors():
            return False
        return True
