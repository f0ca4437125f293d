"""Dead letters: what they are there for, and sending them back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from aws.overflow import REASON
from tidetable.ingest.overflow import decode_message

UNKNOWN = "tried too often; the drain's log has the reason"
_BATCH = 10
# While a message is looked at nobody else sees it; then it is back.
_HIDDEN_SECONDS = 60


def letters(client: Any, url: str) -> Iterator[Any]:
    """Every message of the queue that nobody else looks at, once."""
    seen: set[str] = set()
    while True:
        answer = client.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=_BATCH,
            VisibilityTimeout=_HIDDEN_SECONDS,
            MessageAttributeNames=["All"],
            WaitTimeSeconds=1,
        )
        new = [one for one in answer.get("Messages", []) if one["MessageId"] not in seen]
        if not new:
            return
        seen |= {one["MessageId"] for one in new}
        yield from new


@dataclass(frozen=True)
class Summary:
    """How many messages there are, and how many events by stream and reason."""

    messages: int
    events: Counter[tuple[str, str]]


def summary(client: Any, url: str) -> Summary:
    """What there is. The messages stay."""
    found: Counter[tuple[str, str]] = Counter()
    receipts = []
    for one in letters(client, url):
        found[_stream(one), _reason(one)] += _count(one)
        receipts.append(one["ReceiptHandle"])
    # Only now: one that is let go before the end would be received again, and be hidden.
    for receipt in receipts:
        client.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=0)
    return Summary(len(receipts), found)


def replay(client: Any, dead: str, overflow: str, most: int, moved: Callable[[int], None]) -> int:
    """Send messages back to the overflow, and only then delete them here: stopped anywhere, none is lost.

    No more than ``most``, as many as there were: what cannot be written still is back in no time, and would go round for ever.
    """
    events = 0
    for one in islice(letters(client, dead), most):
        client.send_message(QueueUrl=overflow, MessageBody=one["Body"])
        client.delete_message(QueueUrl=dead, ReceiptHandle=one["ReceiptHandle"])
        events += _count(one)
        moved(events)
    return events


def _reason(message: Any) -> str:
    return str(message.get("MessageAttributes", {}).get(REASON, {}).get("StringValue", UNKNOWN))


def _stream(message: Any) -> str:
    try:
        return decode_message(message["Body"])[0]
    except (ValueError, KeyError, TypeError):
        return "?"


def _count(message: Any) -> int:
    try:
        found = decode_message(message["Body"])
        # What is kept in the bucket is one event at least.
        return len(found.events) or 1
    except (ValueError, KeyError, TypeError):
        return 1
