"""Render DynamoDB JSON as text without white space, names in order: of Arrow arrays, column by column, or of an item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

_ENCODE = msgspec.json.Encoder(order="sorted").encode
_SETS = frozenset({"SS", "NS", "BS"})
# Texts of rows that are joined without a separator: arrays, and texts that all rows have.
Parts = list[pa.Array | str]
# JSON escapes the characters before this one, the quote and the backslash.
_FIRST_PLAIN = 32
_SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def concatenate(*texts: pa.Array | str, separator: str = "") -> pa.Array:
    """Concatenate arrays of texts, and literals, row by row. A row is null if one of its texts is null."""
    return pc.binary_join_element_wise(*texts, separator, null_handling="emit_null")


def render_canonical(item: Mapping[str, Any]) -> bytes:
    """Render the canonical text of an item, or of a map of attributes; sets are sorted."""
    return _ENCODE({name: _sort_sets(value) for name, value in item.items()})


def quote_name(name: str) -> str:
    """Write a name as JSON."""
    return _ENCODE(name).decode()


def escape_json(texts: pa.Array) -> pa.Array:
    """Escape texts for JSON, without the quotes around them."""
    has_controls = _find_least_byte(texts) < _FIRST_PLAIN
    if not has_controls and not may_contain(texts, b'"\\'):
        return texts
    texts = pc.replace_substring(texts, "\\", "\\\\")
    texts = pc.replace_substring(texts, '"', '\\"')
    for code in range(_FIRST_PLAIN if has_controls else 0):
        character = chr(code)
        if may_contain(texts, character.encode()):
            texts = pc.replace_substring(texts, character, _SHORT.get(character, f"\\u{code:04x}"))
    return texts


def may_contain(texts: pa.Array, characters: bytes) -> bool:
    """True if a text may contain one of the characters. Searches the buffer of all texts, which is very fast."""
    buffer = texts.buffers()[2]
    content = b"" if buffer is None else buffer.to_pybytes()
    return any(character in content for character in characters)


def _find_least_byte(texts: pa.Array) -> int:
    """Find the least byte in the buffer of all texts."""
    buffer = texts.buffers()[2]
    size = 0 if buffer is None else buffer.size
    least: int | None = pc.min(pa.Array.from_buffers(pa.uint8(), size, [None, buffer])).as_py()
    return _FIRST_PLAIN if least is None else least


def join_pieces(pieces: Iterable[pa.Array], count: int) -> pa.Array:
    """Join the pieces of each row with commas; null pieces are omitted."""
    pieces = list(pieces)
    if not pieces:
        return pa.array([""] * count, pa.string())
    if any(not piece.null_count for piece in pieces):
        return pc.binary_join_element_wise(*pieces, ",", null_handling="skip")
    # Arrow drops a row whose pieces are all null. An empty last piece keeps the row; it also adds a comma, which is cut
    # off.
    joined = pc.binary_join_element_wise(*pieces, "", ",", null_handling="skip")
    return pc.utf8_slice_codeunits(joined, 0, -1)


def join_parts(pieces: Sequence[Parts], count: int, start: str = "", end: str = "") -> pa.Array:
    """Join pieces as ``join_pieces`` does, between two texts; each is given as texts that belong together.

    If no text is null, all are copied once.
    """
    if not pieces or any(text.null_count for piece in pieces for text in piece if not isinstance(text, str)):
        return concatenate(start, join_pieces([concatenate(*piece) for piece in pieces], count), end)
    texts: list[pa.Array | str] = [start]
    members = (([","] if number else []) + list(piece) for number, piece in enumerate(pieces))
    for text in chain(chain.from_iterable(members), [end]):
        if isinstance(text, str) and isinstance(texts[-1], str):
            texts[-1] += text
        else:
            texts.append(text)
    return concatenate(*texts)


def render_rows(struct: pa.StructArray, start: str = "", end: str = "") -> pa.Array:
    """Render the members of maps, in the order of their names, between two texts."""
    return join_parts(_list_members(struct), len(struct), start, end)


def _list_members(struct: pa.StructArray) -> list[Parts]:
    return [[f"{quote_name(name)}:", *_list_parts(struct.field(name))] for name in struct.type.names]


def _list_parts(values: pa.StructArray) -> Parts:
    """List the texts of attribute values: most values of a page have one type and no nulls."""
    letters = [name for name in values.type.names if values.field(name).null_count < len(values)]
    if len(letters) == 1 and not values.null_count and not (inner := values.field(letters[0])).null_count:
        if letters[0] in "SNB":
            return list_leaf(letters[0], escape_json(inner) if letters[0] == "S" else inner)
        if letters[0] == "M" and len(inner.type.names):
            return ['{"M":{', render_rows(inner), "}}"]
    return [value(values)]


def list_leaf(letter: str, texts: pa.Array) -> Parts:
    """List the texts of ``render_leaf``."""
    return [render_leaf(letter, texts)] if letter == "BOOL" else [f'{{"{letter}":"', texts, '"}']


def value(values: pa.StructArray, letters: Iterable[str] | None = None) -> pa.Array:
    """Attribute values of a learned shape as text, null where the value is missing. With ``letters``, these types only."""
    texts = [_render_type(name, values.field(name)) for name in values.type.names if letters is None or name in letters]
    if not texts:
        return pa.nulls(len(values), pa.string())
    return texts[0] if len(texts) == 1 else pc.coalesce(*texts)


def take_letter(struct: pa.StructArray, name: str, letter: str) -> pa.Array:
    """Take the values of one type from an attribute or a field; nulls if it never has this type."""
    if struct.type.get_field_index(name) >= 0:
        field = struct.field(name)
        if field.type.get_field_index(letter) >= 0:
            return field.field(letter)
    return pa.nulls(len(struct), pa.bool_() if letter == "BOOL" else pa.string())


def render_members(struct: pa.StructArray, names: Iterable[str] | None = None) -> list[pa.Array]:
    """Write the members of maps in the order of their names, each as ``"name":value``, or null if it is missing."""
    names = struct.type.names if names is None else names
    return [concatenate(f"{quote_name(name)}:", value(struct.field(name))) for name in names]


def render_leaf(letter: str, texts: pa.Array) -> pa.Array:
    """Plain values of one type as attribute values; the texts are escaped already."""
    if letter == "BOOL":
        return pc.if_else(texts, '{"BOOL":true}', '{"BOOL":false}')
    return concatenate(f'{{"{letter}":"', texts, '"}')


def _render_type(letter: str, inner: pa.Array) -> pa.Array:
    if letter == "M":
        text = concatenate('{"M":{', join_pieces(render_members(inner), len(inner)), "}}")
        return pc.if_else(inner.is_valid(), text, pa.scalar(None, pa.string()))
    if letter == "L":
        texts = pa.ListArray.from_arrays(inner.offsets, value(inner.values), mask=inner.is_null())
        return concatenate('{"L":[', pc.binary_join(texts, ","), "]}")
    if letter == "NULL":
        return pc.if_else(inner.is_valid(), '{"NULL":true}', pa.scalar(None, pa.string()))
    return render_leaf(letter, escape_json(inner) if letter == "S" else inner)


def _sort_sets(value: Mapping[str, Any]) -> dict[str, Any]:
    ((letter, inner),) = value.items()
    if letter in _SETS:
        return {letter: sorted(inner)}
    if letter == "M":
        return {"M": {name: _sort_sets(member) for name, member in inner.items()}}
    if letter == "L":
        return {"L": [_sort_sets(element) for element in inner]}
    return {letter: inner}
