"""Reading ``tidetable.toml``: every problem at once, each naming its key and its fix."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from enum import EnumMeta
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tidetable.config.model import ApiPolicy, Config, Keeping, LifecyclePolicy, Observability, Stream
from tidetable.durations import Duration
from tidetable.errors import ConfigError

_Group = TypeVar("_Group", bound=msgspec.Struct)

_GROUPS: dict[str, type[msgspec.Struct]] = {
    "api": ApiPolicy,
    "observability": Observability,
    "lifecycle": LifecyclePolicy,
    "archive": Keeping,
}


def load(path: Path, *, checked: bool = False) -> Config:
    """Read and validate the configuration file; ConfigError lists everything that is wrong with it.

    One that was ``checked`` before, as that of a deployment was when it was synthesised, is only read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigError([f"{path} does not exist: copy the commented example and change it"]) from error
    return parse(text, checked=checked)


def parse(text: str, *, checked: bool = False) -> Config:
    """Validate the configuration given as TOML text."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"the file is no TOML: {error}"]) from error
    problems: list[str] = []
    groups = {name: _convert(document.pop(name, {}), kind, name, problems) for name, kind in _GROUPS.items()}
    tables = document.pop("streams", {})
    problems += [f"{key}: unknown key; known here: {', '.join([*_GROUPS, 'streams'])}" for key in document]
    if not isinstance(tables, dict) or not tables:
        problems.append("streams: none is defined; add at least one [streams.NAME]")
        tables = {}
    streams = {name: _stream(name, table, problems) for name, table in tables.items()}
    if problems:
        raise ConfigError(problems)
    config = Config(streams=streams, **groups)  # type: ignore[arg-type]
    if not checked:
        from tidetable.config.check import check

        problems = check(config)
        if problems:
            raise ConfigError(problems)
    return config


def _stream(name: str, table: Any, problems: list[str]) -> Stream | None:
    path = f"streams.{name}"
    if isinstance(table, dict) and "name" in table:
        problems.append(f"{path}.name: unknown key; the stream is called by its table, [{path}]")
        return None
    stream = _convert(table, Stream, path, problems)
    return msgspec.structs.replace(stream, name=name) if stream is not None else None


def _convert(table: Any, kind: type[_Group], path: str, problems: list[str]) -> _Group | None:
    try:
        return msgspec.convert(table, kind, dec_hook=_duration)
    except msgspec.ValidationError as error:
        problems.append(_explain(str(error), path, kind))
        return None


def _duration(kind: type, value: Any) -> Any:
    if kind is not Duration:
        raise TypeError(f"no rule to read a {kind.__name__}")
    if not isinstance(value, str):
        raise ValueError('expected a duration such as "15m"')
    return Duration.parse(value)


_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)")
_INVALID = re.compile(r"Invalid enum value '([^']*)'")
_MISSING = re.compile(r"Object missing required field `([^`]*)")


def _explain(message: str, path: str, kind: type[msgspec.Struct]) -> str:
    """The library's message, with the key's full path and what to do about it."""
    what, _, inside = message.removesuffix("`").partition(" - at `$")
    where = path + inside
    if unknown := _UNKNOWN.match(what):
        return f"{where}.{unknown[1]}: unknown key; known here: {', '.join(_keys_at(kind, inside))}"
    if missing := _MISSING.match(what):
        return f"{where}.{missing[1]}: missing; add it (the commented tidetable.toml shows its values)"
    if invalid := _INVALID.match(what):
        allowed = _allowed_at(kind, inside)
        return (
            f'{where}: "{invalid[1]}" is none of {", ".join(allowed)}'
            if allowed
            else f'{where}: "{invalid[1]}" is no value'
        )
    return f"{where}: {what[0].lower()}{what[1:]}"


def _allowed_at(kind: type[msgspec.Struct], where: str) -> list[str]:
    """The words that may stand at a path, if those are few."""
    *path, last = re.findall(r"\.(\w+)", where)
    for name in path:
        kind = _group_of(next(field.type for field in msgspec.structs.fields(kind) if field.encode_name == name))
    found = next(field.type for field in msgspec.structs.fields(kind) if field.encode_name == last)
    return [
        str(one)
        for one in (found if isinstance(found, EnumMeta) else getattr(found, "__args__", ()))
        if isinstance(one, str)
    ]


def _keys_at(kind: type[msgspec.Struct], where: str) -> list[str]:
    """The keys that may stand at a path such as ``.capacity.ladder[...]`` below a group."""
    for name in re.findall(r"\.(\w+)", where):
        kind = _group_of(next(field.type for field in msgspec.structs.fields(kind) if field.encode_name == name))
    return sorted(field.encode_name for field in msgspec.structs.fields(kind) if field.name != "name")


def _group_of(annotation: Any) -> type[msgspec.Struct]:
    parts: Mapping[int, Any] = dict(enumerate(getattr(annotation, "__args__", ())))
    return parts[0] if parts else annotation  # type: ignore[no-any-return]
