"""Convert the cells of CSV to values, and count the types that a column's cells had."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tidetable.exact_json import BEYOND, decode_json

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


def convert_cells(names: Sequence[str], row: Sequence[str], texts: Collection[str]) -> dict[str, Any]:
    """Convert cells to values by the names of their columns.

    An empty cell is left out. A cell with a JSON number, true or false becomes that value, also with blanks around it.
    The columns ``texts`` stay text. ValueError for a value in a column without a name.
    """
    values: dict[str, Any] = {}
    for place, (name, cell) in enumerate(zip(names, row, strict=True), 1):
        if cell == "":
            continue
        if name == "":
            raise ValueError(f"column {place} has a value, but no name: name it in the header, or remove it")
        values[name] = cell if name in texts else _convert_cell(name, cell)
    return values


def _convert_cell(name: str, cell: str) -> Any:
    plain = cell.strip(" \t")
    if plain in ("true", "false"):
        return plain == "true"
    if not _NUMBER.fullmatch(plain):
        return cell
    try:
        number = decode_json(plain.encode())
    except ValueError:  # thousands of digits
        number = BEYOND
    if isinstance(number, Decimal) and not number.is_finite():
        raise ValueError(f"{name}: {plain[:40]} is a number that cannot be stored: --text {name} keeps it as text")
    return number


@dataclass
class _Column:
    """The number of a column's texts and of its other values, and its first text."""

    texts: int = 0
    others: int = 0
    first: str = ""


class CellTypes:
    """Counts, per column, the cells that stayed text and the cells that became numbers or booleans."""

    def __init__(self) -> None:
        self._columns: defaultdict[str, _Column] = defaultdict(_Column)

    def count(self, values: Mapping[str, Any], names: Sequence[str]) -> None:
        """Count the values of a row."""
        for name in names:
            value = values.get(name)
            if value is None:
                continue
            column = self._columns[name]
            if not isinstance(value, str):
                column.others += 1
                continue
            column.first = column.first or value
            column.texts += 1

    def list_mixed(self) -> list[str]:
        """Describe each column that has texts beside numbers or booleans."""
        return [
            f"column {name}: {column.texts:,} cells are text, such as {column.first[:40]!r}, and {column.others:,} are "
            f"numbers or booleans; --text {name} keeps all of them as text"
            for name, column in self._columns.items()
            if column.texts and column.others
        ]
