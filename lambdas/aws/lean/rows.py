"""Items of an answer with their data as JSON text: what a query passes through need not become Python's values on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring as quote_name
from typing import Any

import msgspec

from aws.wire import NAMED


class _Text(msgspec.Struct, gc=False):
    S: str


class PlainItem(msgspec.Struct, gc=False):
    """An item as far as a plain event has it, its data as it came; any of the others says that there is more to it."""

    sk: _Text
    data: msgspec.Raw = msgspec.Raw(b"")
    z: Any = None
    out: Any = None
    cold: Any = None
    version: Any = None


def render_texts(items: Sequence[PlainItem]) -> list[str] | None:
    """The data of some items as JSON; None if one of them is more than a plain event."""
    for item in items:
        if item.z is not None or item.out is not None or item.cold is not None or item.version is not None:
            return None
    datas = [item.data for item in items]
    texts = _render_flat(datas)
    if texts is None:
        if not all(map(bytes, datas)):
            return None
        texts = []
        for data in datas:
            members = _DATA(data).M
            if members is None:
                return None
            texts.append(render_object(members))
    return texts


class _Map(msgspec.Struct, gc=False):
    """Data; somebody else's may be no map."""

    M: dict[str, dict[str, Any]] | None = None


_DATA = msgspec.json.Decoder(_Map).decode
_OPEN = '{"M":'


def _render_flat(datas: Sequence[msgspec.Raw]) -> list[str] | None:
    """The texts of flat data, of all items at once; None if any is not flat, or not there.

    Without escaped quotes every quote is one of the JSON's own, and what stands between them cannot be taken for anything else.
    """
    if not datas:
        return []
    text = b"\n".join(datas).decode()
    if "\\" in text and '\\"' in text:
        return None
    # Of what follows a value's opening, the first quote and brace are its end, whatever texts and names have besides.
    before, *numbers = text.split('{"N":"')
    text = "".join([before, *[piece.replace('"}', "", 1) for piece in numbers]])
    before, *strings = text.split('{"S":"')
    text = '"'.join([before, *[piece.replace('"}', '"', 1) for piece in strings]])
    if '{"BOOL":' in text:
        text = text.replace('{"BOOL":true}', "true").replace('{"BOOL":false}', "false")
    if '{"NULL":' in text:
        text = text.replace('{"NULL":true}', "null")
    # Each has two of its own, of itself and of its map: a third is of a list, a map, a set, or in a text.
    if text.count("{") != 2 * len(datas):
        return None
    # Neither JSON nor its texts have a line's end in them, so what stands around it is never a text's.
    texts = text[len(_OPEN) : -1].split(f"}}\n{_OPEN}")
    # Data that is missing, or no map, is no text of its own: other braces may have stood for its two.
    return texts if len(texts) == len(datas) and text.startswith(_OPEN) else None


def render_object(values: Mapping[str, Mapping[str, Any]]) -> str:
    """A map of attribute values as JSON, numbers as DynamoDB has them."""
    fields = [
        NAMED[name] + _render_value(letter, inner) for name, value in values.items() for letter, inner in value.items()
    ]
    return "{" + ",".join(fields) + "}"


def _render_value(letter: str, inner: Any) -> str:
    if letter == "S":
        return quote_name(inner)
    if letter == "M":
        return render_object(inner)
    if letter == "BOOL":
        return "true" if inner else "false"
    if letter == "NULL":
        return "null"
    if letter == "L":
        return "[" + ",".join([_render_value(*member) for value in inner for member in value.items()]) + "]"
    if letter == "NS":
        return "[" + ",".join(inner) + "]"
    if letter in ("SS", "BS"):
        return "[" + ",".join(map(quote_name, inner)) + "]"
    return inner if letter == "N" else quote_name(inner)
