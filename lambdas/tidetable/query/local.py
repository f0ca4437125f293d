"""Show the times of an answer in a zone, as local times with their offset. Only answers with ``tz`` need this module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tidetable.ports import TypedColumn
from tidetable.zones import find_zone, show_local

# The other members of a row keep the digits and the spaces that they have.
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_NULL = b"null"
_EDGES = ("from", "to")
# The members of events, periods and backfills that are instants.
_INSTANTS = frozenset({"time", "accepted", "start", "end", *_EDGES, "until", "expired_at", "searched_back_to"})
_DATA = "data"


def show_rows(texts: Iterable[str], times: Sequence[str], tz: str) -> list[str]:
    """Show rows, which are JSON objects; their members ``times`` are instants or null."""
    zone = find_zone(tz)
    shown = []
    for text in texts:
        members = _decode(text)
        for name in times:
            value = bytes(members.get(name, _NULL))
            if value != _NULL:
                members[name] = msgspec.Raw(msgspec.json.encode(show_local(msgspec.json.decode(value, type=str), zone)))
        shown.append(msgspec.json.encode(members).decode())
    return shown


def show_rest(rest: Mapping[str, Any], tz: str) -> dict[str, Any]:
    """Show the rest of an answer: its own range, if it has one, and the ranges of its gaps."""
    zone = find_zone(tz)

    def show_range(members: Mapping[str, Any]) -> dict[str, Any]:
        return {name: show_local(value, zone) if name in _EDGES else value for name, value in members.items()}

    return show_range(rest) | {"gaps": [show_range(gap) for gap in rest["gaps"]]}


def show_document(document: Mapping[str, Any], tz: str) -> dict[str, Any]:
    """Show a document that is no table: its members that are instants, at any depth. The data of events stays."""
    zone = find_zone(tz)

    def show(name: str, value: Any) -> Any:
        if isinstance(value, dict) and name != _DATA:
            return {inner: show(inner, each) for inner, each in value.items()}
        if isinstance(value, list):
            return [show(name, each) for each in value]
        return show_local(value, zone) if name in _INSTANTS and isinstance(value, str) else value

    return {name: show(name, value) for name, value in document.items()}


def name_zone(columns: Iterable[TypedColumn], tz: str) -> list[TypedColumn]:
    """Give the columns of times the zone as a part of their type. Their values stay instants."""
    return [column._replace(type=f"time({tz})") if column.type == "time" else column for column in columns]
