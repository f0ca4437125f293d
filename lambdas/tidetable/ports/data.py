"""The ports of DynamoDB's data plane, of the bucket for values that are too large for DynamoDB, and of the overflow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from itertools import compress
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from tidetable.catalog import Entry
from tidetable.conditions import Condition
from tidetable.events import Event, Item
from tidetable.exact_json import decode_json
from tidetable.layout import Index, Key

# AWS: BatchGetItem takes 100 keys.
GET_ITEMS = 100

# What a put writes: its table and its key and, for a version, the digest of its data.
Slot = tuple[str, ...]


class Blob(msgspec.Struct, frozen=True, gc=False):
    """An object to write to the bucket. ``owner`` is the key of the item that it belongs to."""

    key: str
    body: bytes
    owner: Key


class Put(msgspec.Struct, frozen=True, gc=False):
    """An item to write, after its data that is kept ``outside`` of it, in other tables or in the bucket."""

    table: str
    item: Item
    outside: tuple[Put | Blob, ...] = ()

    @property
    def key(self) -> Key:
        return Key(self.item["pk"], self.item.get("sk", ""))

    @property
    def place(self) -> tuple[str, str, str]:
        """Table and key: two puts with the same place write the same item."""
        return self.table, self.item["pk"], self.item.get("sk", "")

    @property
    def slot(self) -> Slot:
        """The place; for a version, also the digest of its data. Two puts of one slot are one write."""
        return (*self.place, self.item["digest"]) if "version" in self.item else self.place


# The condition of a put: the table has no item of this key ("absent"), it has no item that was accepted later
# ("newer"), or its item has this version (a number).
Guard = Literal["absent", "newer"] | int


class Guarded(NamedTuple):
    """A put and its condition, if it has one."""

    put: Put
    guard: Guard | None = None


class Transacted(Enum):
    """The outcome of a transaction: done, or refused by the catalog, or by the tables' items."""

    DONE = "done"
    FENCED = "fenced"
    CONFLICT = "conflict"


class Written(msgspec.Struct):
    """The outcome of some puts: the unwritten puts, the reasons, and the write units that the written puts consumed.

    ``throttles`` counts the throttled puts of each table, ``reasons`` counts the reasons for throttling, in DynamoDB's
    words. ``conflicts`` are puts whose condition did not hold, with the items that the table has instead; they count as
    written. ``full`` are the full item collections, by table and partition key. ``refused`` has DynamoDB's reasons for
    the slots whose items it refuses. The puts of both are unwritten, and no retry can write them. ``troubles`` has, by
    table, DynamoDB's last answer to a put that was not written.
    """

    unwritten: list[Put] = msgspec.field(default_factory=list)
    units: float = 0.0
    throttles: Counter[str] = msgspec.field(default_factory=Counter)
    missing_tables: set[str] = msgspec.field(default_factory=set)
    reasons: Counter[str] = msgspec.field(default_factory=Counter)
    conflicts: list[tuple[Put, Item]] = msgspec.field(default_factory=list)
    full: set[tuple[str, str]] = msgspec.field(default_factory=set)
    refused: dict[Slot, str] = msgspec.field(default_factory=dict)
    troubles: dict[str, str] = msgspec.field(default_factory=dict)

    def is_final(self, put: Put) -> bool:
        """True if no retry can write a put."""
        return self.is_full(put) or (bool(self.refused) and put.slot in self.refused)

    def is_full(self, put: Put) -> bool:
        """True if the item collection of a put is full."""
        return bool(self.full) and (put.table, put.item["pk"]) in self.full

    @property
    def throttled(self) -> int:
        return self.throttles.total()

    def add(self, other: Written) -> None:
        """Add the outcome of other puts."""
        self.unwritten += other.unwritten
        self.units += other.units
        self.throttles += other.throttles
        self.missing_tables |= other.missing_tables
        self.reasons += other.reasons
        self.conflicts += other.conflicts
        self.full |= other.full
        self.refused |= other.refused
        self.troubles |= other.troubles


class KeyRange(msgspec.Struct, frozen=True):
    """A range of sort keys in one partition of a table or an index: ``low <= sk <= high``.

    An edge is None if the range is open there. ``after`` (within the range) is the sort key of a query's
    position: only items after it, in the direction of the query, are read. ``start`` is the whole key of the item at
    which an earlier page ended. An event is answered only if its sort key in the table lies within
    ``times`` and it meets all ``conditions``. Conditions on data that is not in the item are not checked. With a
    ``prefix`` the range has only sort keys that begin with it. A pack whose oldest event is in ``skip_oldest`` is left out.
    """

    table: str
    pk: str
    low: str | Decimal | None
    high: str | Decimal | None
    after: str | None = None
    index: Index | None = None
    conditions: tuple[Condition, ...] = ()
    times: tuple[str, str] | None = None
    start: Item | None = None
    prefix: str = ""
    skip_oldest: tuple[str, str] | None = None


class RangeRead(NamedTuple):
    """A range, and the number of its items to read."""

    keys: KeyRange
    limit: int


