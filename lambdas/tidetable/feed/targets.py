"""The parts of a feed: messages, targets, dead letters, and the outcome of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, Protocol

from tidetable.catalog import Entry
from tidetable.feed.changes import Change, ChangeReader, StreamRecord
from tidetable.feed.memory import Memory
from tidetable.ports import Clock

# AWS: a record of a change stream stays for 24 hours. A record of this age that fails becomes a dead letter at once:
# one hour is left for it and for the records behind it.
LAST_AGE = timedelta(hours=23)


class FeedMessage(NamedTuple):
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

    def send(self, messages: Sequence[FeedMessage]) -> None:
        """Send messages in one request. ChangesRefused names the messages that the target refused for themselves.

        TargetBusy names the messages that it could not take now, whatever they are; every other error means all of them.
        """


class FeedLetters(Protocol):
    """The dead letters of the feed."""

    def bury(self, stream: str, target: str, reason: str, bodies: Sequence[bytes]) -> None:
        """Keep changes that a target did not accept, or records without a target, with the reason.

        Raises if any could not be kept.
        """


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

    def is_last_call(self, record: StreamRecord) -> bool:
        """True if a record is so old that it must not fail once more: it becomes a dead letter instead."""
        return self.clock.now() - record.created > LAST_AGE


@dataclass(slots=True)
class Delivered:
    """The outcome of a batch: the numbers of sent and of buried changes, and the first record that must come again."""

    sent: int = 0
    buried: int = 0
    first_failure: str | None = None
    reason: str = ""


class Failure(NamedTuple):
    """The number of the first record that must come again, and the reason."""

    number: int
    reason: str


class ReadRecord(NamedTuple):
    """A record with its changes."""

    record: StreamRecord
    changes: Sequence[Change]
