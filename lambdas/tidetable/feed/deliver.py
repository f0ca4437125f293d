"""Deliver a batch of records: every change reaches every target at least once, and the changes of an event keep their
order.

The caller answers the batch with the first record that was not delivered. Lambda sends this record and all later
records again, perhaps in smaller batches. Changes that fail for longer than ``max_age`` become dead letters. So a
target that does not exist any more, or a record that cannot be read, does not block the shard until its records expire
(AWS: after 24 hours). If a feed has several targets, a target that accepted no change for ``max_age`` is out of order
from then on. The other targets are served before it, it is tried once per batch, and changes that it does not accept
become dead letters at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, Protocol

from tidetable.catalog import Entry
from tidetable.errors import TidetableError, describe_error
from tidetable.feed.changes import Change, ChangeReader, Record
from tidetable.feed.memory import Memory
from tidetable.ports import Clock
from tidetable.remaining import Remaining

TRIES = 3
_PAUSE_SECONDS = 0.2
# The time that is reserved for burying the changes that fail, and for the answer.
_RESERVE_SECONDS = 5.0
_TIME_IS_UP = "the time of this call is up; the other changes come with the next call"


class Message(NamedTuple):
    """A change on its way to a target: the identity of its event, its body, and the number of its ``record``."""

    identity: tuple[str, str, str]
    body: bytes
    record: int = 0


class Target(Protocol):
    """A target of changes. ``most_bytes`` limits a message, ``most_messages`` and ``most_together`` bytes a request."""

    arn: str
    most_bytes: int
    most_messages: int
    most_together: int

    def send(self, messages: Sequence[Message]) -> Sequence[int]:
        """Send messages in one request; return the numbers of the refused messages. Raises if all were refused."""


class FeedLetters(Protocol):
    """The dead letters of the feed."""

    def bury(self, stream: str, target: str, reason: str, bodies: Sequence[bytes]) -> None:
        """Keep changes that a target did not accept, with the reason; raises if any change could not be kept."""


@dataclass(slots=True)
class Feed:
    """A stream's feed: its targets, how to read its changes, and how long a failing target is tried."""

    stream: str
    reader: ChangeReader
    targets: Sequence[Target]
    letters: FeedLetters
    clock: Clock
    max_age: timedelta
    find_entry: Callable[[str], Entry | None]
    memory: Memory = field(default_factory=Memory)


@dataclass(slots=True)
class Delivered:
    """The outcome of a batch: the numbers of sent and of buried changes, and the first record that must come again."""

    sent: int = 0
    buried: int = 0
    first_failure: str | None = None
    reason: str = ""


class _Read(NamedTuple):
    record: Record
    changes: Sequence[Change]


def deliver(records: Sequence[Record], feed: Feed, remaining: Remaining) -> Delivered:
    """Deliver the changes of records. The records are in the order of their shard."""
    delivered = Delivered()
    read: list[_Read] = []
    failures: list[tuple[int, str]] = []
    for number, record in enumerate(records):
        try:
            entry = feed.find_entry(record.table)
            if entry is None:
                raise TidetableError(f"the catalog has no period of table {record.table}")
            read.append(_Read(record, feed.reader.read(record, entry)))
        except Exception as error:
            if not _is_too_old(record, feed):
                failures.append((number, describe_error(error)))
                break
            feed.letters.bury(feed.stream, "", str(error), [_describe_unreadable(record)])
            delivered.buried += 1
            read.append(_Read(record, ()))
    taken_counts: dict[str, int] = {}
    for target in sorted(feed.targets, key=lambda target: feed.memory.is_failing(target.arn)):
        failed = _send_all(read, target, feed, remaining, delivered)
        taken_counts[target.arn] = len(read) if failed is None else failed[0]
        if failed is not None:
            failures.append(failed)
    if not failures:
        return delivered
    number, delivered.reason = min(failures)
    delivered.first_failure = records[number].sequence
    # Lambda sends the batch again from this record on. A target does not get a record twice if it accepted the record.
    for arn, end in taken_counts.items():
        feed.memory.note_taken(arn, records[number:end])
    return delivered


def _describe_unreadable(record: Record) -> bytes:
    key = {} if record.item is None else {"pk": record.item.get("pk"), "sk": record.item.get("sk")}
    return str({"table": record.table, "sequence": record.sequence, **key}).encode()


def _is_too_old(record: Record, feed: Feed) -> bool:
    """True if a record is older than ``max_age``: if it fails now, it becomes a dead letter."""
    return feed.clock.now() - record.created > feed.max_age


