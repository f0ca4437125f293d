"""The records of background work: who works on an item, and until when.

An item is a ``kind`` of work with a name, such as the sealing of a stream. A worker claims it before it begins. Each claim
has a greater generation than the claims before it, and ends by itself, so a worker that died does not hold its item for
ever. What a worker made counts only if the write that ends its claim names its generation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

# The name in a pause that means all streams.
EVERY_STREAM = "*"


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
    """The record of an item: its memo, and the end of its present claim. ``done`` is the generation that finished it."""

    kind: str
    name: str
    memo: str
    until: datetime | None
    done: int = 0


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

    def release(self, claim: Claim, memo: str, *, done: bool = False) -> bool:
        """End a claim, and keep the memo; False if it was lost: another worker has claimed the item after it ended.

        With ``done``, the item is finished by the generation of the claim.
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
        self.memo = claim.memo
        self.generation = claim.generation
        # True if the item is finished when the claim ends.
        self.done = False


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
            work.release(claim, held.memo, done=held.done)
