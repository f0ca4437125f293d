"""Indexes: the key of an event by its attributes, from the event alone like every key."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tidetable.events import Event, Item, JsonObject
from tidetable.keys.suffix import suffix_of
from tidetable.keys.text import escape
from tidetable.times import to_text

# AWS: an index's partition key has at most 2,048 bytes; the suffix and its separator take a few.
MAX_VALUE_BYTES = 2_000
# What `partition_by` says of an index over all events, and `sort_by` of one in the order of time.
WHOLE, TIME = "*", "time"
# What the names of the attributes begin with that an item has for its indexes.
ATTRIBUTES = ("pk_", "sk_", "in_")


@dataclass(frozen=True, slots=True)
class Index:
    """A sparse global secondary index of a period table, over a field of ``data`` such as ``status`` or ``place.state``.

    An event without the field, or with a list, an object or null there, is not in the index. Its key attributes are
    ``pk_<name> = <value>#<suffix>`` and ``sk_<name> = <time>#<series>#<id>`` or, sorted by a field, that field's number:
    events without one are not in the index, either. ``partition_by`` is ``*`` if all events are one logical partition.

    With ``kind``, several kinds of events share the index: ``kinds`` are pairs of a value of the field ``kind`` and the field
    that events of this kind are found by, and keys begin with the kind. ``project`` is None if the index holds everything;
    else the fields of data that it holds, in ``in_<name>``. A ``replica`` has the table's own keys, and no attributes.
    """

    name: str
    partition_by: str = ""
    shards: int = 1
    sort_by: str = TIME
    project: tuple[str, ...] | None = None
    kind: str = ""
    kinds: tuple[tuple[str, str], ...] = ()
    replica: bool = False

    @property
    def pk(self) -> str:
        """The attribute that holds the partition key."""
        return "pk" if self.replica else f"pk_{self.name}"

    @property
    def sk(self) -> str:
        """The attribute that holds the sort key."""
        return "sk" if self.replica else f"sk_{self.name}"

    @property
    def copy(self) -> str:
        """The attribute that holds the projected fields, if they are named."""
        return f"in_{self.name}"

    @property
    def timely(self) -> bool:
        """Whether it is in the order of time by keys of its own."""
        return self.sort_by == TIME and not self.replica

    @property
    def ranks(self) -> bool:
        """Whether it is sorted by a number."""
        return self.sort_by != TIME

    def holds(self, fields: Iterable[str]) -> bool:
        """Whether it holds these fields of data."""
        return self.project is None or set(fields) <= set(self.project)

    def logical(self, value: str, kind: str = "") -> str:
        """The logical partition of a value, of a kind of events if the index has those."""
        text = WHOLE if self.partition_by == WHOLE else escape(value)
        return f"{escape(kind)}#{text}" if self.kind else text

    def partition(self, value: str, suffix: int, kind: str = "") -> str:
        """The partition key of a value and a suffix."""
        return f"{self.logical(value, kind)}#{suffix}"

    def attributes_of(self, event: Event) -> Item:
        """What the event's item carries for this index."""
        found = None if self.replica else self._found(event.data)
        if found is None or len(found.encode()) > MAX_VALUE_BYTES:
            return {}
        place: Any = f"{to_text(event.time)}#{escape(event.series)}#{escape(event.id)}"
        if self.ranks:
            place = number_at(event.data, self.sort_by)
            if place is None:
                return {}
        item: Item = {self.pk: f"{found}#{suffix_of(event.id, self.shards)}", self.sk: place}
        if self.project:
            item[self.copy] = {name: event.data[name] for name in self.project if name in event.data}
        return item

    def problem(self, event: Event) -> str | None:
        """Why the event cannot be indexed although it has the field; None if it can, or need not."""
        found = None if self.replica else self._found(event.data)
        if found is None or len(found.encode()) <= MAX_VALUE_BYTES:
            return None
        return f"data.{self._field(event.data)} is indexed, and takes more than {MAX_VALUE_BYTES} bytes"

    def _field(self, data: JsonObject) -> str | None:
        """The field that an event is found by; None if it is of no kind that is."""
        return dict(self.kinds).get(value_text(data, self.kind) or "") if self.kind else self.partition_by

    def _found(self, data: JsonObject) -> str | None:
        """The event's logical partition; None if the event is not in the index."""
        if self.partition_by == WHOLE:
            return WHOLE
        field = self._field(data)
        text = None if field is None else value_text(data, field)
        return None if text is None else self.logical(text, value_text(data, self.kind) or "" if self.kind else "")


def value_at(data: JsonObject, path: str) -> Any:
    """What a field holds, given by its path such as ``place.state``; None if there is nothing."""
    value: Any = data
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def number_at(data: JsonObject, path: str) -> int | Decimal | None:
    """A field's number; None if it has none."""
    value = value_at(data, path)
    return value if isinstance(value, int | Decimal) and not isinstance(value, bool) else None


def value_text(data: JsonObject, path: str) -> str | None:
    """A field's value as text: numbers without needless zeros, truth as true or false; None if it is no plain value."""
    value = value_at(data, path)
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | Decimal():
            return number_text(value)
    return None


def number_text(number: int | Decimal) -> str:
    """A number as it stands in keys: no exponent, no needless zeros."""
    plain = format(Decimal(number), "f") if number else "0"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain
