"""Dead letters of the overflow: count them by stream and reason, and send them back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from botocore.exceptions import ClientError

from aws.messages import REASON
from tidetable.ingest.overflow import decode_message

UNKNOWN = "tried too often; the drain's log has the reason"
_BATCH = 10
# SQS hides a received message from other receivers for this time.
_HIDDEN_SECONDS = 60


def receive_letters(client: Any, url: str) -> Iterator[Any]:
    """Yield every message of the queue once, except messages that another receiver has."""
    ids: set[str] = set()
    while True:
        answer = client.receive_message(
            QueueUrl=url,
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


@dataclass(frozen=True)
class Summary:
    """The number of messages, and the number of events by stream and reason."""

    messages: int
    events: Counter[tuple[str, str]]


def summarize_letters(client: Any, url: str) -> Summary:
    """Count the events of the queue; the messages stay in it."""
    events: Counter[tuple[str, str]] = Counter()
    receipts = []
    for message in receive_letters(client, url):
        events[_read_stream(message), _read_reason(message)] += _count_events(message)
        receipts.append(message["ReceiptHandle"])
    release_letters(client, url, receipts)
    return Summary(len(receipts), events)


def release_letters(client: Any, url: str, receipts: Sequence[str]) -> None:
    """Make messages visible again. Call it only at the end: a message that is visible earlier is received again."""
    for receipt in receipts:
        # AWS refuses this for a message that is visible again already, because its minute is over.
        with suppress(ClientError):
            client.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=0)


def replay_letters(client: Any, dead: str, overflow: str, maximum: int, report_moved: Callable[[int], None]) -> int:
    """Send messages back to the overflow.

    A message is deleted only after it was sent, so an interruption does not lose messages. It sends at most ``maximum``
    messages, the number at the start. Events that still cannot be written come back at once; without a maximum they
    would circle for ever.
    """
    events = 0
    for message in islice(receive_letters(client, dead), maximum):
        client.send_message(QueueUrl=overflow, MessageBody=message["Body"])
        client.delete_message(QueueUrl=dead, ReceiptHandle=message["ReceiptHandle"])
        events += _count_events(message)
        report_moved(events)
    return events


def _read_reason(message: Any) -> str:
    return str(message.get("MessageAttributes", {}).get(REASON, {}).get("StringValue", UNKNOWN))


def _read_stream(message: Any) -> str:
    try:
        return decode_message(message["Body"])[0]
    except (ValueError, KeyError, TypeError):
        return "?"


def _count_events(message: Any) -> int:
    try:
        decoded = decode_message(message["Body"])
        # A message whose events are in the bucket has at least one event.
        return len(decoded.events) or 1
    except (ValueError, KeyError, TypeError):
        return 1
