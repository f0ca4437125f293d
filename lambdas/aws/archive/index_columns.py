"""Index attributes that repeat an item's data: copies of fields, and the numbers of rankings.

A part omits them, and readers calculate them again, as ``tidetable.layout.Index.make_attributes`` does. If the calculation
would give another result for an item, the part keeps the item's index attributes among its other attributes, and the
item has no partition key in the index's column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from aws.archive.render import (
    concatenate,
    escape_json,
    join_pieces,
    render_canonical,
    render_leaf,
    render_members,
    take_letter,
    value,
)
from tidetable.layout import Index, Layout

_TEXT = pa.string()
_NULL = pa.scalar(None, _TEXT)
_Value = Mapping[str, Any]


def find_derived_indexes(layout: Layout, names: Collection[str] | None = None) -> tuple[Index, ...]:
    """Find the indexes whose attributes are calculated from an item's data; with ``names``, only indexes of these
    names.

    The attributes of local indexes, and of indexes that are sorted by levels, stay among an item's other attributes.
    """
    derivable = (index for index in layout.indexes if index.has_column and (index.ranks or index.project))
    return tuple(index for index in derivable if names is None or index.name in names)


def name_attributes(index: Index) -> tuple[str, ...]:
    """Return the names of the attributes that an item has for an index."""
    return (index.pk, index.sk, index.copy) if index.project else (index.pk, index.sk)


def match_derived(index: Index, items: pa.StructArray, data: pa.StructArray) -> pa.Array:
    """Mark the items whose index attributes can all be calculated from their data and their partition key in the index."""
    pk = take_letter(items, index.pk, "S")
    matches = _compare_rows(_read_text(items, index.pk), render_leaf("S", escape_json(pk)))
    if index.ranks:
        matches = pc.and_(
            matches,
            _compare_rows(
                _read_text(items, index.sk), _keep_where(pk, render_leaf("N", _read_numbers(data, index.sort_by)))
            ),
        )
    if index.project:
        projected = [name for name in sorted(index.project) if data.type.get_field_index(name) >= 0]
        copy = concatenate('{"M":{', join_pieces(render_members(data, projected), len(data)), "}}")
        matches = pc.and_(matches, _compare_rows(_read_text(items, index.copy), _keep_where(pk, copy)))
    return matches


def is_derived(index: Index, item: Mapping[str, Any]) -> bool:
    """True if one item's index attributes can all be calculated; the item is in DynamoDB JSON."""
    pk = item.get(index.pk)
    if pk is not None and pk.keys() != {"S"}:
        return False
    expected = derive_wire(index, item["data"]["M"]) if pk is not None else {}
    names = {index.copy, *((index.sk,) if index.ranks else ())}
    stored = {name: item[name] for name in names if name in item}
    return expected is not None and render_canonical(stored) == render_canonical(expected)


def derive_wire(index: Index, data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Calculate a ranking's sort key and the copied fields from an item's data. None if the ranking's number is missing."""
    derived: dict[str, Any] = {}
    if index.ranks:
        value: Any = {"M": data}
        for name in index.sort_by.split("."):
            value = value.get("M", {}).get(name, {})
        if "N" not in value:
            return None
        derived[index.sk] = value
    if index.project:
        derived[index.copy] = {"M": {name: data[name] for name in index.project if name in data}}
    return derived


def render_derived(
    index: Index, pk: pa.Array, fields: Mapping[str, pa.Array], number: Callable[[str], pa.Array]
) -> Any:
    """Make the derived attributes as ``name, text`` pairs, for rows whose data is completely in columns.

    The text of a row is null if the row has no partition key in the index.
    ``fields`` are the members of data as ``"name":value``, by name and in order; ``number`` returns a column's numbers
    as text.
    """
    if index.project:
        projected = [fields[name] for name in sorted(index.project) if name in fields]
        copy = concatenate(f'"{index.copy}":{{"M":{{', join_pieces(projected, len(pk)), "}}")
        yield index.copy, _keep_where(pk, copy)
    if index.ranks:
        yield index.sk, _keep_where(pk, concatenate(f'"{index.sk}":', render_leaf("N", number(index.sort_by))))


def _read_text(struct: pa.StructArray, name: str) -> pa.Array:
    """Read an attribute as canonical text; null if it is missing."""
    return value(struct.field(name)) if struct.type.get_field_index(name) >= 0 else pa.nulls(len(struct), _TEXT)


def _read_numbers(data: pa.StructArray, path: str) -> pa.Array:
    """Read the numbers of a field, by its path such as ``place.depth``, as text."""
    *maps, last = path.split(".")
    for name in maps:
        if data.type.get_field_index(name) < 0 or data.field(name).type.get_field_index("M") < 0:
            return pa.nulls(len(data), _TEXT)
        data = data.field(name).field("M")
    return take_letter(data, last, "N")


def _keep_where(pk: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(pk.is_valid(), texts, _NULL)


def _compare_rows(left: pa.Array, right: pa.Array) -> pa.Array:
    """Compare row by row; two nulls are equal."""
    return pc.equal(pc.coalesce(left, ""), pc.coalesce(right, ""))
