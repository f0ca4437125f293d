"""The example configuration and the reference page have every key with its type and its default."""

import re
import tomllib
import types
from collections.abc import Iterator, Mapping
from enum import EnumType
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest

from tidetable.config import capacity, model, stage, stream
from tidetable.durations import Duration

ROOT = Path(__file__).parents[1]
TABLES: dict[str, type[msgspec.Struct]] = {
    "api": stage.ApiPolicy,
    "observability": stage.Observability,
    "lifecycle": stage.LifecyclePolicy,
    "work": stage.WorkPolicy,
    "storage": stage.StoragePolicy,
    "archive": stream.Keeping,
    "lake": stage.LakePolicy,
    "doors": stage.DoorsPolicy,
    "streams.quakes": model.Stream,
    "streams.quakes.key": stream.KeyPolicy,
    "streams.quakes.large": stream.LargePolicy,
    "streams.quakes.table": stream.TablePolicy,
    "streams.quakes.capacity": capacity.Capacity,
    "streams.quakes.archive": stream.ArchivePolicy,
    "streams.stations.index": stream.IndexPolicy,
}
LINE = re.compile(r"(?P<key>\w+) = (?P<value>[^#]+?) *(?:#(?P<comment>.*))?")


def lines() -> list[tuple[str, str, str, str]]:
    """Table, key, value and comment of each key that is set, of the first table of a name."""
    found, table, seen = [], "", set[str]()
    for line in (ROOT / "tidetable.toml").read_text().splitlines():
        if line.startswith("["):
            name = line.partition("#")[0].strip().strip("[]")
            table = "" if name in seen else name
            seen.add(name)
        elif table in TABLES and (match := LINE.fullmatch(line)):
            found.append((table, match["key"], match["value"], match["comment"] or ""))
    return found


def default_of(table: str, key: str) -> Any:
    """The default of a key; NODEFAULT if it is required."""
    (field,) = [field for field in msgspec.structs.fields(TABLES[table]) if field.encode_name == key]
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default


def as_text(value: Any) -> str:
    """A value as TOML text."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str | Duration) else str(value)


def test_every_table_is_looked_at() -> None:
    assert {table for table, *_ in lines()} == set(TABLES)


@pytest.mark.parametrize(("table", "key", "value", "comment"), lines(), ids=lambda text: text[:20])
def test_a_value_that_is_not_the_default_says_what_is(table: str, key: str, value: str, comment: str) -> None:
    default, shown = default_of(table, key), tomllib.loads(f"value = {value}")["value"]
    if default is msgspec.NODEFAULT:
        assert "required" in comment
    elif default is None or default in ((), {}):
        assert shown in ([], {}) or "default: none" in comment
    elif as_text(default) != as_text(shown) and default != shown:
        assert f"default: {as_text(default)}" in comment
    else:
        assert "default:" not in comment


# The names of types in docs/design/configuration.md.
_WORDS = {bool: "`true` or `false`", int: "whole number", float: "number", str: "text", Duration: "duration"}
# Nested tables that have a section of their own; the keys of all others are written with dots.
_OWN_SECTIONS = (
    *(stage.ApiPolicy, stage.Observability, stage.LifecyclePolicy, stage.StoragePolicy, stream.Keeping, model.Stream),
    stage.WorkPolicy,
    stage.LakePolicy,
    stage.DoorsPolicy,
    *(
        stream.KeyPolicy,
        stream.IndexPolicy,
        stream.LargePolicy,
        stream.TablePolicy,
        capacity.Capacity,
        stream.ArchivePolicy,
    ),
    *(capacity.LadderStep, stream.PackPolicy, stream.RollupPolicy, stream.FeedPolicy),
    *(stream.InfluxPolicy, stream.OtlpPolicy, stream.CloudEventsPolicy, stream.FirehosePolicy),
)


def keys() -> dict[tuple[str, str], tuple[str, str]]:
    """Section and key, such as ``streams.NAME.key`` and ``shards``, with the key's type and default as text."""
    return dict(_walk(model.Config, "", ""))


