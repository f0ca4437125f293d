"""tidetable.toml is the reference: a value that is not the default says which value is."""

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidetable.config import model
from tidetable.durations import Duration

ROOT = Path(__file__).parents[1]
TABLES: dict[str, type[msgspec.Struct]] = {
    "api": model.ApiPolicy,
    "observability": model.Observability,
    "lifecycle": model.LifecyclePolicy,
    "storage": model.StoragePolicy,
    "archive": model.Keeping,
    "streams.quakes": model.Stream,
    "streams.quakes.key": model.KeyPolicy,
    "streams.quakes.large": model.LargePolicy,
    "streams.quakes.table": model.TablePolicy,
    "streams.quakes.capacity": model.Capacity,
    "streams.quakes.archive": model.ArchivePolicy,
    "streams.stations.index": model.IndexPolicy,
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
    """What holds without the key; NODEFAULT where it is required."""
    (field,) = [one for one in msgspec.structs.fields(TABLES[table]) if one.encode_name == key]
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default


def as_text(value: Any) -> str:
    """A value as the file spells it."""
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
