"""What an item holds for its indexes and its data says once more: copies of fields, and the numbers of rankings.

It is left out of a part and calculated again, as ``tidetable.keys.Index.attributes_of`` does. An item of which that would give
anything else keeps what it has, among its other attributes, and has no partition key in the index's column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from aws.archive.render import canonical, escaped, leaf, listed, members, together, value
from tidetable.keys import Index, Layout

_TEXT = pa.string()
_NULL = pa.scalar(None, _TEXT)
_Value = Mapping[str, Any]


def derived_indexes(layout: Layout, names: Collection[str] | None = None) -> tuple[Index, ...]:
    """The indexes for which an item holds what follows from its data: all of the layout's, or those of these names."""
    found = (one for one in layout.indexes if not one.replica and (one.ranks or one.project))
    return tuple(one for one in found if names is None or one.name in names)


def attributes_of(index: Index) -> tuple[str, ...]:
    """The attributes that an item has for an index."""
    return (index.pk, index.sk, index.copy) if index.project else (index.pk, index.sk)


def follows(index: Index, items: pa.StructArray, data: pa.StructArray) -> pa.Array:
    """Of which items everything that they hold for the index follows from their data and their partition key in it."""
    pk = _letter(items, index.pk, "S")
    fine = _same(_text(items, index.pk), leaf("S", escaped(pk)))
    if index.ranks:
        fine = pc.and_(fine, _same(_text(items, index.sk), _where(pk, leaf("N", _number(data, index.sort_by)))))
    if index.project:
        named = [name for name in sorted(index.project) if data.type.get_field_index(name) >= 0]
        copy = together('{"M":{', listed(members(data, named), len(data)), "}}", "")
        fine = pc.and_(fine, _same(_text(items, index.copy), _where(pk, copy)))
    return fine


def follows_wire(index: Index, item: Mapping[str, Any]) -> bool:
    """The same of one item in DynamoDB JSON."""
    pk = item.get(index.pk)
    if pk is not None and pk.keys() != {"S"}:
        return False
    expected = derived_wire(index, item["data"]["M"]) if pk is not None else {}
    names = {index.copy, *((index.sk,) if index.ranks else ())}
    held = {name: item[name] for name in names if name in item}
    return expected is not None and canonical(held) == canonical(expected)


def derived_wire(index: Index, data: Mapping[str, Any]) -> dict[str, Any] | None:
    """The sort key of a ranking and the copies that follow from an item's data; None if there is no number to rank it by."""
    found: dict[str, Any] = {}
    if index.ranks:
        at: Any = {"M": data}
        for name in index.sort_by.split("."):
            at = at.get("M", {}).get(name, {})
        if "N" not in at:
            return None
        found[index.sk] = at
    if index.project:
        found[index.copy] = {"M": {name: data[name] for name in index.project if name in data}}
    return found


def pieces(index: Index, pk: pa.Array, fields: Mapping[str, pa.Array], number: Callable[[str], pa.Array]) -> Any:
    """The derived attributes of rows whose data is all in columns, as ``name, text`` pairs; null where there is no partition key.

    ``fields`` are the members of data as ``"name":value``, by name and in order; ``number`` gives a column's numbers as text.
    """
    if index.project:
        held = [fields[name] for name in sorted(index.project) if name in fields]
        copy = together(f'"{index.copy}":{{"M":{{', listed(held, len(pk)), "}}", "")
        yield index.copy, _where(pk, copy)
    if index.ranks:
        yield index.sk, _where(pk, together(f'"{index.sk}":', leaf("N", number(index.sort_by)), ""))


def _letter(struct: pa.StructArray, name: str, letter: str) -> pa.Array:
    """The values of one type that an attribute or a field has; nulls if it never has it."""
    if struct.type.get_field_index(name) < 0 or struct.field(name).type.get_field_index(letter) < 0:
        return pa.nulls(len(struct), _TEXT)
    return struct.field(name).field(letter)


def _text(struct: pa.StructArray, name: str) -> pa.Array:
    """An attribute as canonical text, null where it is missing."""
    return value(struct.field(name)) if struct.type.get_field_index(name) >= 0 else pa.nulls(len(struct), _TEXT)


def _number(data: pa.StructArray, path: str) -> pa.Array:
    """The numbers of a field, by its path such as ``place.depth``, as text."""
    *maps, last = path.split(".")
    for name in maps:
        if data.type.get_field_index(name) < 0 or data.field(name).type.get_field_index("M") < 0:
            return pa.nulls(len(data), _TEXT)
        data = data.field(name).field("M")
    return _letter(data, last, "N")


def _where(pk: pa.Array, texts: pa.Array) -> pa.Array:
    return pc.if_else(pk.is_valid(), texts, _NULL)


def _same(one: pa.Array, other: pa.Array) -> pa.Array:
    """Equality by which two nulls are equal."""
    return pc.equal(pc.coalesce(one, ""), pc.coalesce(other, ""))
