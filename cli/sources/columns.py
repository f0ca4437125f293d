"""The mapping of a file's columns to the fields of an event."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from cli.sources.row import SourceError
from cli.sources.times import UNITS, check_format, parse_epoch, parse_formatted, parse_text
from tidetable.errors import InvalidRef
from tidetable.layout import Ref

# A name in a path, in quotes or plain (tidetable.query.render).
_STEP = re.compile(r'(?:^|\.)(?:"((?:[^"]|"")*)"(?=\.|$)|([^.]*))')
_EVENT = frozenset({"series", "time", "id", "data", "ref"})


@dataclass(frozen=True)
class Columns:
    """The columns that are an event's series, time and id; all other columns are its data.

    ``series`` may be ``=text``, the series of every row. ``time_unit`` is the unit of times that are numbers,
    ``time_format`` the form of times as text for strptime. With ``utc``, a time without an offset is read as UTC. CSV
    columns in ``text`` stay text, even if they look like numbers.
    """

    series: str | None = None
    time: str | None = None
    id: str | None = None
    time_unit: str | None = None
    utc: bool = False
    text: tuple[str, ...] = ()
    time_format: str | None = None

    def check(self) -> None:
        """Raise SourceError if an option cannot be used."""
        if self.time_unit is not None and self.time_unit not in UNITS:
            raise SourceError(f"--time-unit {self.time_unit}: use s, ms, us or ns")
        if self.time_format is not None and self.time_unit is not None:
            raise SourceError("use either --time-unit or --time-format")
        if self.time_format is not None:
            try:
                check_format(self.time_format)
            except ValueError as error:
                raise SourceError(f"--time-format {self.time_format}: {error}") from error

    @property
    def names(self) -> frozenset[str]:
        """The names of the columns that are not data."""
        return frozenset({self.series or "series", self.time or "time", self.id or "id"})

    def find_event(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Make the event of an object, which may be an event already; ValueError says what it lacks."""
        is_plain = self.series is None and self.time is None and self.id is None
        if is_plain and "series" in value and value.keys() <= _EVENT and _is_ref(value.get("ref")):
            return self._complete_event(value)
        return self.make_event(value)

    def make_event(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Make the event of a row; ValueError says what the row lacks."""
        data = dict(row)
        event: dict[str, Any] = {}
        series = self.series or "series"
        if series.startswith("="):
            event["series"] = series[1:]
        else:
            event["series"] = _read_name(series, _take_column(data, series, "--series"))
        event["time"] = self.read_time(_take_column(data, self.time or "time", "--time"))
        id = data.pop(self.id or "id", None) if self.id is None else _take_column(data, self.id, "--id")
        if id is not None:
            event["id"] = _read_name(self.id or "id", id)
        event["data"] = _nest_fields(data)
        return event

    def _complete_event(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """Check an event that has its fields already.

        It needs a time: without a time, a second import would double it.
        """
        if event.get("time") is None:
            raise ValueError("the event has no time: name its column with --time")
        fields = {name: value for name, value in event.items() if name != "ref"}
        return {**fields, "time": self.read_time(event["time"])}

    def read_time(self, value: Any) -> str | int:
        """Read a time as the API takes it: RFC 3339 with an offset, or epoch milliseconds; ValueError otherwise."""
        if isinstance(value, bool):
            raise ValueError(f"the time {value} is neither text nor a number")
        if self.time_format is not None:
            return parse_formatted(str(value), self.time_format, utc=self.utc)
        number = parse_epoch(value, self.time_unit)
        return number if number is not None else parse_text(value, utc=self.utc)


def _take_column(data: dict[str, Any], name: str, option: str) -> Any:
    value = data.pop(name, None)
    if value is None:
        raise ValueError(f"the row has no {name}: name its column with {option}")
    return value


def _read_name(column: str, value: Any) -> str:
    """Return a series or an id as text; ValueError if it is neither a text nor a number."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not Decimal(value).is_finite():
        raise ValueError(f"{column}: a series or id is a text or a number, not {str(value)[:40]}")
    return str(value)


def _is_ref(value: Any) -> bool:
    """True for a ref of an export, which the API computes from the event, and for None. Any other value is data."""
    if not isinstance(value, str):
        return value is None
    try:
        Ref.decode(value)
    except InvalidRef:
        return False
    return True


def _nest_fields(data: Mapping[str, Any]) -> dict[str, Any]:
    """Convert columns of a flat export, such as ``data.place.state``, to nested objects; other columns stay unchanged."""
    # Most rows have neither of them.
    if "ref" not in data and "\ndata." not in "\n".join(["", *data]):
        return dict(data)
    nested: dict[str, Any] = {}
    for name, value in data.items():
        if name == "ref" and _is_ref(value):
            continue
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
