"""Explain every problem of a table of the configuration, with its key and its fix."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import EnumMeta
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

from tidetable.config.model import KEYLESS
from tidetable.durations import read_duration
from tidetable.similar import find_similar

# The meaning of a whole number, for keys for which a user may write a duration by mistake.
_COUNTS = {
    "retention": "it counts whole periods, such as retention = 14",
    "premake": "it counts whole periods, such as premake = 2",
    "age": 'it counts whole periods since the table closed, such as age = 1; or write "late"',
}
_FIXES: dict[type, str] = {
    int: "write a whole number without quotes",
    float: "write a number without quotes",
    bool: "write true or false, without quotes",
    str: "write a text in quotes",
}


def explain_table(value: Any, kind: Any, path: str) -> Iterator[str]:
    """Yield the problems of a value that should have the type ``kind`` of the model; ``path`` is the value's key."""
    group = next(filter(_is_group, _list_types(kind)), None)
    if group is not None and isinstance(value, Mapping):
        yield from _explain_group(value, group, path)
        return
    items = _find_argument(kind, 0, tuple)
    if items is not None and isinstance(value, list):
        for index, item in enumerate(value):
            yield from explain_table(item, items, f"{path}[{index}]")
        return
    values = _find_argument(kind, 1, dict, Mapping)
    if values is not None and isinstance(value, Mapping):
        for name, entry in value.items():
            yield from explain_table(entry, values, f"{path}.{name}")
        return
    yield from _explain_value(value, kind, path)


def _explain_group(table: Mapping[str, Any], group: Any, path: str) -> Iterator[str]:
    fields = {
        field.encode_name: field
        for field in msgspec.structs.fields(group)
        if field.name not in KEYLESS or field.required
    }
    for key in table:
        if key not in fields:
            yield explain_key(f"{path}.{key}", key, sorted(fields))
    for key, field in fields.items():
        if key in table:
            yield from explain_table(table[key], field.type, f"{path}.{key}")
        elif field.required:
            yield f"{path}.{key}: missing; add it (the commented tidetable.toml shows its values)"


def _explain_value(value: Any, kind: Any, path: str) -> Iterator[str]:
    try:
        msgspec.convert(value, kind, dec_hook=read_duration)
    except msgspec.ValidationError as error:
        words, key = _list_words(kind), path.rpartition(".")[2].partition("[")[0]
        if words and isinstance(value, str):
            counted = int in _list_types(kind)
            wrong, fix = ("neither a number nor", _describe_fix(kind, key)) if counted else ("none of", "")
            meant = find_similar(value, words)
            suggestion = f'; did you mean "{meant}"?' if meant else ""
            yield f'{path}: "{value}" is {wrong} {", ".join(words)}{fix}{suggestion}'
            return
        what = str(error).partition(" - at `$")[0]
        yield f"{path}: {what[0].lower()}{what[1:]}{_describe_fix(kind, key)}"


def _describe_fix(kind: Any, key: str) -> str:
    for member in _list_types(kind):
        if member in _FIXES:
            count = f"; {_COUNTS[key]}" if member is int and key in _COUNTS else ""
            return f": {_FIXES[member]}{count}"
    if any(map(_is_group, _list_types(kind))) or _find_argument(kind, 1, dict, Mapping) is not None:
        return ": write a table, { key = value }"
    return ": write a list, [...]" if _find_argument(kind, 0, tuple) is not None else ""


def explain_key(path: str, key: str, known: Collection[str]) -> str:
    """Explain that the configuration does not have a key."""
    meant = find_similar(key, known)
    return f"{path}: unknown key; known here: {', '.join(known)}{f'; did you mean {meant}?' if meant else ''}"


def _list_types(kind: Any) -> tuple[Any, ...]:
    """List the types that a key's value may have."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _find_argument(kind: Any, position: int, *origins: type) -> Any:
    """Find an argument of a generic type: the type of a list's items (0), or of a table's values (1); None if the kind
    is another type.
    """
    types = (get_args(member) for member in _list_types(kind) if get_origin(member) in origins)
    return next((arguments[position] for arguments in types), None)


def _list_words(kind: Any) -> list[str]:
    """List the words that the key's value may be, if only some words are allowed."""
    words: list[str] = []
    for member in _list_types(kind):
        if isinstance(member, EnumMeta):
            words += list(map(str, member))
        elif get_origin(member) is Literal:
            words += [str(word) for word in get_args(member)]
    return words
