"""The layout of a period table: the rules that calculate an event's key from the event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from tidetable.events import Event, Item
from tidetable.layout.index import Index
from tidetable.layout.suffix import compute_each, compute_suffix, compute_suffixes
from tidetable.layout.text import escape, escape_all, unescape
from tidetable.times import to_text
from tidetable.values import MAX_ITEM_BYTES, count_item_bytes

PartitionBy = Literal["time", "series"]
ShardBy = Literal["id", "series"]
# The prefix of the sort key of an event's newest version, if the layout keeps every version.
NEWEST = "v0#"
# A kept version may still grow by this number of bytes: for its number, and the digests of the versions before it.
GROWTH = 1_024
# A second version of N KB is written by one transaction, which writes both items under one partition key: 4 N units.
# Before that, the put whose condition failed took N units. A partition takes 1,000 units per second, so a version of
# more than 200 KB would never be written. Entries in local indexes are written by the transaction, too, at twice their
# size: an item of N KB that has S KB with its entries takes 3 N + 2 S units.
_VERSION_BYTES = 100_000
# The limit of an item whose data is outside: it keeps its keys, and the copies of fields for indexes.
_VERSION_BARE_BYTES = 160_000


class Key(NamedTuple):
    """A primary key: partition key and sort key."""

    pk: str
    sk: str

    @property
    def shared(self) -> Key:
        """The key without a version: all versions of an event share it."""
        return Key(self.pk, _drop_version(self.sk))


class Packing(NamedTuple):
    """The packing of a period's events.

    The events of an item span less than ``span`` seconds and take at most ``max_bytes``. ``max_bytes`` counts the
    stored bytes, which are compressed.
    """

    span: int
    max_bytes: int


class Layout(msgspec.Struct, frozen=True):
    """A period table's key schema, frozen when the table is created.

    ``bucket`` is the slice of time that forms a logical partition, in whole seconds that divide the period; it is 0 if
    the layout is partitioned by series. ``shards`` is the number of suffixes of each logical partition. ``versioned``
    keeps every version of an event, the newest under a sort key that begins with ``v0#``. ``parts`` says that the table
    has a second table beside it, for large values. With ``pack``, an item holds many events. If ``shard_by`` is the
    series, all events of a series are in one suffix; otherwise every suffix may hold any event of its logical
    partition. An event that is too large for a pack is an item with the keys of this layout.

    With ``shard_until``, a suffix follows from the head of a series, the part before this text: all series with the same
    head are in one suffix. A series without this text is its own head.
    """

    partition_by: PartitionBy
    shards: int
    shard_by: ShardBy
    bucket: int = 0
    indexes: tuple[Index, ...] = ()
    versioned: bool = False
    parts: bool = False
    pack: Packing | None = None
    shard_until: str = ""

    def make_key(self, event: Event) -> Key:
        """Make the key of an event in its period's table. The event need not be stored."""
        pks, sks = self.make_keys([to_text(event.time)], [event.series], [event.id])
        return Key(pks[0], sks[0])

    def make_keys(self, times: Sequence[str], series: Sequence[str], ids: Sequence[str]) -> tuple[list[str], list[str]]:
        """Make the partition keys and the sort keys of events, from columns; times are texts."""
        owners, names = escape_all(series), escape_all(ids)
        stamps = [NEWEST + time for time in times] if self.versioned else times
        if self.partition_by == "series":
            logical, sks = owners, list(map("#".join, zip(stamps, names, strict=True)))
        else:
            # The part of a time that decides its bucket: the minute, or the second if a bucket is not whole minutes.
            starts = [time[:19] if self.bucket % 60 else time[:16] for time in times]
            bucket_of = {start: _name_bucket(start, self.bucket) for start in set(starts)}
            logical = [bucket_of[start] for start in starts]
            sks = list(map("#".join, zip(stamps, owners, names, strict=True)))
        if self.shards == 1:
            return [f"{name}#0" for name in logical], sks
        suffixes = compute_each(ids if self.shard_by == "id" else self._list_heads(series), self.shards)
        return [f"{name}#{suffix}" for name, suffix in zip(logical, suffixes, strict=True)], sks

    def make_partition_key(self, time: datetime, series: str, suffix: int) -> str:
        """Return the partition key of a suffix and of the bucket that holds the time, or of the series."""
        return f"{self.name_partition(time, series)}#{suffix}"

    def name_partition(self, time: datetime, series: str) -> str:
        """Return the logical partition: the bucket that holds the time, or the series."""
        return to_text(self.find_bucket(time)) if self.partition_by == "time" else escape(series)

    def make_sort_key(self, time: datetime, series: str, id: str) -> str:
        """Return the sort key, which also decides the event's position in every answer."""
        if self.partition_by == "time":
            return f"{self.make_edge(time)}#{escape(series)}#{escape(id)}"
        return f"{self.make_edge(time)}#{escape(id)}"

    def find_ordering_layout(self, series: str | None) -> Layout:
        """Return the layout whose sort keys order the events of a series.

        If ``series`` is None, the sort keys order the events of all series, and contain the series.
        """
        return self if series is not None or self.partition_by == "time" else replace(self, partition_by="time")

    def make_edge(self, time: datetime) -> str:
        """Return the text that sorts before all sort keys of a time, and after those of earlier times."""
        return NEWEST + to_text(time) if self.versioned else to_text(time)

    def is_newest(self, sk: str) -> bool:
        """True if the item with this sort key is the newest state of its event, which queries show."""
        return not self.versioned or sk.startswith(NEWEST)

    def name_newest(self, sk: str) -> str:
        """Return the sort key of the newest state of the event that has this sort key."""
        return NEWEST + _drop_version(sk) if self.versioned else sk

    def find_place(self, sk: str) -> str:
        """Return what orders an event in time, from its sort key or an edge: the text without a version."""
        return _drop_version(sk) if self.versioned else sk

    def list_earlier_keys(self, item: Item) -> list[Key]:
        """List the keys of an event's earlier versions, latest first, from the item of a version."""
        numbers = range(int(item.get("version", 1)) - 1, 0, -1) if self.versioned else ()
        return [Key(item["pk"], f"v{number}#{_drop_version(item['sk'])}") for number in numbers]

    @property
    def index_order(self) -> Layout:
        """The layout whose sort keys are those of indexes: all are by time, and hold only the newest versions."""
        return replace(self, partition_by="time", versioned=False)

    @property
    def is_ordered_by_time(self) -> bool:
        """True if a logical partition is a slice of time, and the sort keys of all its items are in the order of time."""
        return self.partition_by == "time" and not self.versioned

    def find_bucket(self, time: datetime) -> datetime:
        """Find the start of the bucket that holds the time.

        Buckets are counted from midnight UTC, and a bucket divides a day; in periods of an hour it divides an hour. So
        a bucket never belongs to two periods.
        """
        midnight = time.replace(hour=0, minute=0, second=0, microsecond=0)
        return midnight + timedelta(seconds=(time - midnight) // timedelta(seconds=self.bucket) * self.bucket)

    def list_buckets(self, start: datetime, end: datetime) -> list[str]:
        """Return the logical partitions that overlap ``[start, end)`` in a table by time, the oldest first."""
        size, first = timedelta(seconds=self.bucket), self.find_bucket(start)
        return [to_text(first + number * size) for number in range(-(-(end - first) // size))]

    def compute_suffix(self, series: str, id: str) -> int:
        """Compute the suffix of an event's partition key."""
        return compute_suffix(id if self.shard_by == "id" else self._list_heads([series])[0], self.shards)

    def compute_series_suffixes(self, series: Sequence[str]) -> list[int]:
        """Compute the suffixes of series, if suffixes follow from the series; a series that comes again costs no hash."""
        names = list(dict.fromkeys(series))
        suffix_of = dict(zip(names, compute_each(self._list_heads(names), self.shards), strict=True))
        return list(map(suffix_of.__getitem__, series))

    def list_suffixes(
        self, series: Sequence[str] = (), ids: Sequence[str] = (), series_prefix: str = ""
    ) -> Sequence[int]:
        """List the suffixes that can hold events of these series and ids. No series or no ids means: of any.

        Every way to read a table asks here. A suffix is a hash of a name, so the beginning of a series names a suffix
        only if it holds a whole head.
        """
        if not series and self.shard_until and self.shard_until in series_prefix:
            series = [series_prefix]
        values = self._list_heads(series) if self.shard_by == "series" else () if self.pack is not None else ids
        return compute_suffixes(values, self.shards) if values else range(self.shards)

    def _list_heads(self, series: Sequence[str]) -> Sequence[str]:
        """List the texts of which the suffixes of series are calculated."""
        until = self.shard_until
        return [name.partition(until)[0] for name in series] if until else series

    def make_item(self, event: Event, at: int = 0) -> Item:
        """Make the item of an event.

        The key holds series, time and id, so the item stores only ``data`` and the keys of indexes. ``at`` is when it was
        accepted, in epoch milliseconds.
        """
        item: Item = {**self.make_key(event)._asdict(), "at": at, "data": event.data}
        for index in self.indexes:
            item |= index.make_attributes(event)
        return item

    @property
    def measure(self) -> Callable[[Item], int]:
        """The function that counts an item's bytes as DynamoDB does for its limit of 400 KB.

        AWS: the entries of an item in local indexes count, too.
        """
        return self._count_bytes if self.local_indexes else count_item_bytes

    def _count_bytes(self, item: Item) -> int:
        size = count_item_bytes(item)
        return size + self.count_entry_bytes(item, size)

    def count_entry_bytes(self, item: Item, size: int) -> int:
        """Count the bytes of the entries of an item of ``size`` bytes in all local indexes."""
        return sum(index.count_entry_bytes(item, size) for index in self.local_indexes)

    @property
    def global_indexes(self) -> tuple[Index, ...]:
        """The indexes that have partitions and units of their own."""
        return tuple(index for index in self.indexes if not index.local)

    @property
    def local_indexes(self) -> tuple[Index, ...]:
        """The indexes that hold the table's partitions in another order."""
        return tuple(index for index in self.indexes if index.local)

    @property
    def replica(self) -> Index | None:
        """The index that has the table's own keys; None if the layout has no such index."""
        return next((index for index in self.indexes if index.replica), None)

    def read_names(self, item: Item) -> tuple[str, str, str]:
        return self.parse_names(item["pk"], item["sk"])

    def parse_names(self, pk: str, sk: str) -> tuple[str, str, str]:
        """Return the text of the time, the series and the id of an event, from a partition key and a sort key."""
        names = sk.split("#")
        if self.versioned:
            del names[0]
        if self.partition_by == "time":
            time, series, id = names
        else:
            time, id = names
            # In the ref of an event in a pack, the pack's name follows after the suffix.
            series = pk.partition("#")[0]
        if "%" in series or "%" in id:
            return time, unescape(series), unescape(id)
        return time, series, id

    def parse_columns(self, pks: Iterable[str], sks: Sequence[str], together: str) -> Sequence[list[str]]:
        """Return the times, the series and the ids of several events; ``together`` is their sort keys joined by ``#``."""
        if self.partition_by == "time" and not self.versioned and "%" not in together:
            # Names without escapes are split for all events at once.
            names = together.split("#")
            return names[0::3], names[1::3], names[2::3]
        named = list(map(self.parse_names, pks, sks))
        return [[name[column] for name in named] for column in range(3)]


class ItemSize(NamedTuple):
    """The bytes of an item, and its bytes together with its entries in local indexes."""

    layout: Layout
    bytes: int
    total: int

    @classmethod
    def of(cls, item: Item, layout: Layout) -> ItemSize:
        size = count_item_bytes(item)
        return cls(layout, size, size + layout.count_entry_bytes(item, size))

    def is_within(self, *, bare: bool = False) -> bool:
        """True if the item may be written; ``bare`` items have their data outside."""
        if not self.layout.versioned:
            return self.total <= MAX_ITEM_BYTES
        return 3 * self.bytes + 2 * self.total <= 5 * (_VERSION_BARE_BYTES if bare else _VERSION_BYTES)

    def fits_item(self, growth: int = 0) -> bool:
        """True for a version that would fit an item, also after it has grown by so many bytes."""
        return self.layout.versioned and self.total + growth <= MAX_ITEM_BYTES


def _drop_version(sk: str) -> str:
    return sk.partition("#")[2] if sk.startswith("v") else sk


@lru_cache(maxsize=4096)
def _name_bucket(start: str, bucket: int) -> str:
    """Return the start of the bucket of a minute or a second, as text. Many events share it, so it is cached."""
    seconds = (int(start[11:13]) * 3600 + int(start[14:16]) * 60 + int(start[17:] or 0)) // bucket * bucket
    return f"{start[:10]}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.000000Z"
