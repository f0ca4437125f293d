"""The forms in which rows of an answer are shown or written: a table, a chart, CSV, NDJSON, JSON, Parquet."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import msgspec
from rich.bar import Bar
from rich.table import Table as Grid
from rich.text import Text

from tidetable.exact_json import encode_json, show_text
from tidetable.query.render import flatten_row

Row = Mapping[str, Any]
# The form by the ending of a file's name.
_BY_NAME = {".csv": "csv", ".parquet": "parquet", ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "json"}
FORMS = ("table", "chart", "csv", "ndjson", "json", "parquet")
# A spreadsheet would execute a text that begins with one of these characters (docs/decisions/0035).
_FORMULA = re.compile("[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_BAR_WIDTH = 50
# Columns that do not help a reader of a table.
_HIDDEN = frozenset({"ref"})


def make_table(rows: Sequence[Row]) -> Grid:
    """Show rows as a table with a column per field.

    Names and values stay unchanged, because Rich does not read marks in Text.
    """
    flat = [flatten_row(dict(row)) for row in rows]
    grid = Grid()
    names = [name for name in dict.fromkeys(name for row in flat for name in row) if name not in _HIDDEN]
    for name in names:
        is_number = all(isinstance(row.get(name, 0), int | float | Decimal) for row in flat)
        grid.add_column(Text(name.removeprefix("data.")), justify="right" if is_number else "left", overflow="fold")
    for row in flat:
        grid.add_row(*(Text(write_cell(row.get(name))) for name in names))
    return grid


def make_chart(rows: Sequence[Row], field: str) -> Grid:
    """Draw a bar per row, as long as the number of ``field``; ValueError if no row has a number there."""
    flat = [flatten_row(dict(row)) for row in rows]
    path = field if any(field in row for row in flat) else f"data.{field}"
    numbers = [_read_number(row.get(path)) for row in flat]
    known = [number for number in numbers if number is not None]
    if not known:
        raise ValueError(f"no row has a number in {field}")
    low, high = min(0.0, *known), max(0.0, *known)
    grid = Grid.grid(padding=(0, 1))
    for row, number in zip(flat, numbers, strict=True):
        label = str(row.get("start") or row.get("time") or "")[:19]
        groups = [write_cell(value) for name, value in row.items() if name.startswith("group.") or name == "series"]
        bar = (
            ""
            if number is None
            else Bar(high - low or 1.0, min(0.0, number) - low, max(0.0, number) - low, width=_BAR_WIDTH)
        )
        grid.add_row(Text(label), Text(" ".join(groups)), "" if number is None else f"{number:,g}", bar)
    return grid


def write_csv(rows: Iterable[Row], file: IO[str], *, escape: bool = True) -> int:
    """Write rows as CSV, a column per field; return the number of rows.

    With ``escape`` a text that a spreadsheet would execute gets an apostrophe. Without it, an import reads the same
    text again.
    """
    flat = [flatten_row(dict(row)) for row in rows]
    names = list(dict.fromkeys(name for row in flat for name in row))
    writer = csv.writer(file)
    writer.writerow(names)
    cell = _escape_formula if escape else write_cell
    writer.writerows([cell(row.get(name)) for name in names] for row in flat)
    return len(flat)


def write_lines(rows: Iterable[Row], file: IO[str]) -> int:
    """Write rows as NDJSON; return the number of rows."""
    count = 0
    for row in rows:
        file.write(encode_json(row).decode() + "\n")
        count += 1
    return count


def write_document(rows: Sequence[Row] | Row, file: IO[str]) -> int:
    """Write rows as a JSON array, or an object; return the number of rows."""
    file.write(msgspec.json.format(encode_json(rows), indent=2).decode() + "\n")
    return len(rows)


def write_parquet(table: Any, path: Path) -> int:
    """Write an Arrow table as Parquet; return the number of rows."""
    import pyarrow as pa
    from pyarrow import parquet

    arrow = pa.table(table)
    parquet.write_table(arrow, path, compression="zstd")
    return int(arrow.num_rows)


def write_cell(value: Any) -> str:
    """Write a value as text; objects and lists become JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float | Decimal) else show_text(value)


def choose_form(form: str | None, out: Path | None) -> str:
    """Choose the form of a command's output: the named form, or the form of the file's ending; otherwise ValueError."""
    if form is None and out is not None:
        form = _BY_NAME.get(out.suffix.lower())
        if form is None:
            raise ValueError(
                f"the name of {out} does not show the format: end it with .csv, .parquet, .ndjson or .json"
            )
    form = form or "table"
    if form not in FORMS:
        raise ValueError(f"--form {form}: use {', '.join(FORMS)}")
    if form == "parquet" and out is None:
        raise ValueError("Parquet is written to a file: add --out events.parquet")
    return form


def _escape_formula(value: Any) -> str:
    text = write_cell(value)
    return f"'{text}" if isinstance(value, str) and _FORMULA.match(text) else text


def _read_number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None