class ItemColumns(NamedTuple):
    """Items in order, as columns: their partition keys, their sort keys, and their contents.

    The content of a plain event may be its data as JSON text, any other content is the item. An operation on a whole
    column costs a tenth of the same operation on each of its values.
    """

    pks: Sequence[str]
    sks: Sequence[str]
    contents: Sequence[str | Item]

    @classmethod
    def of(cls, items: Sequence[Item]) -> ItemColumns:
        return cls([item["pk"] for item in items], [item["sk"] for item in items], items)

    @property
    def are_text(self) -> bool:
        """True if all contents are the JSON text of plain events."""
        return set(map(type, self.contents)) <= {str}

    def first(self, count: int) -> ItemColumns:
        return ItemColumns(self.pks[:count], self.sks[:count], self.contents[:count])

    def where(self, chosen: Sequence[bool]) -> ItemColumns:
        pks, sks, contents = self
        return ItemColumns(list(compress(pks, chosen)), list(compress(sks, chosen)), list(compress(contents, chosen)))

    def items(self) -> list[Item]:
        """Return the items. The item of a plain event whose content is text has only the keys and the decoded data."""
        return [
            {"pk": pk, "sk": sk, "data": decode_json(content)} if isinstance(content, str) else content
            for pk, sk, content in zip(*self, strict=True)
        ]


class Page(msgspec.Struct, frozen=True):
    """A page of a range. ``more`` is True if the range goes on after the page.

    ``last`` is the key of the last item that was read, even if a filter left it out; ``read`` counts the items read.
    """

    columns: ItemColumns
    more: bool
    units: float = 0.0
    last: Item | None = None
    read: int = 0

    @property
    def items(self) -> Sequence[Item]:
        return self.columns.items()


class FieldPage(msgspec.Struct, frozen=True):
    """A page of a range, with only some fields of the events: their sort keys, and a column of values for each field.

    A value is a text, a Decimal, a boolean, or None if the field is missing or has another value. ``others`` are the
    items whose data is outside of the item, or compressed; they are not in the columns. The other members are as in
    ``Page``.
    """

    sks: Sequence[str]
    values: Sequence[Sequence[Any]]
    others: Sequence[Item]
    more: bool
    units: float = 0.0
    last: Item | None = None
    read: int = 0


class EventStore(Protocol):
    """DynamoDB's data plane over period tables."""

    def write(self, puts: Sequence[Put]) -> Written:
        """Try each put once. Keys must differ. A missing table or throttling leaves puts unwritten; it never raises."""

    def write_each(self, puts: Sequence[Put], guard: Guard) -> Written:
        """Try each put once, on its condition and in a request of its own; it never raises."""

    def transact(self, puts: Sequence[Guarded], entry: Entry | None = None, total: Written | None = None) -> Transacted:
        """Write all of these puts or none of them; add the write units that they consumed to ``total``.

        With an ``entry``, write only while the catalog says that it is writable. If it is retained, the catalog must
        still say so, and the same transaction marks the segments that the puts change. It raises TableMissing,
        CollectionFull, PutRefused, or StoreUnavailable. After StoreUnavailable, nobody knows if the puts were written.
        """

    def query_many(
        self,
        reads: Sequence[RangeRead],
        *,
        ascending: bool,
        consistent: bool = False,
        texts: bool = False,
        fields: Sequence[str] = (),
    ) -> Sequence[Page | None]:
        """Read the first items of several ranges, in one direction: a page per range, or None if its table is missing.

        The next page is of the same range with the ``start`` at the last key. With ``texts``, the data of plain events is
        JSON text, if the store can make the text directly. With ``fields``, which are paths, only these are fetched.
        """

    def query_fields(
        self, reads: Sequence[RangeRead], fields: Sequence[str], *, consistent: bool = False
    ) -> Sequence[FieldPage | Page | None]:
        """Read the first items of several ranges of tables in ascending order, as columns of these fields, which are paths:
        a page per range, or None if its table is missing. With the column ``KINDS`` (forms) it may have whole items.
        """

    def scan_partitions(self, table: str) -> Iterator[tuple[Sequence[str], float]]:
        """Yield all partition keys of a table, some repeatedly, with the consumed units; TableMissing, StoreUnavailable."""

    def get(self, table: str, key: Key) -> Item | None:
        """Read one item, or None; TableMissing if there is no such table."""

    def get_many(self, table: str, keys: Sequence[Key], *, consistent: bool = True) -> Mapping[Key, Item]:
        """Read the existing items of these keys; a key may be repeated. TableMissing if there is no such table."""


class Values(Protocol):
    """The bucket of values that are too large for a table or a message."""

    def put(self, blob: Blob) -> bool:
        """Store an object; False if it is not certain that the object was stored."""

    def get(self, key: str) -> bytes | None:
        """Read an object's body; None if there is no object."""


class Compressor(Protocol):
    """Compresses values, and decompresses them."""

    def compress(self, value: bytes) -> bytes: ...
    def expand(self, value: bytes) -> bytes: ...


class Overflow(Protocol):
    """The durable queue for events that DynamoDB did not accept in time."""

    def send(self, stream: str, events: Sequence[Event], at: int) -> Sequence[Event]:
        """Queue events that were accepted at an instant, in epoch milliseconds; returns the events that could not be queued."""

    def wake(self, stream: str, bodies: Sequence[str]) -> bool: ...  # False if any could not be queued


class DeadLetters(Protocol):
    """The queue of messages that cannot be written, with the reason beside each."""

    def bury(self, body: str, reason: str) -> bool:
        """Keep a message and the reason; False if it is not certain that the message was kept."""
