"""The records of background work: who works on an item, and until when.

An item is a ``kind`` of work on a stream, such as sealing. A worker claims it before it begins. Each claim has a greater
generation than the claims before it, and ends by itself, so a worker that died does not hold its item for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

# The name in a pause that means all streams.
EVERY_STREAM = "*"


class Claim(NamedTuple):
    """A worker's right to work on an item until an instant. Only the claim with the greatest generation counts."""

    kind: str
    stream: str
    generation: int
    until: datetime


class Pause(NamedTuple):
    """A kind of work that rests, of a stream or of ``EVERY_STREAM``."""

    kind: str
    stream: str


class WorkRecords(Protocol):
    """The records of work items. Every change is conditional or idempotent.

    Any method may raise ``StoreUnavailable``: then nobody knows whether the change was made.
    """

    def claim(self, kind: str, stream: str, owner: str, now: datetime, until: datetime) -> Claim | None:
        """Claim an item; None while another owner has a claim that has not ended. An owner may claim its item again."""

    def release(self, claim: Claim) -> bool:
        """End a claim; False if it was lost: another worker has claimed the item after it ended."""

    def list_pauses(self) -> frozenset[Pause]:
        """List what rests now."""

    def set_pause(self, pause: Pause, *, on: bool) -> None:
        """Let work rest, or go on."""


def rests(kind: str, stream: str, pauses: frozenset[Pause]) -> bool:
    """True if a kind of work of a stream rests."""
    return not pauses.isdisjoint((Pause(kind, stream), Pause(kind, EVERY_STREAM)))


@contextmanager
def hold_claim(
    work: WorkRecords, kind: str, stream: str, owner: str, now: datetime, length: timedelta
) -> Iterator[Claim | None]:
    """Hold a claim during the block, and end it afterwards; yield None if another worker has the item."""
    claim = work.claim(kind, stream, owner, now, now + length)
    try:
        yield claim
    finally:
        if claim is not None:
            # The work of the block is done. A claim that could not be ended ends by itself.
            with suppress(Exception):
                work.release(claim)
