"""Answers as typed columns, for Arrow. Every page of a query has the same columns, whatever its rows hold.

The type of a column comes from the configuration (``archive.columns``) or from the API's description. A value that its
column cannot hold exactly stays in a column of JSON, as in the archive's files. Its own column then has null or the
nearest double.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import msgspec

from tidetable.config.columns import parse_decimal
from tidetable.exact_json import EXACT, decode_json, encode_json, show_text
from tidetable.ports import TypedColumn
from tidetable.query.model import Projection
from tidetable.times import from_text, to_micros

# The columns of every event.
_NAMES = {"series": "string", "time": "time", "id": "string"}
_REST = {"data": "string", "ref": "string", "incomplete": "boolean"}
# The columns of a ranking that come before the columns of its events.
_RANKS = {"rank": "integer", "value": "double"}
_RESERVED = frozenset({*_NAMES, *_REST, *Projection(versions=True).version_columns})
# The kinds of the columns of other answers. In a column of text, a value that is not text is shown as JSON.
Kind = Literal["text", "time", "integer", "number"]
# Up to this number a double stores every whole number exactly.
_WHOLE = 2**53
_LONG = 2**63
_EMPTY = "{}"


class _Shown(msgspec.Struct, gc=False):
    """An event of an answer; its data stays JSON."""

    series: str
    time: datetime
    id: str
    ref: str
    data: msgspec.Raw = msgspec.Raw(b"{}")
    version: int | None = None
    newest: bool | None = None
    accepted: datetime | None = None
    incomplete: bool = False
    versions_left_out: int | None = None
    rank: int | None = None
    # A ranking's number, as the nearest double.
    value: float | None = None


_decode = msgspec.json.Decoder(list[_Shown]).decode


class TypedTable(NamedTuple):
    """Columns, and how many values are in a column of JSON because their own column cannot hold them, by column."""

    columns: Sequence[TypedColumn]
    untyped: Mapping[str, int]


def type_events(
    joined: str, declared: Mapping[str, str], projection: Projection, *, ranked: bool = False
) -> TypedTable:
    """Make the columns of events. ``joined`` is the events as JSON objects, with commas between them.

    The columns are series, time and id, then each declared field that is shown, then ``data`` with all other fields as
    JSON, then ref and similar columns. A declared field that has the name of another column stays in ``data``.
    """
    events = _decode(f"[{joined}]")
    own = (_RANKS if ranked else {}) | _NAMES
    fields = {name: kind for name, kind in declared.items() if name not in _RESERVED | own.keys()}
    fields = {name: kind for name, kind in fields.items() if projection.shows_field(name)}
    rest = {**_REST, **projection.version_columns}
    typed, texts, untyped = _split_columns((event.data for event in events), fields)
    columns = [_type_column(events, name, kind) for name, kind in own.items()]
    columns += [TypedColumn(name, kind, values) for (name, kind), values in zip(fields.items(), typed, strict=True)]
    columns += [
        TypedColumn(name, kind, texts) if name == "data" else _type_column(events, name, kind)
        for name, kind in rest.items()
    ]
    return TypedTable(columns, untyped)


def type_rows(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], kinds: Mapping[str, Kind], declared: Mapping[str, str]
) -> TypedTable:
    """Make the columns ``names`` of rows that are not events.

    A column without a kind holds numbers, as the nearest doubles. Columns ``group.NAME`` are the members of a row's
    ``group``. If such a column cannot hold a value, the value is in the column ``group``, as JSON.
    """
    groups = [name.partition(".")[2] for name in names if name.startswith("group.")]
    types = {group: "string" if group == "series" else declared.get(group, "string") for group in groups}
    typed, texts, untyped = _split_columns((encode_json(row.get("group", {})) for row in rows), types)
    columns = []
    for name in names:
        _, _, group = name.partition("group.")
        if group in types:
            columns.append(TypedColumn(name, types[group], typed[groups.index(group)]))
        else:
            kind, convert = _CONVERTERS[kinds.get(name, "number")]
            values = [None if (value := row.get(name)) is None else convert(value) for row in rows]
            columns.append(TypedColumn(name, kind, values))
    if groups:
        columns.append(TypedColumn("group", "string", texts))
    return TypedTable(columns, {f"group.{name}": count for name, count in untyped.items()})


def _type_column(events: Sequence[_Shown], name: str, kind: str) -> TypedColumn:
    values = [getattr(event, name) for event in events]
    if kind == "time":
        values = [None if value is None else to_micros(value) for value in values]
    return TypedColumn(name, kind, values)


def _split_columns(
    objects: Iterable[bytes | msgspec.Raw], fields: Mapping[str, str]
) -> tuple[list[list[Any]], list[str], Mapping[str, int]]:
    """Split objects into the columns of ``fields`` and the other fields as JSON; also count the values that did not fit,
    by field.
    """
    if not fields:
        return [], [bytes(data).decode() for data in objects], {}
    columns: list[list[Any]] = [[] for _ in fields]
    takers = [
        (name, _choose_converter(kind), kind == "double", column.append)
        for (name, kind), column in zip(fields.items(), columns, strict=True)
    ]
    rest: list[str] = []
    untyped: dict[str, int] = {}
    for json in objects:
        data = decode_json(bytes(json))
        for name, convert, rounds, append in takers:
            value = data.get(name)
            fitted = None if value is None else convert(value)
            append(fitted)
            if fitted is not None and not (rounds and _is_rounded(value, fitted)):
                del data[name]
            elif value is not None:
                untyped[name] = untyped.get(name, 0) + 1
        rest.append(encode_json(data).decode() if data else _EMPTY)
    return columns, rest, untyped


def _choose_converter(kind: str) -> Callable[[Any], Any]:
    """Choose the function that converts a value for a column of this type; it returns None if the column cannot hold
    the value.

    Only the function for doubles may round.
    """
    if (decimal := parse_decimal(kind)) is not None:
        return _make_decimal_converter(*decimal)
    return _FITTING[kind]


def _convert_whole(value: Any) -> int | None:
    if type(value) is Decimal and value == value.to_integral_value(context=EXACT):
        value = int(value)
    return value if type(value) is int and -_LONG <= value < _LONG else None


def _is_rounded(value: int | Decimal, double: float) -> bool:
    """True if a double differs from the value. The shortest text of a double is the number that a reader sees."""
    if type(value) is int and -_WHOLE <= value <= _WHOLE:
        return False
    return Decimal(repr(double)) != value


def _make_decimal_converter(precision: int, scale: int) -> Callable[[Any], int | None]:
    most = 10**precision

    def convert(value: Any) -> int | None:
        if type(value) not in (int, Decimal):
            return None
        unscaled = EXACT.scaleb(Decimal(value), scale)
        whole = unscaled == unscaled.to_integral_value(context=EXACT)
        return int(unscaled) if whole and abs(unscaled) < most else None

    return convert


# For each type of a declared column, except decimals: the function that converts a value.
_FITTING: Mapping[str, Callable[[Any], Any]] = {
    "string": lambda value: value if isinstance(value, str) else None,
    "boolean": lambda value: value if isinstance(value, bool) else None,
    "integer": _convert_whole,
    "double": lambda value: float(value) if type(value) in (int, Decimal) else None,
}
# For each kind of column: its type, and the function that makes its values.
_CONVERTERS: Mapping[Kind, tuple[str, Callable[[Any], Any]]] = {
    "text": ("string", show_text),
    "time": ("time", lambda text: to_micros(from_text(text))),
    "integer": ("integer", int),
    "number": ("double", float),
}