def _send_all(
    read: Sequence[_Read], target: Target, feed: Feed, remaining: Remaining, delivered: Delivered
) -> tuple[int, str] | None:
    """Send the changes of records to a target.

    Return the number of the first record that must come again, and the reason. The first request is always made. A
    further request is made only if the remaining time is enough for the slowest request so far. If the function's
    time-out ended this call, Lambda would get no answer and would send all records again, also the records that every
    target has accepted.
    """
    memory, arn = feed.memory, target.arn
    taken_count = memory.count_taken(arn, [record for record, _ in read]) if read else 0
    pending: Sequence[Message] = [
        Message(change.identity, change.encode(target.most_bytes), number)
        for number, (_, changes) in enumerate(read)
        if number >= taken_count
        for change in changes
    ]
    if pending and memory.is_out_of_order(arn) and not memory.may_try(arn, feed.clock.now()):
        _bury_messages(pending, "the target has accepted nothing for a while", target, feed, delivered)
        return None
    slowest: float | None = None
    while pending:
        if slowest is not None and remaining() < slowest + _RESERVE_SECONDS:
            return pending[0].record, _TIME_IS_UP
        chunk, rest = _cut_request(pending, target)
        was_out_of_order, tried_at = memory.is_out_of_order(arn), feed.clock.now()
        refused, reason = _send_chunk(chunk, target, feed.clock, remaining, tries=1 if was_out_of_order else TRIES)
        slowest = max(slowest or 0.0, (feed.clock.now() - tried_at).total_seconds())
        delivered.sent += len(chunk) - len(refused)
        if len(refused) < len(chunk):
            memory.note_success(arn)
        if not refused:
            pending = rest
            continue
        took_nothing = len(refused) == len(chunk) and len(feed.targets) > 1
        if was_out_of_order and took_nothing:
            _bury_messages([*refused, *rest], reason, target, feed, delivered)
            memory.note_failure(arn, tried_at, feed.clock.now(), out_of_order=True)
            return None
        young = [message for message in refused if not _is_too_old(read[message.record].record, feed)]
        due = [message for message in refused if message not in young]
        if due:
            _bury_messages(due, reason, target, feed, delivered)
        out_of_order = bool(due) and took_nothing
        now = feed.clock.now()
        # Three tries include pauses, so their time does not show how long one request takes.
        memory.note_failure(arn, now, now, out_of_order=out_of_order)
        if young and not out_of_order:
            # The changes after a failed change wait too: another change of the same event must not overtake it.
            return min(message.record for message in young), reason
        # Perhaps only one change was bad, and it is buried now. So the younger changes are tried once.
        pending = [*young, *rest]
    return None


def _bury_messages(messages: Sequence[Message], reason: str, target: Target, feed: Feed, delivered: Delivered) -> None:
    feed.letters.bury(feed.stream, target.arn, reason, [message.body for message in messages])
    delivered.buried += len(messages)


def send_messages(
    messages: Sequence[Message], target: Target, clock: Clock, remaining: Remaining
) -> tuple[Sequence[Message], str]:
    """Send messages to a target until it refuses one. Return the messages that were not accepted, and the reason."""
    pending = messages
    while pending:
        chunk, rest = _cut_request(pending, target)
        refused, reason = _send_chunk(chunk, target, clock, remaining)
        if refused:
            return [*refused, *rest], reason
        pending = rest
    return [], ""


def _cut_request(pending: Sequence[Message], target: Target) -> tuple[Sequence[Message], Sequence[Message]]:
    """Split off the next request: one change per event, because a target might accept only the second of two."""
    size, events = 0, set()
    for end, message in enumerate(pending):
        size += len(message.body)
        full = end >= target.most_messages or (end and size > target.most_together)
        if full or message.identity in events:
            return pending[:end], pending[end:]
        events.add(message.identity)
    return pending, []


def _send_chunk(
    chunk: Sequence[Message], target: Target, clock: Clock, remaining: Remaining, *, tries: int = TRIES
) -> tuple[Sequence[Message], str]:
    """Send changes, and send the refused changes again. Return the changes that were not accepted, and the reason."""
    reason = ""
    for attempt in range(tries):
        if attempt:
            if remaining() < _RESERVE_SECONDS:
                break
            clock.sleep(_PAUSE_SECONDS * attempt)
        try:
            refused = target.send(chunk)
        except Exception as error:
            reason = describe_error(error)
            continue
        chunk = [chunk[number] for number in refused]
        if not chunk:
            return [], ""
        reason = f"the target did not take {len(chunk)} of its messages"
    return chunk, reason
