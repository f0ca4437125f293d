"""Describe for ``status`` the acknowledged events that are in no table yet: in the queues, and saved in the bucket."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from cli.account import Account
from tidetable.ingest.saved import SAVED_PREFIX, count_backlog, read_stream
from tidetable.times import to_text

_COUNT = "ApproximateNumberOfMessages"
_HIDDEN = "ApproximateNumberOfMessagesNotVisible"


def describe_overflow(account: Account, stream: str | None) -> Iterator[str]:
    """Write a line for each queue with messages, and for each stream with saved messages, or for the one stream.

    It makes two requests to SQS, and lists the saved messages of the bucket.
    """
    if account.queues is not None:
        waiting, dead = (_count_messages(account, output) for output in ("OverflowQueueUrl", "DeadLetterQueueUrl"))
        if waiting:
            yield f"about {waiting} messages wait in the overflow queue: the log of the drain has the reasons"
        if dead:
            yield f"about {dead} messages are dead letters: tidetable replay --dry-run has the reasons"
    if account.stored is not None:
        stored = sorted(account.stored.stored(SAVED_PREFIX), key=lambda found: read_stream(found.key))
        for name, own in groupby(stored, key=lambda found: read_stream(found.key)):
            if stream in (None, name):
                messages, events, size, oldest = count_backlog(own)
                since = f", the oldest of {to_text(oldest)[:16]}Z" if oldest is not None else ""
                yield (
                    f"{name}: {events:,} acknowledged events ({messages:,} messages, {size / 1e6:,.1f} MB{since}) are saved"
                    " in the bucket, and are written minute by minute; see the runbook, OverflowSaved"
                )


def _count_messages(account: Account, output: str) -> int:
    url, names = account.outputs[output], [_COUNT, _HIDDEN]
    attributes = account.queues.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return int(attributes[_COUNT]) + int(attributes[_HIDDEN])
