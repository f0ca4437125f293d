"""Pages of a scan as Arrow arrays: pyarrow reads DynamoDB JSON by a schema that is learned from the items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.json as pj

# With more names than this, the names are data (a map by user id, say), and a column per name would cost more than it
# saves.
MAX_LEAVES = 400
_TEXT = frozenset({"S", "N", "B"})
_OPTIONS = pj.ParseOptions


class Irregular(Exception):
    """The items have no useful schema: they have sets, or maps whose names are data."""


@dataclass(slots=True)
class Shape:
    """The types that an attribute had so far.

    ``names`` has the shapes of a map's members; ``elements`` is the shape of a list's elements.
    """

    leaves: set[str] = field(default_factory=set)
    names: dict[str, Shape] | None = None
    elements: Shape | None = None

    def learn(self, value: Mapping[str, Any]) -> None:
        """Take an attribute value into account; Irregular if the value is a set or contains one."""
        for letter, inner in value.items():
            if letter in _TEXT or letter in ("BOOL", "NULL"):
                self.leaves.add(letter)
            elif letter == "M":
                self.names = {} if self.names is None else self.names
                for name, member in inner.items():
                    self.names.setdefault(name, Shape()).learn(member)
            elif letter == "L":
                self.elements = self.elements or Shape()
                for element in inner:
                    self.elements.learn(element)
            else:
                raise Irregular(letter)

    @property
    def size(self) -> int:
        """The number of leaves in the shape."""
        inner = sum(shape.size for shape in (self.names or {}).values())
        return len(self.leaves) + inner + (self.elements.size if self.elements is not None else 0)

    def arrow(self) -> pa.DataType:
        """Return the Arrow type of the attribute: a struct with a field for each type letter."""
        fields = [pa.field(letter, pa.string() if letter in _TEXT else pa.bool_()) for letter in sorted(self.leaves)]
        if self.names is not None:
            fields.append(pa.field("M", make_names_type(self.names)))
        if self.elements is not None:
            fields.append(pa.field("L", pa.list_(self.elements.arrow())))
        return pa.struct(fields)


def make_names_type(names: Mapping[str, Shape]) -> pa.DataType:
    """Make the Arrow type of a map, or of an item: its names in order."""
    return pa.struct([pa.field(name, names[name].arrow()) for name in sorted(names)])


def read_page(items: bytes, names: Mapping[str, Shape]) -> pa.StructArray | None:
    """Read the items of a page, a JSON array, by the shapes of their attributes; None if an item has another shape."""
    schema = pa.schema([pa.field("Items", pa.list_(make_names_type(names)))])
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
