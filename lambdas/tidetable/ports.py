"""What the core needs of the world: ``aws/`` implements it on AWS, the tests bring fakes that pass the same contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Literal, NamedTuple, Protocol

import msgspec

from tidetable.catalog import ArchiveFacts, Backfill, Entry, Opened, Seen, State
from tidetable.config import Autoscaling, TableClass
from tidetable.events import Event, Item
from tidetable.keys import Index, Key


class Clock(Protocol):
    """Tells the time, and lets some of it pass."""

    def now(self) -> datetime: ...
    def sleep(self, seconds: float) -> None: ...


class CatalogReader(Protocol):
    """What writes and reads need of the record of every period table."""

    def entries(
        self, stream: str, start: datetime | None = None, end: datetime | None = None, *, consistent: bool = False
    ) -> Sequence[Entry]:
        """The stream's entries whose periods meet ``[start, end]`` (all, if None), oldest first."""
        ...

    def backfills(self, stream: str) -> Sequence[Backfill]:
        """Every backfill that was requested and not taken back, oldest first; some may be over."""
        ...


class Catalog(CatalogReader, Protocol):
    """The record of every period table."""

    def add(self, entry: Entry) -> bool:
        """Record a new period; False if the catalog already has it, which then stays as it is."""
        ...

    def move(
        self,
        entry: Entry,
        to: State,
        *,
        expected: Iterable[State],
        archive: ArchiveFacts | None = None,
        deleted_at: datetime | None = None,
        keep_until: datetime | None = None,
        opened: Opened | None = None,
    ) -> Entry:
        """Change an entry's state if it is in one of the expected ones; StaleEntry otherwise. Returns the new entry."""
        ...

    def mark_scaled(self, entry: Entry, *, scaled: bool) -> None:
        """Record whether the entry's table is tended by Application Auto Scaling; StaleEntry if there is no such entry."""
        ...

    def note(self, entry: Entry, seen: Seen) -> None:
        """Record what the entry's table was seen to have; StaleEntry if there is no such entry."""
        ...

    def put_backfill(self, backfill: Backfill) -> None:
        """Record a request; one of the same stream, start and end takes the place of the one before."""
        ...

    def drop_backfill(self, backfill: Backfill) -> None:
        """Take a request back; nothing happens if there is none."""
        ...

    def horizon(self, stream: str) -> datetime | None:
        """An instant before which every recorded period is deleted; None while none is known. May lag behind."""
        ...

    def set_horizon(self, stream: str, at: datetime) -> None:
        """Remember that every period that ended by then is deleted."""
        ...

    def acquire(self, lease: str, owner: str, now: datetime, length: timedelta) -> bool:
        """Take a named lease until ``now + length``; False while another owner's has not run out."""
        ...

    def release(self, lease: str, owner: str) -> None:
        """Give a lease back; nothing happens if the owner no longer holds it."""
        ...


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table to create. Units are None for on-demand tables; an index gets as many as the table, if ``index_units`` has none.

    ``warm`` and ``most`` are write and read units: the throughput to be ready for, and what an on-demand table may take.
    ``encryption`` is "aws-owned", "aws-managed" or a key's ARN, ``stream`` what its change stream shows, or "none". A table that
    is not ``sorted`` has a partition key alone.
    """

    name: str
    write: int | None
    read: int | None
    table_class: TableClass
    tags: Mapping[str, str]
    indexes: Sequence[Index] = ()
    protected: bool = False
    index_units: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    warm: tuple[int, int] | None = None
    most: tuple[int, int] | None = None
    encryption: str = "aws-owned"
    stream: str = "none"
    sorted: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table as DynamoDB describes it. ``status`` is DynamoDB's word; size and count are up to six hours old.

    ``index_units`` are the provisioned write and read units of each index by name; empty for an on-demand table.
    """

    name: str
    status: str
    write: int | None
    read: int | None
    table_class: TableClass
    decreases_today: int = 0
    last_decrease: datetime | None = None
    size_bytes: int = 0
    item_count: int = 0
    index_units: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    protected: bool = False

    @property
    def on_demand(self) -> bool:
        return self.write is None

    @property
    def seen(self) -> Seen | None:
        """What to remember of it; None while it changes."""
        if self.status != "ACTIVE":
            return None
        return Seen(self.write, self.read, self.table_class, tuple(sorted(self.index_units.items())))


