"""Read ``tidetable.toml``, and report all problems at once, each with its key and its fix."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tidetable.config.derive import add_rollups
from tidetable.config.model import KEYLESS, Config, Stream
from tidetable.durations import read_duration
from tidetable.errors import ConfigError

_Group = TypeVar("_Group", bound=msgspec.Struct)

# The types of the tables beside [streams]: every one of them has a default.
_GROUPS: dict[str, type[msgspec.Struct]] = {
    name: type(getattr(Config(streams={}), name)) for name in Config.__struct_fields__ if name != "streams"
}


def load(path: Path, *, checked: bool = False) -> Config:
    """Read and validate the configuration file; ConfigError lists all of its problems.

    A file that was ``checked`` before is only read. For example, a deployment's file was checked at its synthesis.
    """
    try:
        # Editors on Windows may begin a file with a byte order mark.
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError([f"{path} does not exist: copy the commented example and change it"]) from error
    except IsADirectoryError as error:
        raise ConfigError([f"{path} is a directory: name the file in it, such as {path}/tidetable.toml"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            [f"{path} is not UTF-8: save it in that encoding, which TOML asks for ({error.reason})"]
        ) from error
    except OSError as error:
        raise ConfigError([f"{path} cannot be read: {error.strerror}"]) from error
    return parse(text, checked=checked)


def parse(text: str, *, checked: bool = False) -> Config:
    """Validate a configuration that is TOML text."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([f"the file is not TOML: {error}"]) from error
    problems: list[str] = []
    groups = {name: _convert(document.pop(name, {}), kind, name, problems) for name, kind in _GROUPS.items()}
    tables = document.pop("streams", {})
    if document:
        from tidetable.config.explain_table import explain_key

        problems += [explain_key(key, key, [*_GROUPS, "streams"]) for key in document]
    if not isinstance(tables, dict) or not tables:
        problems.append("streams: none is defined; add at least one [streams.NAME]")
        tables = {}
    streams = {name: _load_stream(name, table, problems) for name, table in tables.items()}
    if problems:
        raise ConfigError(problems)
    config = Config(streams=add_rollups(streams), **groups)  # type: ignore[arg-type]
    if not checked:
        from tidetable.config.check import check

        problems = check(config)
        if problems:
            raise ConfigError(problems)
    return config


def change_stream(config: Config, name: str, changes: Mapping[str, Any]) -> Config:
    """Return the configuration with changed keys of one stream; ConfigError lists all problems of the result.

    A changed key replaces the stream's own key with all keys below it. A key with the value false is removed.
    """
    from tidetable.config.check import check

    problems: list[str] = []
    table: dict[str, Any] = msgspec.to_builtins(config.streams[name], enc_hook=str)
    for key in KEYLESS:
        del table[key]
    table = {key: value for key, value in (table | dict(changes)).items() if value is not None and value is not False}
    stream = _load_stream(name, table, problems)
    if stream is None or problems:
        raise ConfigError(problems)
    streams = {other.name: other for other in config.streams.values() if not other.source} | {name: stream}
    changed: Config = msgspec.structs.replace(config, streams=add_rollups(streams))
    problems = check(changed)
    if problems:
        raise ConfigError(problems)
    return changed


def _load_stream(name: str, table: Any, problems: list[str]) -> Stream | None:
    path = f"streams.{name}"
    if isinstance(table, dict) and "name" in table:
        problems.append(f"{path}.name: unknown key; the stream is called by its table, [{path}]")
        return None
    if isinstance(table, dict) and "source" in table:
        problems.append(f"{path}.source: unknown key; add [[{path}.rollup]] to the stream that is to be rolled up")
        return None
    stream = _convert(table, Stream, path, problems)
    return msgspec.structs.replace(stream, name=name) if stream is not None else None


def _convert(table: Any, kind: type[_Group], path: str, problems: list[str]) -> _Group | None:
    try:
        return msgspec.convert(table, kind, dec_hook=read_duration)
    except msgspec.ValidationError as error:
        from tidetable.config.explain_table import explain_table

        problems += list(explain_table(table, kind, path)) or [f"{path}: {error}"]
        return None
