"""The ports of the catalog, of the clock and of parallel work; a simulation repeats time and work exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from datetime import datetime, timedelta
from typing import Protocol, Unpack

from tidetable.catalog import Backfill, Entry, EntryFacts, Horizon, RecordedPolicy, SeenTable, State
from tidetable.segmentation import Segmentation

# A page of events needs few entries. These take about 2 read units: an entry has about 500 bytes.
WALKED_AT_ONCE = 16
# Makes a pool that runs at most this number of tasks at once. The caller closes the pool.
Pools = Callable[[int], Executor]


class Clock(Protocol):
    """Tells the time, and waits."""

    def now(self) -> datetime: ...
    def sleep(self, seconds: float) -> None: ...


class CatalogReader(Protocol):
    """The part of the catalog that writes and reads of events use."""

    def entries(
        self, stream: str, start: datetime | None = None, end: datetime | None = None, *, consistent: bool = False
    ) -> Sequence[Entry]:
        """Read the entries whose periods overlap ``[start, end]``, oldest first. None does not limit."""

    def walk(
        self,
        stream: str,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        ascending: bool = False,
        consistent: bool = False,
        at_once: int = WALKED_AT_ONCE,
    ) -> Iterator[Entry]:
        """Yield the entries whose periods overlap ``[start, end]``, newest first unless ``ascending``.

        Entries are read when they are needed: ``at_once`` at first, then twice as many each time.
        """

    def backfills(self, stream: str) -> Sequence[Backfill]:
        """Read every backfill that was requested and not taken back, oldest first. Some backfills may be over."""

    def secret(self) -> bytes:
        """Read the secret that seals cursors; StoreUnavailable while there is no secret."""

    def read_share(self, lease: str) -> datetime | None:
        """Read since when only the owner that is many runs has had a lease; None if another owner, or nobody, has it."""


class Catalog(CatalogReader, Protocol):
    """The record of every period table."""

    def add(self, entry: Entry) -> bool:
        """Record a new period, and note it as far if it ``is_far``.

        If the catalog already has the period, return False and leave its record unchanged.
        """

    def move(self, entry: Entry, to: State, *, expected: Iterable[State], **facts: Unpack[EntryFacts]) -> Entry:
        """Change an entry's state and these facts, and return it; StaleEntry if its state is not ``expected``.

        A period that is restored is noted as far, and one that is deleted is not any more, by the same transaction.
        """

    def begin_segments(self, entry: Entry, to: State, segments: Segmentation) -> Entry | None:
        """Change an entry's state, record the segments that are begun, and remove its marks. Return the entry.

        None if another run has changed the state, or a write has marked a segment, since the entry was read.
        """

    def mark_scaled(self, entry: Entry, *, scaled: bool, policy: str = "") -> None:
        """Record whether Application Auto Scaling may tend the entry's table; StaleEntry if there is no such entry.

        ``policy`` is the text of the policy that Application Auto Scaling has confirmed. Until then it is empty, or
        ``changing`` if the policy replaces another.
        """

    def mark_copies(self, entry: Entry, regions: Sequence[str]) -> None:
        """Record in which other Regions the entry's table has an ACTIVE copy; StaleEntry if there is no such entry."""

    def mark_copying(self, entry: Entry, region: str, at: datetime) -> None:
        """Record that a copy was begun in a Region, and when; StaleEntry if there is no such entry."""

    def note(self, entry: Entry, seen: SeenTable) -> None:
        """Record the last known units and class of the entry's table; StaleEntry if there is no such entry."""

    def ensure_secret(self) -> None:
        """Make the secret that seals cursors, unless there is a secret already."""

    def is_deployed(self) -> bool:
        """True if a deployment of the stage was ever completed; strongly consistent."""

    def mark_deployed(self) -> None:
        """Record that a deployment of the stage was completed, with the format of the catalog that this code writes."""

    def require_known_format(self) -> None:
        """StoreUnavailable if the last complete deployment was that of newer code, whose records this code might misread."""

    def forget(self, entry: Entry) -> None:
        """Delete the record of a period, as if it had never been recorded; nothing happens if there is no record."""

    def put_backfill(self, backfill: Backfill) -> None:
        """Record a request. It replaces an earlier request with the same stream, start and end."""

    def drop_backfill(self, backfill: Backfill) -> None:
        """Delete the record of a request; nothing happens if there is no record."""

    def list_policies(self) -> Sequence[RecordedPolicy]:
        """Read the recorded policy of every stream that the configuration has or had, by the stream's name."""

    def put_policy(self, recorded: RecordedPolicy) -> None:
        """Record a stream's policy in place of the policy that was recorded before."""

    def read_horizon(self, stream: str) -> Horizon:
        """Read a stream's horizon, which may lag behind, and its far periods; strongly consistent."""

    def list_horizons(self) -> Mapping[str, Horizon]:
        """Read the horizons of all streams that have one, or far periods, by stream; strongly consistent."""

    def note_far(self, entry: Entry) -> None:
        """Note a period that is not deleted as far, before the horizon passes it."""

    def list_backfills(self) -> Sequence[Backfill]:
        """Read the requests of all streams, in the order of streams and times. Some backfills may be over."""

    def entries_from(self, stream: str, start: datetime) -> Sequence[Entry]:
        """Read the entries whose periods begin at ``start`` or later, oldest first; strongly consistent."""

    def set_horizon(self, stream: str, at: datetime) -> None:
        """Record that every period that ended at or before this instant is deleted or noted as far."""

    def acquire(self, lease: str, owner: str, now: datetime, length: timedelta) -> bool:
        """Take a named lease until ``now + length``; False while another owner holds the lease."""

    def share_lease(self, lease: str, owner: str, now: datetime, length: timedelta) -> datetime | None:
        """Take a lease as ``acquire`` does, for one owner that is many runs. Return since when no other owner had it."""

    def release(self, lease: str, owner: str) -> None:
        """Give a lease back; nothing happens if the owner no longer holds it."""
