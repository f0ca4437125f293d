"""DynamoDB JSON as text, without white space and with names in order: from Arrow arrays a column at a time, or from one item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

_ENCODE = msgspec.json.Encoder(order="sorted").encode
_SETS = frozenset({"SS", "NS", "BS"})
# What JSON escapes.
_SPECIAL = bytes(range(32)) + b'"\\'
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}

# Puts texts and literals together, row by row; null where one of them is null.
together = partial(pc.binary_join_element_wise, null_handling="emit_null")


def canonical(item: Mapping[str, Any]) -> bytes:
    """An item, or a map of attributes, as its canonical text; sets are put in order."""
    return _ENCODE({name: _ordered(value) for name, value in item.items()})


def quoted(name: str) -> str:
    """A name as JSON."""
    return _ENCODE(name).decode()


def escaped(texts: pa.Array) -> pa.Array:
    """Texts as they stand between the quotes of JSON."""
    if not holds(texts, _SPECIAL):
        return texts
    texts = pc.replace_substring(texts, "\\", "\\\\")
    texts = pc.replace_substring(texts, '"', '\\"')
    for code in range(32):
        character = chr(code)
        if holds(texts, character.encode()):
            texts = pc.replace_substring(texts, character, _SHORT.get(character, f"\\u{code:04x}"))
    return texts


def holds(texts: pa.Array, characters: bytes) -> bool:
    """Whether one of the characters may be in one of the texts: a look at the bytes behind them, which costs next to nothing."""
    held = texts.buffers()[2]
    return held is not None and len(held.to_pybytes().translate(None, characters)) < held.size


def listed(pieces: Iterable[pa.Array], count: int) -> pa.Array:
    """The pieces of each row with commas between them; pieces that are null are left out."""
    pieces = list(pieces)
    if not pieces:
        return pa.array([""] * count, pa.string())
    if any(not piece.null_count for piece in pieces):
        return pc.binary_join_element_wise(*pieces, ",", null_handling="skip")
    # Arrow drops a row of which every piece is null; with an empty one at the end it gives a comma too many instead.
    joined = pc.binary_join_element_wise(*pieces, "", ",", null_handling="skip")
    return pc.utf8_slice_codeunits(joined, 0, -1)


def value(values: pa.StructArray, letters: Iterable[str] | None = None) -> pa.Array:
    """Attribute values of a learned shape as text, null where there is none; of these types only, if any are given."""
    names = [values.type.field(index).name for index in range(values.type.num_fields)]
    found = [_typed(name, values.field(name)) for name in names if letters is None or name in letters]
    if not found:
        return pa.nulls(len(values), pa.string())
    return found[0] if len(found) == 1 else pc.coalesce(*found)


def members(struct: pa.StructArray, names: Iterable[str] | None = None) -> list[pa.Array]:
    """The members of maps, each as ``"name":value`` and null where it is missing, in the order of their names."""
    if names is None:
        names = [struct.type.field(index).name for index in range(struct.type.num_fields)]
    return [together(f"{quoted(name)}:", value(struct.field(name)), "") for name in names]


def leaf(letter: str, texts: pa.Array) -> pa.Array:
    """Plain values of one type as attribute values; texts must be escaped already."""
    if letter == "BOOL":
        return pc.if_else(texts, '{"BOOL":true}', '{"BOOL":false}')
    return together(f'{{"{letter}":"', texts, '"}', "")


def _typed(letter: str, inner: pa.Array) -> pa.Array:
    if letter == "M":
        text = together('{"M":{', listed(members(inner), len(inner)), "}}", "")
        return pc.if_else(inner.is_valid(), text, pa.scalar(None, pa.string()))
    if letter == "L":
        texts = pa.ListArray.from_arrays(inner.offsets, value(inner.values), mask=inner.is_null())
        return together('{"L":[', pc.binary_join(texts, ","), "]}", "")
    if letter == "NULL":
        return pc.if_else(inner.is_valid(), '{"NULL":true}', pa.scalar(None, pa.string()))
    return leaf(letter, escaped(inner) if letter == "S" else inner)


def _ordered(value: Mapping[str, Any]) -> dict[str, Any]:
    ((letter, inner),) = value.items()
    if letter in _SETS:
        return {letter: sorted(inner)}
    if letter == "M":
        return {"M": {name: _ordered(one) for name, one in inner.items()}}
    if letter == "L":
        return {"L": [_ordered(one) for one in inner]}
    return {letter: inner}
