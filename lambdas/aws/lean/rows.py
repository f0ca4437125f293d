"""Items of an answer with their data as JSON text: what a query passes through need not become Python's values on the way."""

from __future__ import annotations

from collections.abc import Mapping
from json.encoder import encode_basestring as quoted
from typing import Any

import msgspec

from aws.wire import NAMED
from tidetable.events import Item


class _Text(msgspec.Struct, gc=False):
    S: str


class _Map(msgspec.Struct, gc=False):
    M: dict[str, dict[str, Any]]


class Quick(msgspec.Struct, gc=False):
    """An item as far as a plain event has it; any of the others says that there is more to it."""

    pk: _Text
    sk: _Text
    data: _Map | None = None
    z: Any = None
    out: Any = None
    cold: Any = None
    version: Any = None


def quick_items(found: list[Quick]) -> list[Item] | None:
    """The items with their data under ``json``; None if one of them is more than a plain event."""
    items: list[Item] = []
    for one in found:
        data = one.data
        if data is None or one.z is not None or one.out is not None or one.cold is not None or one.version is not None:
            return None
        # As object_text has it, and in place: a call for each item would cost a fifth of it all.
        fields = [
            NAMED[name] + inner
            if letter == "N"
            else NAMED[name] + quoted(inner)
            if letter == "S"
            else NAMED[name] + _text(letter, inner)
            for name, value in data.M.items()
            for letter, inner in value.items()
        ]
        items.append({"pk": one.pk.S, "sk": one.sk.S, "json": "{" + ",".join(fields) + "}"})
    return items


def object_text(values: Mapping[str, Mapping[str, Any]]) -> str:
    """A map of attribute values as JSON, numbers as DynamoDB has them."""
    fields = [NAMED[name] + _text(letter, inner) for name, value in values.items() for letter, inner in value.items()]
    return "{" + ",".join(fields) + "}"


def _text(letter: str, inner: Any) -> str:
    if letter == "S":
        return quoted(inner)
    if letter == "M":
        return object_text(inner)
    if letter == "BOOL":
        return "true" if inner else "false"
    if letter == "NULL":
        return "null"
    if letter == "L":
        return "[" + ",".join([_text(*one) for value in inner for one in value.items()]) + "]"
    if letter == "NS":
        return "[" + ",".join(inner) + "]"
    if letter in ("SS", "BS"):
        return "[" + ",".join(map(quoted, inner)) + "]"
    return inner if letter == "N" else quoted(inner)
