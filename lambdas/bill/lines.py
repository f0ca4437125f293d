"""Write lines of tidetable.toml. All functions here are pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import Enum
from typing import Any

import msgspec

from tidetable.config.capacity import LadderStep
from tidetable.config.stream import IndexPolicy

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write_table(stream: str, table: str, values: Mapping[str, Any]) -> str:
    """Write a table of a stream; ``table`` is empty for the stream's own keys."""
    name = ".".join(filter(None, ("streams", _write_key(stream), table)))
    return "\n".join([f"[{name}]", *(f"{key} = {_write_value(value)}" for key, value in values.items())])


def write_ladder(stream: str, ladder: Iterable[LadderStep], mode: str | None = None) -> str:
    """Write the whole ladder, one step per line, and the mode if it changes."""
    steps = [f"    {_write_value(_find_changed_keys(step))}," for step in ladder]
    table = write_table(stream, "capacity", {"mode": mode} if mode is not None else {})
    return "\n".join([table, "ladder = [", *steps, "]"])


def write_indexes(stream: str, indexes: Iterable[IndexPolicy]) -> str:
    """Write all indexes of a stream, each as a table; an empty list if there are no indexes."""
    tables = []
    for index in indexes:
        lines = (f"{key} = {_write_value(value)}" for key, value in _find_changed_keys(index).items())
        tables.append("\n".join([f"[[streams.{_write_key(stream)}.index]]", *lines]))
    return "\n".join(tables) if tables else write_table(stream, "", {"index": []})


def _find_changed_keys(struct: msgspec.Struct) -> dict[str, Any]:
    """Find the keys of a table that differ from their defaults, by their names in a file."""
    changed = {}
    for field in msgspec.structs.fields(type(struct)):
        value = getattr(struct, field.name)
        default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        if value != default:
            changed[field.encode_name] = value
    return changed


def _write_value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, msgspec.Struct):
        return _write_value(_find_changed_keys(value))
    if isinstance(value, Enum):
        return _write_value(value.value)
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_write_key(key)} = {_write_value(inner)}" for key, inner in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_write_value, value))}]"
    # JSON's text is TOML's basic string: both escape with a backslash.
    return json.dumps(str(value), ensure_ascii=False) if isinstance(value, str | timedelta) else str(value)


def _write_key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)