class Tables(Protocol):
    """DynamoDB's control plane. Each call changes one concern of one table, as UpdateTable asks."""

    def describe(self, name: str) -> Table | None:
        """The table as it is now; None if there is none."""
        ...

    def tags(self, name: str) -> Mapping[str, str]:
        """The table's tags; TableMissing if there is none."""
        ...

    def create(self, spec: TableSpec) -> bool:
        """Ask for a table; False if one of this name exists already. Does not wait."""
        ...

    def set_capacity(
        self,
        name: str,
        write: int | None,
        read: int | None,
        *,
        itself: bool = True,
        indexes: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        """Set provisioned units, or on-demand billing if both are None. Does not wait.

        The units go to the table ``itself`` unless it has them: what would not change is refused. ``indexes`` get their own.
        """
        ...

    def set_class(self, name: str, table_class: TableClass) -> None:
        """Set the table class. Does not wait."""
        ...

    def set_protection(self, name: str, protected: bool) -> None:
        """Set deletion protection. Does not wait."""
        ...

    def enable_recovery(self, name: str) -> None:
        """Turn point-in-time recovery on; nothing happens if it is on."""
        ...

    def delete(self, name: str) -> None:
        """Ask for the table's deletion; nothing happens if there is none. Does not wait."""
        ...


class Scaling(Protocol):
    """Application Auto Scaling. Both calls may be repeated."""

    def register(self, table: str, indexes: Sequence[str], policy: Autoscaling) -> None:
        """Let the units of a table and its indexes follow the traffic."""
        ...

    def deregister(self, table: str, indexes: Sequence[str]) -> None:
        """Leave the units alone from now on; nothing happens if they are."""
        ...


class TableRefused(Exception):
    """DynamoDB refused a change of a table. ``transient``: the same change may succeed later, unchanged."""

    def __init__(self, message: str, *, transient: bool) -> None:
        self.transient = transient
        super().__init__(message)


class Blob(msgspec.Struct, frozen=True, gc=False):
    """An object on its way to the bucket. ``owner`` is the key of the item that it belongs to."""

    key: str
    body: bytes
    owner: Key


class Put(msgspec.Struct, frozen=True, gc=False):
    """An item on its way to a table. ``parts`` and ``blob`` are what it refers to, and are written before it.

    A part's key is its partition key alone.
    """

    table: str
    item: Item
    parts: tuple[Put, ...] = ()
    blob: Blob | None = None

    @property
    def key(self) -> Key:
        return Key(self.item["pk"], self.item.get("sk", ""))

    @property
    def place(self) -> tuple[str, str, str]:
        """Table and key: two puts of one place are one item."""
        return self.table, self.item["pk"], self.item.get("sk", "")


# When an item may be put: only if there is none, if there is none that was accepted later, or if there is this version of it.
Guard = Literal["absent", "newer"] | int


class Guarded(NamedTuple):
    """A put and its condition, if it has one."""

    put: Put
    guard: Guard | None = None


class Transacted(Enum):
    """What became of a transaction: done, or refused by the catalog, or by what the tables hold."""

    DONE = "done"
    FENCED = "fenced"
    HELD = "held"


@dataclass(slots=True)
class Written:
    """What became of some puts: those not written, why, and the write units that the others consumed.

    ``reasons`` counts why requests were throttled, in DynamoDB's words. ``held`` are puts whose condition did not hold, and the
    items that are there instead; they count as written.
    """

    unwritten: list[Put] = field(default_factory=list)
    units: float = 0.0
    throttled: int = 0
    missing_tables: set[str] = field(default_factory=set)
    reasons: Counter[str] = field(default_factory=Counter)
    held: list[tuple[Put, Item]] = field(default_factory=list)

    def add(self, other: Written) -> None:
        """Take into account what became of others."""
        self.unwritten += other.unwritten
        self.units += other.units
        self.throttled += other.throttled
        self.missing_tables |= other.missing_tables
        self.reasons += other.reasons
        self.held += other.held


@dataclass(frozen=True, slots=True)
class KeyRange:
    """A range of sort keys in one partition of one table or index: ``low <= sk <= high``, both inclusive.

    ``after`` (within the range) is where an earlier page ended: only what follows it, in the direction asked, is read.
    """

    table: str
    pk: str
    low: str
    high: str
    after: str | None = None
    index: Index | None = None


class Asked(NamedTuple):
    """A range, and how many of its items are asked for."""

    keys: KeyRange
    limit: int


@dataclass(frozen=True, slots=True)
class Page:
    """A page of items in order; ``more`` tells whether the range goes on after it."""

    items: Sequence[Item]
    more: bool
    units: float = 0.0


class EventStore(Protocol):
    """DynamoDB's data plane over period tables."""

    def write(self, puts: Sequence[Put]) -> Written:
        """Try each put once. Keys must differ. A missing table or throttling leaves puts unwritten; it never raises."""
        ...

    def write_each(self, puts: Sequence[Put], guard: Guard) -> Written:
        """Try each put once, on its condition and in a request of its own; it never raises."""
        ...

    def transact(self, puts: Sequence[Guarded], entry: Entry | None = None) -> Transacted:
        """Write all of these or none and, if an entry is given, only while the catalog says that it is writable.

        TableMissing, or StoreUnavailable if it may be done or not.
        """
        ...

    def query(self, keys: KeyRange, *, limit: int, ascending: bool, consistent: bool = False) -> Page:
        """The first ``limit`` items of a range in that direction; TableMissing if there is no such table.

        To go on, ask again ``after`` the last item: sort keys are unique within a partition.
        """
        ...

    def query_many(
        self, asked: Sequence[Asked], *, ascending: bool, consistent: bool = False, quick: bool = False
    ) -> Sequence[Page | None]:
        """The same of several ranges at once, None for those of which there is no table.

        A store may give ``quick`` items of plain events, which have their data as JSON text under ``json`` and nothing else
        besides their key.
        """
        ...

    def get(self, table: str, key: Key) -> Item | None:
        """One item, or None; TableMissing if there is no such table."""
        ...

    def get_many(self, table: str, keys: Sequence[Key]) -> Mapping[Key, Item]:
        """The items of these keys, strongly consistent, as far as they are there; TableMissing if there is no such table."""
        ...

    def get_parts(self, table: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        """The bodies of these parts, strongly consistent, as far as they are there; TableMissing if there is no such table."""
        ...


class Values(Protocol):
    """The bucket of values that are too large for a table or a message."""

    def put(self, blob: Blob) -> bool:
        """Keep an object; False if it may not have been kept."""
        ...

    def get(self, key: str) -> bytes | None:
        """An object's body; None if there is none."""
        ...


class Compressor(Protocol):
    """Makes values smaller, and whole again."""

    def compress(self, value: bytes) -> bytes: ...
    def expand(self, value: bytes) -> bytes: ...


class Overflow(Protocol):
    """The durable queue for what DynamoDB would not take in time."""

    def send(self, stream: str, events: Sequence[Event], at: int) -> Sequence[Event]:
        """Queue events that were accepted at an instant, in epoch milliseconds; returns those that could not be queued."""
        ...


class Archiver(Protocol):
    """Archives one period: writes, reads back, compares."""

    def archive(self, stream: str, label: str, *, within: float) -> None:
        """Archive the period and mark the catalog, waiting at most ``within`` seconds. Safe to call again at any time.

        ArchiveFailed says why not; ArchiveBusy that it is still under way.
        """
        ...


@dataclass(frozen=True, slots=True)
class ArchiveRange:
    """What to read of an archived period: a range of sort keys as in KeyRange, of one series if one is given.

    With ``versions`` the earlier versions of each event follow it.
    """

    manifest: str
    low: str
    high: str
    series: str | None = None
    after: str | None = None
    versions: bool = False


class Version(NamedTuple):
    """Which version an event is, counted from 1, and when it was accepted, in epoch milliseconds."""

    number: int
    at: int
    newest: bool


@dataclass(frozen=True, slots=True)
class ArchivePage:
    """A page of archived events in the order of their sort keys; ``more`` tells whether the range goes on after it.

    ``versions`` are the versions of the events, one by one, if they were asked for.
    """

    events: Sequence[Event]
    more: bool
    versions: Sequence[Version] | None = None


class ArchiveReader(Protocol):
    """Reads archived periods."""

    def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        """The first events of a range; fewer than ``limit`` with ``more`` set if an answer could not hold them all.

        ArchiveFailed if the archive is missing or damaged.
        """
        ...
