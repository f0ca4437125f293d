"""The part of an event's data that an answer shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidetable.events import JsonObject
from tidetable.query.model import ALL, Projection


def project(data: JsonObject, projection: Projection) -> JsonObject:
    """The part of an event's data that a projection shows."""
    if ALL in projection.fields:
        return data
    if projection.fields:
        return _pick(data, projection.fields)
    if projection.cold.isdisjoint(data):
        return data
    return {name: value for name, value in data.items() if name not in projection.cold}


def _pick(data: JsonObject, fields: Sequence[str]) -> JsonObject:
    """Some fields of data at their own paths."""
    shown: JsonObject = {}
    for path in fields:
        *outer, last = [path] if path in data else path.split(".")
        source: Any = data
        for name in outer:
            source = source.get(name) if isinstance(source, dict) else None
        if isinstance(source, dict) and last in source:
            target = shown
            for name in outer:
                target = target.setdefault(name, {})
            target[last] = source[last]
    return shown
