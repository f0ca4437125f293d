"""The records of background work: who works on an item, and until when.

An item is a ``kind`` of work with a name, such as the sealing of a stream. When it is due, the scheduler sends a message,
which wakes a worker. The worker claims the item before it begins. Each claim has a greater generation than the claims
before it, and ends by itself, so a worker that died does not hold its item for ever. What a worker made counts only if
the write that ends its claim names its generation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from tidetable.errors import TidetableError

# The name in a pause that means all streams.
EVERY_STREAM = "*"


class ItemName(NamedTuple):
    """The name of an item. A message to a worker has nothing else: the item's record says all the rest."""

    kind: str
    name: str


class Claim(NamedTuple):
    """A worker's right to work on an item until an instant. Only the claim with the greatest generation counts.

    ``memo`` is what the item's record holds for its workers.
    """

    kind: str
    name: str
    generation: int
    until: datetime
    memo: str = ""


class WorkItem(NamedTuple):
    """The record of an item: its memo, and the end of its present claim. ``done`` is the generation that finished it.

    ``generation`` is that of the last claim, and ``problem`` says why its work failed. Since that claim the first message
    for the item was sent at ``waiting``; the scheduler sends no other message before ``sent``.
    """

    kind: str
    name: str
    memo: str = ""
    until: datetime | None = None
    done: int = 0
    generation: int = 0
    sent: datetime | None = None
    waiting: datetime | None = None
    problem: str = ""

    def is_claimed(self, now: datetime) -> bool:
        """True while a worker has the item."""
        return self.until is not None and now < self.until

    def is_sent(self, now: datetime) -> bool:
        """True while a message for the item may be under way."""
        return self.sent is not None and now < self.sent


class RecordUnread(TidetableError):
    """The record of an item cannot be read: it is broken, or of a newer version. Other items are not affected."""


@contextmanager
def refuse_unread(item: WorkItem) -> Iterator[None]:
    """Raise RecordUnread if the block cannot read what the record of an item says."""
    try:
        yield
    except ValueError as error:
        raise RecordUnread(f"the record of {item.kind} {item.name} cannot be read: {error}") from error


class Pause(NamedTuple):
    """A kind of work that rests, of a stream or of ``EVERY_STREAM``."""

    kind: str
    stream: str


class WorkRecords(Protocol):
    """The records of work items. Every change is conditional or idempotent.

    Any method may raise ``StoreUnavailable``: then nobody knows whether the change was made.
    """

    def claim(
        self, kind: str, name: str, owner: str, now: datetime, until: datetime, *, added: bool = False
    ) -> Claim | None:
        """Claim an item; None while another owner has a claim that has not ended. An owner may claim its item again.

        An item of a recurring kind has a record from its first claim on. If the item must have been ``added``, an item
        that is finished or removed cannot be claimed.
        """

    def renew(self, claim: Claim, until: datetime) -> bool:
        """Let a claim end later, also if it has ended already; False if it was given back, or another worker has claimed
        the item since.
        """

    def release(self, claim: Claim, memo: str, *, done: bool = False, problem: str = "") -> None:
        """End a claim, and keep the memo. Nothing changes if another worker has claimed the item after the claim ended.

        With ``done``, the item is finished by the generation of the claim. ``problem`` says why its work failed.
        """

    def mark_sent(self, item: WorkItem, now: datetime, until: datetime, *, added: bool = False) -> None:
        """Note that a message for an item was sent, unless a worker has claimed the item since its record was read.

        A claim removes the note. If the item must have been ``added``, a removed item stays removed.
        """

    def add(self, kind: str, name: str, memo: str) -> bool:
        """Add an item; False if there is such an item already."""

    def list_items(self, kind: str, prefix: str = "") -> Sequence[WorkItem]:
        """List the items of a kind whose names begin with ``prefix``, by name."""

    def remove(self, kind: str, name: str) -> None:
        """Remove an item; nothing happens if there is no such item."""

    def list_pauses(self) -> frozenset[Pause]:
        """List what rests now."""

    def set_pause(self, pause: Pause, *, on: bool) -> None:
        """Let work rest, or go on."""


def rests(kind: str, stream: str, pauses: frozenset[Pause]) -> bool:
    """True if a kind of work of a stream rests."""
    return not pauses.isdisjoint((Pause(kind, stream), Pause(kind, EVERY_STREAM)))


class HeldClaim:
    """A claim that is held: ``memo`` is the memo that its record keeps when the claim ends."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.memo = claim.memo
        self.generation = claim.generation
        # True if the item is finished when the claim ends.
        self.done = False
        # Why the work failed.
        self.problem = ""


@contextmanager
def hold_claim(
    work: WorkRecords, kind: str, name: str, owner: str, now: datetime, length: timedelta, *, added: bool = False
) -> Iterator[HeldClaim | None]:
    """Hold a claim during the block, and end it afterwards; yield None if another worker has the item."""
    claim = work.claim(kind, name, owner, now, now + length, added=added)
    if claim is None:
        yield None
        return
    held = HeldClaim(claim)
    try:
        yield held
    finally:
        # The work of the block is done. A claim that could not be ended ends by itself.
        with suppress(Exception):
            work.release(claim, held.memo, done=held.done, problem=held.problem)
