"""Indexes: the keys of an event by its attributes. Like every key, they are calculated only from the event."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from tidetable.events import Event, Item, JsonObject
from tidetable.layout.hierarchy import join_levels, make_level, render_value
from tidetable.layout.suffix import compute_suffix, compute_suffixes
from tidetable.layout.text import escape
from tidetable.times import to_text
from tidetable.values import count_item_bytes

# AWS: an index's partition key has at most 2,048 bytes; the suffix and its separator take a few.
MAX_VALUE_BYTES = 2_000
# AWS: a sort key has at most 1,024 bytes, also the sort key of an index.
MAX_SORT_BYTES = 1_024
# The value of `partition_by` for an index over all events, and of `sort_by` for an index in the order of time.
WHOLE, TIME = "*", "time"
# The prefixes of the attributes that an item has for its indexes.
ATTRIBUTES = ("pk_", "sk_", "in_")


class Index(msgspec.Struct, frozen=True):
    """A sparse secondary index of a period table, over a field of ``data`` such as ``status`` or ``place.state``.

    An event is not in the index if the field is missing, or is a list, an object or null. Its keys are the attributes
    ``pk_<name> = <value>#<suffix>`` and ``sk_<name> = <time>#<series>#<id>``. If the index is sorted by a field, its
    sort key is that field's number, and an event without this number is not in the index. ``partition_by`` is ``*`` if
    all events are one logical partition.

    With ``kind``, several kinds of events share the index, and keys begin with the kind. ``kinds`` are pairs: a value
    of the field ``kind``, and the field by which events of this kind are indexed. ``project`` is None if the index
    holds everything; otherwise it names the fields of data that it holds, in ``in_<name>``. A ``replica`` has the
    table's own keys, and needs no attributes.

    With ``levels`` the index is sorted by the joined values of these fields (``tidetable.layout.hierarchy``), then by
    time: ``sk_<name> = <level>…<time>#<series>#<id>``. An event without the first field is not in the index. An event
    without another of the fields is in the index, because a query by the first field alone must find it. A ``local``
    index has the table's partitions in another order: it has no partition key of its own.
    """

    name: str
    partition_by: str = ""
    shards: int = 1
    sort_by: str = TIME
    project: tuple[str, ...] | None = None
    kind: str = ""
    kinds: tuple[tuple[str, str], ...] = ()
    replica: bool = False
    levels: tuple[str, ...] = ()
    local: bool = False

    @property
    def pk(self) -> str:
        """The attribute that holds the partition key."""
        return "pk" if self.replica or self.local else f"pk_{self.name}"

    @property
    def sk(self) -> str:
        """The attribute that holds the sort key."""
        return "sk" if self.replica else f"sk_{self.name}"

    @property
    def copy(self) -> str:
        """The attribute that holds the projected fields, if ``project`` names them."""
        return f"in_{self.name}"

    @property
    def timely(self) -> bool:
        """True if the index is in the order of time, by keys of its own."""
        return self.sort_by == TIME and not self.replica and not self.levels

    @property
    def ranks(self) -> bool:
        """True if the index is sorted by a number."""
        return self.sort_by != TIME

    @property
    def has_column(self) -> bool:
        """True if the files of an archive have a column for its partition key.

        The keys of other indexes are those of the table, or stay among an item's other attributes.
        """
        return not (self.replica or self.local or self.levels)

    def holds(self, fields: Iterable[str]) -> bool:
        """True if the index holds these fields of data."""
        return self.project is None or set(fields) <= set(self.project)

    def name_partition(self, value: str, kind: str = "") -> str:
        """Return the logical partition of a value; ``kind`` is the kind of events, if the index has kinds."""
        text = WHOLE if self.partition_by == WHOLE else escape(value)
        return f"{escape(kind)}#{text}" if self.kind else text

    def make_partition_key(self, value: str, suffix: int, kind: str = "") -> str:
        return f"{self.name_partition(value, kind)}#{suffix}"

    def list_suffixes(self, ids: Sequence[str]) -> Sequence[int]:
        """List the suffixes that can hold events of these ids; without ids, all suffixes."""
        return compute_suffixes(ids, self.shards) if ids else range(self.shards)

    def make_attributes(self, event: Event) -> Item:
        """Make the attributes that the event's item has for this index."""
        partition = self._find_partition(event.data)
        if partition is None or len(partition.encode()) > MAX_VALUE_BYTES:
            return {}
        sort_value = self._make_sort_value(event)
        if sort_value is None or (self.levels and len(sort_value.encode()) > MAX_SORT_BYTES):
            return {}
        item: Item = {self.sk: sort_value}
        if not self.local:
            item[self.pk] = f"{partition}#{compute_suffix(event.id, self.shards)}"
        if self.project:
            item[self.copy] = {name: event.data[name] for name in self.project if name in event.data}
        return item

    def _make_sort_value(self, event: Event) -> Any:
        """Make the event's sort key in the index; None if the event is not in the index."""
        if self.ranks:
            return find_number(event.data, self.sort_by)
        order = f"{to_text(event.time)}#{escape(event.series)}#{escape(event.id)}"
        if not self.levels:
            return order
        levels = [make_level(find_value(event.data, field)) for field in self.levels]
        return join_levels(levels) + order if levels[0] else None

    def count_entry_bytes(self, item: Item, size: int) -> int:
        """Count the bytes of the entry that this index has of an item of ``size`` bytes; 0 if it has none."""
        if self.sk not in item:
            return 0
        if self.project is None:
            return size
        names = ("pk", "sk", self.pk, self.sk, self.copy)
        return count_item_bytes({name: item[name] for name in names if name in item})

    def find_problem(self, event: Event) -> str | None:
        """Return the reason why an event that has the field cannot be indexed; None if there is no reason."""
        partition = self._find_partition(event.data)
        if partition is None:
            return None
        if len(partition.encode()) > MAX_VALUE_BYTES:
            return f"data.{self._find_field(event.data)} is indexed, and takes more than {MAX_VALUE_BYTES} bytes"
        size = len((self._make_sort_value(event) or "").encode()) if self.levels else 0
        if size <= MAX_SORT_BYTES:
            return None
        fields = ", ".join(f"data.{field}" for field in self.levels)
        return (
            f"{fields}: the index {self.name} joins them with time, series and id to a key of {size} bytes, and DynamoDB takes"
            f" {MAX_SORT_BYTES}: shorten them"
        )

    def _find_field(self, data: JsonObject) -> str | None:
        """Find the field by which an event is indexed; None if the index does not have the event's kind."""
        return dict(self.kinds).get(render_value(find_value(data, self.kind)) or "") if self.kind else self.partition_by

    def _find_partition(self, data: JsonObject) -> str | None:
        """Find the event's logical partition; None if the event is not in the index."""
        if self.replica:
            return None
        if self.partition_by == WHOLE or self.local:
            return WHOLE
        field = self._find_field(data)
        text = None if field is None else render_value(find_value(data, field))
        if text is None:
            return None
        return self.name_partition(text, render_value(find_value(data, self.kind)) or "" if self.kind else "")


def find_value(data: JsonObject, path: str) -> Any:
    """Find a field's value by its path, such as ``place.state``; None if the field is missing."""
    value: Any = data
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def find_plain(data: JsonObject, path: str) -> Any:
    """Find a field's plain value by its path: a text, a number or a boolean; None for everything else."""
    value = find_value(data, path)
    return None if isinstance(value, dict | list) else value


def find_number(data: JsonObject, path: str) -> int | Decimal | None:
    """Find a field's number by its path; None if the field is missing or is not a number."""
    value = find_value(data, path)
    return value if isinstance(value, int | Decimal) and not isinstance(value, bool) else None
