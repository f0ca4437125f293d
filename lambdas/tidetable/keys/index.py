"""Indexes: the key of an event by one of its attributes, from the event alone like every key."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tidetable.events import Event, Item, JsonObject
from tidetable.keys.suffix import suffix_of
from tidetable.keys.text import escape
from tidetable.times import to_text

# AWS: an index's partition key has at most 2,048 bytes; the suffix and its separator take a few.
MAX_VALUE_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class Index:
    """A sparse global secondary index of a period table over a field of ``data``, such as ``status`` or ``place.state``.

    An event without the field, or with a list, an object or null there, is not in the index. Its key attributes are
    ``pk_<name> = <value>#<suffix>`` and ``sk_<name> = <time>#<series>#<id>``.
    """

    name: str
    partition_by: str
    shards: int = 1

    @property
    def pk(self) -> str:
        """The attribute that holds the partition key."""
        return f"pk_{self.name}"

    @property
    def sk(self) -> str:
        """The attribute that holds the sort key."""
        return f"sk_{self.name}"

    def value_of(self, event: Event) -> str | None:
        """The event's value as it stands in the key; None if the event is not in the index."""
        text = value_text(event.data, self.partition_by)
        return text if text is not None and len(escape(text).encode()) <= MAX_VALUE_BYTES else None

    def attributes_of(self, event: Event) -> Item:
        """What the event's item carries for this index."""
        value = self.value_of(event)
        if value is None:
            return {}
        sort_key = f"{to_text(event.time)}#{escape(event.series)}#{escape(event.id)}"
        return {self.pk: self.partition(value, suffix_of(event.id, self.shards)), self.sk: sort_key}

    def partition(self, value: str, suffix: int) -> str:
        """The partition key of a value and a suffix."""
        return f"{escape(value)}#{suffix}"

    def problem(self, event: Event) -> str | None:
        """Why the event cannot be indexed although it has the field; None if it can, or need not."""
        text = value_text(event.data, self.partition_by)
        if text is None or self.value_of(event) is not None:
            return None
        return f"data.{self.partition_by} is indexed, and takes more than {MAX_VALUE_BYTES} bytes"


def value_text(data: JsonObject, path: str) -> str | None:
    """A field's value as text: numbers without needless zeros, truth as true or false; None if it is no plain value."""
    value: Any = data
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | Decimal():
            plain = format(Decimal(value), "f") if value else "0"
            return plain.rstrip("0").rstrip(".") if "." in plain else plain
    return None
