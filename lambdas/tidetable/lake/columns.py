"""The columns of a stream's table: those that the configuration declares, now or when a period was archived.

Iceberg widens a decimal's precision. It does not turn an integer into a double, and an engine that expects a double cannot
read a file with an integer. So a column whose files do not agree is left out, and its name is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidetable.config.columns import parse_decimal
from tidetable.layout import Layout

# The column by which the table is partitioned. No file has it: readers take it from the table's metadata.
PERIOD = "period"
_OWN = {
    "time": "timestamp",
    "series": "string",
    "id": "string",
    "id_hex": "binary",
    "shard": "int",
    "accepted_at": "timestamp",
}
_REST = {"data": "string", "attributes": "string", PERIOD: "string"}
_Types = Mapping[str, str]


class Joined(NamedTuple):
    """The columns of a table with their types.

    ``hidden`` are the columns of files that are not in the table. ``refused`` are those of them that cannot be in it, with
    the types that they have.
    """

    columns: _Types
    hidden: tuple[str, ...]
    refused: Mapping[str, tuple[str, ...]]


def list_own_columns(layout: Layout) -> dict[str, str]:
    """List the columns that files of this layout have besides those of fields."""
    own = {**_OWN, "version": "int"} if layout.versioned else _OWN
    indexes = {f"pk_{index.name}": "string" for index in layout.indexes if index.has_column}
    return {**own, **indexes, **_REST}


def join_columns(declared: Iterable[_Types], inferred: Iterable[_Types]) -> Joined:
    """Join the declared columns: the widest type of each column.

    ``inferred`` columns are in files, too, but were not declared. They are not in the table. If one has the name of a
    declared column and another type, that column is refused. Engines do not distinguish upper and lower case, so names that
    differ only there are refused.
    """
    kinds: dict[str, dict[str, dict[str, None]]] = {}
    for columns in declared:
        for name, kind in columns.items():
            kinds.setdefault(name.lower(), {}).setdefault(name, {})[kind.replace(" ", "")] = None
    hidden = set[str]()
    for columns in inferred:
        for name, kind in columns.items():
            hidden.add(name)
            if name.lower() in kinds:
                kinds[name.lower()].setdefault(name, {})[kind] = None
    joined: dict[str, str] = {}
    refused: dict[str, tuple[str, ...]] = {}
    for names in kinds.values():
        (name, *others) = names
        widest = None if others else _find_widest(names[name])
        if widest is not None:
            joined[name] = widest
        else:
            refused[name] = tuple(f"{each} {kind}" for each, all_kinds in names.items() for kind in all_kinds)
            hidden |= names.keys()
    return Joined(joined, tuple(sorted(hidden - joined.keys())), refused)


def _find_widest(kinds: Iterable[str]) -> str | None:
    """Find the type that holds the values of all; None if Iceberg cannot turn the others into one of them."""
    widest, *others = kinds
    for other in others:
        ours, theirs = parse_decimal(widest), parse_decimal(other)
        if ours is None or theirs is None or ours[1] != theirs[1]:
            return None
        widest = widest if ours[0] >= theirs[0] else other
    return widest
