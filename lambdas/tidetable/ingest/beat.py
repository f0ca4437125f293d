"""The beat of the drain: it says whether messages of the overflow are taken.

The lifecycle sends a beat through the overflow queue in each run, and the drain records when it was sent. So the record
is new only if Lambda takes messages from the queue, and if the drain can handle them. SQS deletes a message after 14 days.
So while the last beat is old, a request stores its events as an object of the bucket instead of a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from tidetable.errors import StoreUnavailable, TableMissing
from tidetable.events import Event
from tidetable.ingest.overflow import OverflowMessage, Wake, encode_wake
from tidetable.ports import Clock, Overflow

if TYPE_CHECKING:
    from tidetable.large.shrink import LargeValueServices

# In place of the stream that a message wakes. No stream's name has a "#".
BEAT = "#beat"
# The drain stands still if its last beat is so old. The lifecycle sends one every five minutes.
STANDSTILL = timedelta(minutes=30)
# So long a process relies on what it has read.
_KEPT = timedelta(minutes=1)


class Beats(Protocol):
    """The record of the last beat. Both methods may raise StoreUnavailable or TableMissing."""

    def read(self) -> datetime | None:
        """Read when the last beat was sent, strongly consistent; None if there was none yet."""

    def write(self, sent: datetime) -> None: ...


def send_beat(overflow: Overflow, now: datetime) -> bool:
    """Send a beat; False if the queue did not take it. The drain forgets a beat that needs too long."""
    return overflow.wake(BEAT, [encode_wake(Wake(BEAT, 0, 1, now + STANDSTILL))])


def record_beat(beat: Wake, beats: Beats, now: datetime) -> None:
    """Record when a beat was sent, unless it is too old."""
    if now < beat.until:
        beats.write(beat.until - STANDSTILL)


def stands_still(beat: datetime | None, now: datetime) -> bool:
    """True if the last beat is old; False if there was none yet, because the drain is new."""
    return beat is not None and now - beat >= STANDSTILL


class BeatingOverflow:
    """The overflow queue; while the drain stands still, the bucket.

    Nothing is read for a request that needs no overflow, and otherwise at most one record per minute. If it cannot be
    read, what was read before counts. If nothing was, or if the bucket takes no object, the queue is used.
    """

    def __init__(self, queue: Overflow, beats: Beats, large: LargeValueServices, clock: Clock) -> None:
        self._queue, self._beats, self._large, self._clock = queue, beats, large, clock
        self._beat: datetime | None = None
        self._read_at: datetime | None = None

    def send(self, stream: str, events: Sequence[Event], at: int) -> Sequence[Event]:
        now = self._clock.now()
        if stands_still(self._read_beat(now), now):
            from tidetable.ingest.saving import store_events

            if store_events(OverflowMessage(stream, events, at), now, self._large.unique(), self._large) is not None:
                return ()
        return self._queue.send(stream, events, at)

    def wake(self, stream: str, bodies: Sequence[str]) -> bool:
        return self._queue.wake(stream, bodies)

    def _read_beat(self, now: datetime) -> datetime | None:
        if self._read_at is None or not self._read_at <= now < self._read_at + _KEPT:
            self._read_at = now
            with suppress(StoreUnavailable, TableMissing):
                self._beat = self._beats.read()
        return self._beat
