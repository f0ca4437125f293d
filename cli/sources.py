"""Read the rows of a file as events: NDJSON, CSV or Parquet. Columns are mapped to the fields of an event."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_FLOOR, Decimal
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

from tidetable.exact import decode_json

FORMATS = {
    ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".csv": "csv", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
# A name in a path, in quotes or plain (tidetable.query.render).
_STEP = re.compile(r'(?:^|\.)(?:"((?:[^"]|"")*)"(?=\.|$)|([^.]*))')
# A time after the year 9998 has more digits, in every unit.
_MOST_DIGITS = 30
# The number of milliseconds in a unit of time.
_UNITS = {"s": Decimal(1000), "ms": Decimal(1), "us": Decimal("0.001"), "ns": Decimal("0.000001")}


class SourceError(Exception):
    """The file cannot be read; the message says what to do."""


@dataclass(frozen=True)
class Columns:
    """The columns that are an event's series, time and id; all other columns are its data.

    ``series`` may be ``=text``, the series of every row. ``time_unit`` is the unit of times that are numbers. With
    ``utc``, a time without an offset is read as UTC. CSV columns in ``text`` stay text, even if they look like numbers.
    """

    series: str | None = None
    time: str | None = None
    id: str | None = None
    time_unit: str = "ms"
    utc: bool = False
    text: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """True if no column is mapped, so that a line of NDJSON may be an event already."""
        return self.series is None and self.time is None and self.id is None

    def make_event(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Make the event of a row; ValueError says what the row lacks."""
        data = dict(row)
        event: dict[str, Any] = {}
        series = self.series or "series"
        event["series"] = series[1:] if series.startswith("=") else _take_column(data, series, "--series")
        if not isinstance(event["series"], str):
            event["series"] = str(event["series"])
        event["time"] = self._read_time(_take_column(data, self.time or "time", "--time"))
        id = data.pop(self.id or "id", None) if self.id is None else _take_column(data, self.id, "--id")
        if id is not None:
            event["id"] = id if isinstance(id, str) else str(id)
        event["data"] = _nest_fields({name: value for name, value in data.items() if value is not None})
        return event

    def complete(self, event: dict[str, Any]) -> dict[str, Any]:
        """Check an event that has its fields already.

        It needs a time: without a time, a second import would double it.
        """
        if event.get("time") is None:
            raise ValueError("the event has no time: name its column with --time")
        fields = {name: value for name, value in event.items() if name != "ref"}
        return {**fields, "time": self._read_time(event["time"])}

    def _read_time(self, value: Any) -> Any:
        if isinstance(value, datetime):
            if value.tzinfo is None and not self.utc:
                raise ValueError(f"the time {value.isoformat()} has no offset: --utc reads such times as UTC")
            return (value if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()
        if isinstance(value, str) and _NUMBER.fullmatch(value):
            value = Decimal(value)
        if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
            return self._read_epoch(Decimal(str(value)))
        if self.utc and isinstance(value, str) and not re.search(r"(Z|[+-]\d\d:?\d\d)$", value, re.IGNORECASE):
            return f"{value.replace(' ', 'T')}Z"
        return value

    def _read_epoch(self, number: Decimal) -> Any:
        """Convert a number to epoch milliseconds.

        Finer times become text, because the API accepts only whole milliseconds.
        """
        if not (number.is_finite() and number.adjusted() < _MOST_DIGITS):
            raise ValueError(f"the time {str(number)[:40]} lies outside the years 1970 to 9998")
        milliseconds = number * _UNITS[self.time_unit]
        if milliseconds == milliseconds.to_integral_value():
            return int(milliseconds)
        # Rounded down, also before 1970.
        seconds, rest = divmod(int((milliseconds * 1000).to_integral_value(ROUND_FLOOR)), 1_000_000)
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"


@dataclass(frozen=True)
class Row:
    """A row: its ``number`` from 0, the bytes or rows of the file that were ``read`` so far, and its event or its
    problem.
    """

    number: int
    read: int
    event: dict[str, Any] | None
    problem: str = ""
    text: str = ""


@dataclass(frozen=True)
class Source:
    """A file to import. ``total`` is its size in the unit of ``Row.read``."""

    path: Path
    kind: str
    total: int
    read: Callable[[], Iterator[Row]]


def open_source(path: Path, kind: str | None, mapping: Columns) -> Source:
    """Open the source of a file; SourceError if its format is unknown or it cannot be opened."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = kind or FORMATS.get(suffixes[-1] if suffixes else "")
    if kind not in ("ndjson", "csv", "parquet"):
        raise SourceError(f"the name of {path} does not say its format: add --format ndjson, csv or parquet")
    if not path.is_file():
        raise SourceError(f"{path} is not a file")
    if mapping.time_unit not in _UNITS:
        raise SourceError(f"--time-unit {mapping.time_unit}: use s, ms, us or ns")
    if kind == "parquet":
        return Source(path, kind, _count_rows(path), lambda: _read_parquet(path, mapping))
    read = _read_ndjson if kind == "ndjson" else _read_csv
    return Source(path, kind, path.stat().st_size, lambda: read(path, mapping))


def _read_ndjson(path: Path, mapping: Columns) -> Iterator[Row]:
    with path.open("rb") as raw, _name_damage(path), _open_inflated(path, raw) as lines:
        number = 0
        for line in lines:
            if not line.strip():
                continue
            yield _make_row(number, raw.tell(), line, lambda line=line: _read_line(line, mapping))  # type: ignore[misc]
            number += 1


def _read_line(line: bytes, mapping: Columns) -> dict[str, Any]:
    value = decode_json(line.removeprefix(b"\xef\xbb\xbf"))
    if not isinstance(value, dict):
        raise ValueError("the line is not a JSON object")
    is_event = mapping.is_plain and "series" in value and value.keys() <= {"series", "time", "id", "data", "ref"}
    return mapping.complete(value) if is_event else mapping.make_event(value)


def _read_csv(path: Path, mapping: Columns) -> Iterator[Row]:
    with path.open("rb") as raw, _name_damage(path), _open_inflated(path, raw) as plain:
        reader = csv.DictReader(TextIOWrapper(plain, "utf-8-sig", newline=""))
        text_columns = {mapping.series, mapping.id, mapping.time, "series", "id", "time", *mapping.text}
        try:
            _refuse_duplicates(path, reader.fieldnames or ())
            for number, row in enumerate(reader):
                make_event = partial(_make_csv_event, row, mapping, text_columns)
                yield _make_row(number, raw.tell(), repr(row), make_event)
        except (csv.Error, UnicodeDecodeError) as error:
            raise SourceError(f"{path} is not CSV in UTF-8 after line {reader.line_num}: {error}") from error


def _refuse_duplicates(path: Path, names: Iterable[str]) -> None:
    """Raise SourceError if two columns have the same name, because only one of them would be imported."""
    earlier_names: set[str] = set()
    for name in names:
        if name and name in earlier_names:
            raise SourceError(f"{path}: two columns are called {name!r}: rename one")
        earlier_names.add(name)


def _make_csv_event(row: Mapping[str | None, Any], mapping: Columns, columns: set[str | None]) -> dict[str, Any]:
    return mapping.make_event(_type_cells(row, columns))


def _type_cells(row: Mapping[str | None, Any], columns: set[str | None]) -> dict[str, Any]:
    """Convert cells to values: an empty cell is left out, and a cell with a JSON number, true or false becomes that
    value.
    """
    if None in row:
        raise ValueError("the row has more cells than the header has columns")
    values: dict[str, Any] = {}
    for name, cell in row.items():
        if name is None or cell is None or cell == "":
            continue
        if name in columns:
            values[name] = cell
        elif cell in ("true", "false"):
            values[name] = cell == "true"
        else:
            values[name] = _read_number(name, cell) if _NUMBER.fullmatch(cell) else cell
    return values


def _read_number(name: str, cell: str) -> Any:
    """Read a cell with a JSON number; ValueError if no event can hold the number."""
    number = decode_json(cell.encode())
    if isinstance(number, Decimal) and not number.is_finite():
        raise ValueError(f"{name}: {cell[:40]} is a number that cannot be stored: --text {name} keeps it as text")
    return number


def _read_parquet(path: Path, mapping: Columns) -> Iterator[Row]:
    from pyarrow import parquet

    number = 0
    for batch in parquet.ParquetFile(path).iter_batches(batch_size=1000):
        for row in batch.to_pylist():
            yield _make_row(number, number + 1, repr(row), lambda row=row: mapping.make_event(row))  # type: ignore[misc]
            number += 1


def _count_rows(path: Path) -> int:
    from pyarrow import ArrowInvalid, parquet

    try:
        return int(parquet.ParquetFile(path).metadata.num_rows)
    except ArrowInvalid as error:
        raise SourceError(f"{path} is not Parquet: {error}") from error


def _make_row(number: int, read: int, text: str | bytes, make: Callable[[], dict[str, Any]]) -> Row:
    try:
        return Row(number, read, make())
    # A time outside of the calendar raises an ArithmeticError or an OSError.
    except (ValueError, RecursionError, ArithmeticError, OSError) as error:
        shown = text if isinstance(text, str) else text.decode(errors="replace").rstrip("\n")
        return Row(number, read, None, str(error), shown)


def _open_inflated(path: Path, raw: IO[bytes]) -> IO[bytes]:
    return gzip.open(raw, "rb") if path.suffix.lower() == ".gz" else raw  # type: ignore[return-value]


@contextmanager
def _name_damage(path: Path) -> Iterator[None]:
    """Turn gzip's error about a truncated or uncompressed file into SourceError."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SourceError(f"{path} cannot be decompressed: {error}") from error


def _take_column(data: dict[str, Any], name: str, option: str) -> Any:
    value = data.pop(name, None)
    if value is None:
        raise ValueError(f"the row has no {name}: name its column with {option}")
    return value


def _nest_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """Convert columns of a flat export, such as ``data.place.state``, to nested objects; other columns stay unchanged."""
    nested: dict[str, Any] = {}
    for name, value in data.items():
        if name == "ref":
            continue  # an export has a ref, which the API computes from the event
        *path, last = _split_path(name.removeprefix("data.")) if name.startswith("data.") else [name]
        inner = nested
        for step in path:
            inner = inner.setdefault(step, {})
            if not isinstance(inner, dict):
                break
        if not isinstance(inner, dict) or last in inner:
            raise ValueError(
                f"the column {name} and another column cannot both be stored: rename or remove one of them"
            )
        inner[last] = value
    return nested


def _split_path(path: str) -> list[str]:
    """Split a path into its names. An export quotes a name that contains a dot, such as ``"v1.5".load``."""
    return [
        plain if quoted is None else quoted.replace('""', '"')
        for quoted, plain in (match.groups() for match in _STEP.finditer(path))
    ]
