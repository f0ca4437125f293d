"""Dead letters, of the overflow, of feeds and of workers: count them by their reasons, and send them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import msgspec
from botocore.exceptions import ClientError

from aws.feed_targets import FEED, TARGET
from aws.messages import REASON
from tidetable.errors import TidetableError
from tidetable.ingest.overflow import decode_message
from tidetable.work.message import read_message

UNKNOWN = "tried too often; the drain's log has the reason"
_BATCH = 10
# The characters that are shown of a message that nobody can read.
_SHOWN = 60
# SQS hides a received message from other receivers for this time.
_HIDDEN_SECONDS = 60
# A function that passes the changes of a letter to the feed's function. Arguments: stream, target, changes as texts.
Redeliver = Callable[[str, str, list[str]], None]


class UnknownWork(TidetableError):
    """A message that no worker takes."""


@dataclass(slots=True)
class Summary:
    """The number of messages, and the number of events or changes by the values of their columns."""

    messages: int = 0
    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)


@dataclass(slots=True)
class Resent:
    """The number of events or changes that were sent again, and the reasons why other letters stay in the queue."""

    count: int = 0
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class DeadLetters:
    """A queue of dead letters of one kind.

    ``read`` returns a message's values in the ``columns``, and its number of events or changes (``unit``). ``send``
    sends a message again; after an error of ``known_failures`` the message stays, and the others go on.
    """

    client: Any
    url: str
    unit: str
    columns: tuple[str, ...]
    read: Callable[[Any], tuple[tuple[str, ...], int]]
    send: Callable[[Any], object]
    known_failures: tuple[type[Exception], ...] = ()

    def summarize(self) -> Summary:
        """Count what the queue holds; the messages stay in it."""
        summary, receipts = Summary(), []
        for message in self._receive():
            values, count = self.read(message)
            summary.counts[values] += count
            receipts.append(message["ReceiptHandle"])
        self._release(receipts)
        summary.messages = len(receipts)
        return summary

    def list_rows(self, summary: Summary) -> list[dict[str, Any]]:
        """Return the counts of a summary, in order."""
        return [
            {**dict(zip(self.columns, values, strict=True)), self.unit: count}
            for values, count in sorted(summary.counts.items())
        ]

    def resend(self, maximum: int) -> Resent:
        """Send messages again.

        A message is deleted only after it was sent, so an interruption does not lose messages. At most ``maximum``
        messages are sent, the number at the start: events that still cannot be written come back at once, and without a
        maximum they would circle for ever.
        """
        result, left = Resent(), []
        for message in islice(self._receive(), maximum):
            try:
                self.send(message)
            except self.known_failures as error:
                result.failures.append(str(error))
                left.append(message["ReceiptHandle"])
                continue
            self.client.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
            result.count += self.read(message)[1]
        self._release(left)
        return result

    def _receive(self) -> Iterator[Any]:
        """Yield every message of the queue once, except messages that another receiver has."""
        ids: set[str] = set()
        while True:
            answer = self.client.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=_BATCH,
                VisibilityTimeout=_HIDDEN_SECONDS,
                MessageAttributeNames=["All"],
                WaitTimeSeconds=1,
            )
            new = [message for message in answer.get("Messages", []) if message["MessageId"] not in ids]
            if not new:
                return
            ids |= {message["MessageId"] for message in new}
            yield from new

    def _release(self, receipts: Sequence[str]) -> None:
        """Make messages visible again. Call it only at the end: a message that is visible earlier is received again."""
        for receipt in receipts:
            # AWS refuses this for a message that is visible again already, because its minute is over.
            with suppress(ClientError):
                self.client.change_message_visibility(QueueUrl=self.url, ReceiptHandle=receipt, VisibilityTimeout=0)


def find_lost_events(client: Any, dead: str, overflow: str) -> DeadLetters:
    """Return the dead letters of the overflow: queues by their addresses."""

    def send(message: Any) -> None:
        client.send_message(QueueUrl=overflow, MessageBody=message["Body"])

    return DeadLetters(client, dead, "events", ("stream", "reason"), _read_events, send)


def find_lost_changes(
    client: Any, url: str, redeliver: Redeliver, known_failures: tuple[type[Exception], ...]
) -> DeadLetters:
    """Return the dead letters of feeds; a letter is sent if its target accepts all its changes."""

    def send(message: Any) -> None:
        redeliver(_read_attribute(message, FEED), _read_attribute(message, TARGET), _read_changes(message))

    columns = "feed", "target", "reason"
    return DeadLetters(client, url, "changes", columns, _count_changes, send, known_failures)


def find_stopped_work(client: Any, url: str, queues: Mapping[str, str]) -> DeadLetters:
    """Return the dead letters of workers. ``queues`` are the addresses of their queues by the kind of work.

    A message that is none of a scheduler stays.
    """

    def send(message: Any) -> None:
        kind, item = _read_item(message)[0]
        if kind not in queues:
            raise UnknownWork(f"{item}: no worker takes this message")
        client.send_message(QueueUrl=queues[kind], MessageBody=message["Body"])

    return DeadLetters(client, url, "messages", ("kind", "item"), _read_item, send, (UnknownWork,))


def _read_item(message: Any) -> tuple[tuple[str, ...], int]:
    try:
        return read_message(message["Body"]), 1
    except msgspec.DecodeError:
        return ("?", str(message["Body"])[:_SHOWN]), 1


def _read_events(message: Any) -> tuple[tuple[str, ...], int]:
    stream, count = "?", 1
    with suppress(ValueError, KeyError, TypeError):
        decoded = decode_message(message["Body"])
        # A message whose events are in the bucket has at least one event.
        stream, count = decoded[0], len(decoded.events) or 1
    return (stream, _read_attribute(message, REASON) or UNKNOWN), count


def _count_changes(message: Any) -> tuple[tuple[str, ...], int]:
    values = tuple(_read_attribute(message, name) for name in (FEED, TARGET, REASON))
    return values, len(_read_changes(message))


def _read_attribute(message: Any, name: str) -> str:
    return str(message.get("MessageAttributes", {}).get(name, {}).get("StringValue", ""))


def _read_changes(message: Any) -> list[str]:
    # Not splitlines(): it also splits at characters that JSON need not escape, such as U+2028.
    return str(message["Body"]).split("\n")
