"""Pages of a scan as Arrow arrays: DynamoDB JSON is read by pyarrow, in a schema that is learned from the items themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.json as pj

# Beyond this, names are data (a map by user id, say), and a column for each would cost more than it saves.
MAX_LEAVES = 400
_TEXT = frozenset({"S", "N", "B"})
_OPTIONS = pj.ParseOptions


class Irregular(Exception):
    """Items that have no schema worth its name: sets, or maps whose names are data."""


@dataclass(slots=True)
class Shape:
    """The types that an attribute was seen to have; for a map its names, for a list what its elements were seen to be."""

    leaves: set[str] = field(default_factory=set)
    names: dict[str, Shape] | None = None
    elements: Shape | None = None

    def learn(self, value: Mapping[str, Any]) -> None:
        """Take an attribute value into account; Irregular if it is or has a set."""
        for letter, inner in value.items():
            if letter in _TEXT or letter in ("BOOL", "NULL"):
                self.leaves.add(letter)
            elif letter == "M":
                self.names = {} if self.names is None else self.names
                for name, one in inner.items():
                    self.names.setdefault(name, Shape()).learn(one)
            elif letter == "L":
                self.elements = self.elements or Shape()
                for one in inner:
                    self.elements.learn(one)
            else:
                raise Irregular(letter)

    @property
    def size(self) -> int:
        """How many leaves it has."""
        inner = sum(shape.size for shape in (self.names or {}).values())
        return len(self.leaves) + inner + (self.elements.size if self.elements is not None else 0)

    def arrow(self) -> pa.DataType:
        """The type in which pyarrow reads it: a struct with a field for each type letter."""
        fields = [pa.field(one, pa.string() if one in _TEXT else pa.bool_()) for one in sorted(self.leaves)]
        if self.names is not None:
            fields.append(pa.field("M", names_type(self.names)))
        if self.elements is not None:
            fields.append(pa.field("L", pa.list_(self.elements.arrow())))
        return pa.struct(fields)


def names_type(names: Mapping[str, Shape]) -> pa.DataType:
    """The type of a map, or of an item: its names in order."""
    return pa.struct([pa.field(name, names[name].arrow()) for name in sorted(names)])


def read(items: bytes, names: Mapping[str, Shape]) -> pa.StructArray | None:
    """The items of a page, a JSON array, as far as these names describe them; None if they do not."""
    schema = pa.schema([pa.field("Items", pa.list_(names_type(names)))])
    body = b'{"Items":' + items + b"}"
    try:
        table = pj.read_json(
            pa.py_buffer(body),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(body) + 1),
            parse_options=_OPTIONS(explicit_schema=schema, unexpected_field_behavior="error"),
        )
    except pa.ArrowInvalid:
        return None
    return table.column("Items").chunk(0).values
