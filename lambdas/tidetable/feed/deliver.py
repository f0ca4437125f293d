"""Delivery: every change of a batch of records reaches every target at least once, the changes of one event in their order.

The caller answers the batch with the first record that was not delivered. Lambda sends it and those after it again, also with
fewer records at a time. Changes that fail for longer than ``max_age`` become dead letters. So a target that is gone, or a record
that cannot be read, does not hold up the shard until its records expire (AWS: after 24 hours). Where a feed has several targets,
one that took nothing for ``max_age`` is out of order from then on: it is tried once per batch, the others are served before it,
and what it does not take becomes dead letters at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, Protocol

from tidetable.catalog import Entry
from tidetable.errors import TidetableError
from tidetable.feed.changes import Change, ChangeReader, Record
from tidetable.feed.memory import Memory
from tidetable.ports import Clock

TRIES = 3
_PAUSE_SECONDS = 0.2
# Kept back for burying what fails, and for the answer.
_RESERVE_SECONDS = 5.0


class Message(NamedTuple):
    """A change on its way to a target: what orders it, and its body."""

    identity: tuple[str, str, str]
    body: bytes


class Target(Protocol):
    """Where changes go.

    ``most_bytes`` is the largest body that it takes. One request takes ``most_messages`` of ``most_together`` bytes in all.
    """

    arn: str
    most_bytes: int
    most_messages: int
    most_together: int

    def send(self, messages: Sequence[Message]) -> Sequence[int]:
        """Send messages in one request; returns the numbers of the messages that the target refused. Raises if it refused all."""
        ...


class FeedLetters(Protocol):
    """The dead letters of the feed."""

    def bury(self, stream: str, target: str, reason: str, bodies: Sequence[bytes]) -> None:
        """Keep changes that a target did not take, with the reason; an error is raised if any could not be kept."""
        ...


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
    """What became of a batch: how many changes were sent and buried, and the first record that is to come again, if any."""

    sent: int = 0
    buried: int = 0
    first_failure: str | None = None
    reason: str = ""


class _Read(NamedTuple):
    record: Record
    changes: Sequence[Change]


def deliver(records: Sequence[Record], feed: Feed, remaining: Callable[[], float]) -> Delivered:
    """Deliver the changes of records, which come in the order of their shard."""
    delivered = Delivered()
    read: list[_Read] = []
    failure: tuple[int, str] | None = None
    for number, record in enumerate(records):
        try:
            entry = feed.find_entry(record.table)
            if entry is None:
                raise TidetableError(f"the catalog has no period of table {record.table}")
            read.append(_Read(record, feed.reader.read(record, entry)))
        except Exception as error:
            if not _is_due(record, feed):
                failure = number, f"{type(error).__name__}: {error}"
                break
            feed.letters.bury(feed.stream, "", str(error), [_describe_unreadable(record)])
            delivered.buried += 1
            read.append(_Read(record, ()))
    failures = [failure] if failure is not None else []
    done: dict[str, int] = {}
    for target in sorted(feed.targets, key=lambda target: feed.memory.is_failing(target.arn)):
        failed = _send_all(read, target, feed, remaining, delivered)
        done[target.arn] = len(read) if failed is None else failed[0]
        if failed is not None:
            failures.append(failed)
    if not failures:
        return delivered
    number, delivered.reason = min(failures)
    delivered.first_failure = records[number].sequence
    # Lambda sends the batch again from there on: a target that took its records is not sent them again.
    for arn, end in done.items():
        feed.memory.note_taken(arn, records[number:end])
    return delivered


def _describe_unreadable(record: Record) -> bytes:
    key = {} if record.item is None else {"pk": record.item.get("pk"), "sk": record.item.get("sk")}
    return str({"table": record.table, "sequence": record.sequence, **key}).encode()


def _is_due(record: Record, feed: Feed) -> bool:
    """Whether a record has failed for so long that it becomes a dead letter."""
    return feed.clock.now() - record.created > feed.max_age


def _send_all(
    read: Sequence[_Read], target: Target, feed: Feed, remaining: Callable[[], float], delivered: Delivered
) -> tuple[int, str] | None:
    """Send the changes of records to a target; the number of the first record that is to come again, and why."""
    memory, arn = feed.memory, target.arn
    taken_count = memory.count_taken(arn, [record_read.record for record_read in read]) if read else 0
    pending: Sequence[_Numbered] = [
        (number, Message(change.identity, change.encode(target.most_bytes)))
        for number, (_, changes) in enumerate(read)
        if number >= taken_count
        for change in changes
    ]
    if pending and memory.is_out(arn) and not memory.may_try(arn, feed.clock.now()):
        _bury(pending, "the target has accepted nothing for a while", target, feed, delivered)
        return None
    while pending:
        chunk, rest = _cut(pending, target)
        was_out, tried_at = memory.is_out(arn), feed.clock.now()
        refused, reason = _send(chunk, target, feed.clock, remaining, tries=1 if was_out else TRIES)
        delivered.sent += len(chunk) - len(refused)
        if len(refused) < len(chunk):
            memory.note_success(arn)
        if not refused:
            pending = rest
            continue
        took_nothing = len(refused) == len(chunk) and len(feed.targets) > 1
        if was_out and took_nothing:
            _bury([*refused, *rest], reason, target, feed, delivered)
            memory.note_failure(arn, tried_at, feed.clock.now(), out=True)
            return None
        young = [message for message in refused if not _is_due(read[message[0]].record, feed)]
        due = [message for message in refused if message not in young]
        if due:
            _bury(due, reason, target, feed, delivered)
        out = bool(due) and took_nothing
        now = feed.clock.now()
        # Three tries have pauses, so they say nothing about how long one takes.
        memory.note_failure(arn, now, now, out=out)
        if young and not out:
            # The changes after a failed one wait with it: another of the same event must not overtake it.
            return min(number for number, _ in young), reason
        # The letters may be about one bad change: the younger changes are tried once.
        pending = [*young, *rest]
    return None


def _bury(some: Sequence[_Numbered], reason: str, target: Target, feed: Feed, delivered: Delivered) -> None:
    feed.letters.bury(feed.stream, target.arn, reason, [message.body for _, message in some])
    delivered.buried += len(some)


_Numbered = tuple[int, Message]


def send_messages(
    messages: Sequence[Message], target: Target, clock: Clock, remaining: Callable[[], float]
) -> tuple[Sequence[Message], str]:
    """Send messages to a target until one is not taken; the messages that are left, and why."""
    pending: Sequence[_Numbered] = list(enumerate(messages))
    while pending:
        chunk, rest = _cut(pending, target)
        remainder, reason = _send(chunk, target, clock, remaining)
        if remainder:
            return [message for _, message in (*remainder, *rest)], reason
        pending = rest
    return [], ""


def _cut(pending: Sequence[_Numbered], target: Target) -> tuple[Sequence[_Numbered], Sequence[_Numbered]]:
    """The changes of the next request: no two of one event, as a target may take the second of them alone."""
    size, events = 0, set()
    for end, (_, message) in enumerate(pending):
        size += len(message.body)
        full = end >= target.most_messages or (end and size > target.most_together)
        if full or message.identity in events:
            return pending[:end], pending[end:]
        events.add(message.identity)
    return pending, []


def _send(
    chunk: Sequence[_Numbered],
    target: Target,
    clock: Clock,
    remaining: Callable[[], float],
    *,
    tries: int = TRIES,
) -> tuple[Sequence[_Numbered], str]:
    """Send some changes, and send the refused ones again; returns the changes that are left, and why."""
    reason = ""
    for attempt in range(tries):
        if attempt:
            if remaining() < _RESERVE_SECONDS:
                break
            clock.sleep(_PAUSE_SECONDS * attempt)
        try:
            refused = target.send([message for _, message in chunk])
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            continue
        chunk = [chunk[number] for number in refused]
        if not chunk:
            return [], ""
        reason = f"the target did not take {len(chunk)} of its messages"
    return chunk, reason