def _walk(struct: type[msgspec.Struct], section: str, prefix: str) -> Iterator[tuple[tuple[str, str], tuple[str, str]]]:
    hints = get_type_hints(struct)
    nested = []
    for field in msgspec.structs.fields(struct):
        if struct is model.Stream and field.name in model.KEYLESS:
            continue  # The name is that of the table, and no file has a derived stream.
        kind, key = hints[field.name], f"{prefix}{field.encode_name}"
        inner, many = _table_in(kind)
        if inner is None:
            yield (section, key), (type_text(kind), default_text(field))
        elif inner in _OWN_SECTIONS:
            if section:
                yield (section, key), (f"{'tables' if many == 'list' else 'table'}", default_text(field))
            name = ".NAME" if many == "mapping" else ""
            nested.append((inner, f"{section}.{key}{name}".lstrip(".")))
        else:
            yield from _walk(inner, section, f"{key}.{'NAME.' if many == 'mapping' else ''}")
    for inner, path in nested:
        yield from _walk(inner, path, "")


def _table_in(kind: Any) -> tuple[type[msgspec.Struct] | None, str]:
    """The table that a key holds, if it holds one, and whether it holds several: as a list or by their names."""
    for element in get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,):
        if isinstance(element, type) and issubclass(element, msgspec.Struct):
            return element, ""
        for inner in get_args(element):
            if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
                return inner, "mapping" if get_origin(element) is Mapping else "list"
    return None, ""


def type_text(kind: Any) -> str:
    """A type in the words of the page."""
    if isinstance(kind, EnumType):
        return ", ".join(f'`"{element.value}"`' for element in kind)  # type: ignore[var-annotated]
    if kind in _WORDS:
        return _WORDS[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f'`"{element}"`' for element in inner)
    if origin in (Union, types.UnionType):
        return ", or ".join(type_text(element) for element in inner if element is not type(None))
    if origin is tuple and get_origin(inner[0]) is Literal:
        return f"list of {type_text(inner[0])}"
    return {tuple: "list of texts", Mapping: "table of texts"}[origin]


def default_text(field: msgspec.structs.FieldInfo) -> str:
    """The default of a key as the page writes it."""
    made = field.default_factory is not msgspec.NODEFAULT
    default = field.default_factory() if made else field.default
    if default is msgspec.NODEFAULT:
        return "required"
    if default is None:
        return "none"
    if isinstance(default, msgspec.Struct):
        return "its defaults"
    if default == (capacity.LadderStep(age=0),):
        return "one step, `age = 0`"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, str | Duration):
        return f'`"{default}"`'
    if default and isinstance(default, tuple):
        return f"`[{', '.join(as_text(word) for word in default)}]`"
    return "`[]`" if default == () else f"`{default}`"


def rows_of_the_page() -> dict[tuple[str, str], tuple[str, str]]:
    """Section and key of each row, with its type and its default."""
    found, section = {}, ""
    for line in (ROOT / "docs" / "design" / "configuration.md").read_text().splitlines():
        if line.startswith("## "):
            section = line.strip("#` []")
        elif row := re.fullmatch(r"\| `([\w.]+)` \| (.*?) \| (.*?) \| (.*) \| (.*) \|", line):
            assert row[4], f"{section}.{row[1]} has no meaning"
            assert row[5], f"{section}.{row[1]} does not say from when a change holds"
            found[section, row[1]] = (row[2], row[3])
    return found


def test_the_page_has_every_key_with_its_type_and_default_and_no_other() -> None:
    assert rows_of_the_page() == keys()
    # The count is written out, so that an empty walk fails.
    assert rows_of_the_page()["lifecycle", "delete_expired"] == ("`true` or `false`", "`false`")
    assert rows_of_the_page()["streams.NAME.capacity.ladder", "index.NAME.write"] == ("whole number", "required")
    assert len(rows_of_the_page()) > 75
