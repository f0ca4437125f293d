"""Events as columns: the needed parts of the events of one page or of one pack, without an object per event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import chain, compress
from typing import Any

import msgspec
from msgspec.structs import replace

from tidetable.conditions import ANY, Condition, NameConditions
from tidetable.events import JsonObject
from tidetable.exact_json import decode_json
from tidetable.layout import escape, find_plain, find_value

# An event: its time as text, its series, its id and its data, which may be JSON as text.
Row = tuple[str, str, str, Any]
# A list of the flags of events: which of them are chosen.
Flags = Sequence[bool]
# The path of an event's whole data. In its column, a value is the data, or its JSON as text.
DATA = ""
# The path of the kinds of all of an event's fields. In its column, a value has the name and the kind of each field. A
# reader that asks for it gets either all columns that it asked for, or only ``DATA``. ``spread_data`` makes the columns
# from ``DATA``.
KINDS = "."
_KINDS: Mapping[type, str] = {
    str: "string", bool: "boolean", int: "number", Decimal: "number", dict: "object", list: "array",
}  # fmt: skip


class FieldColumns(msgspec.Struct):
    """Events in the order of time: their times as text, their series, and the columns of the needed fields by path.

    A value is a text, a number, a boolean or None. ``list_ids`` makes the ids, which are seldom needed.
    """

    times: Sequence[str]
    series: Sequence[str]
    values: Mapping[str, Sequence[Any]]
    list_ids: Callable[[], Sequence[str]]
    _ids: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.times)

    @property
    def ids(self) -> Sequence[str]:
        """The ids of the events, made at the first use."""
        if self._ids is None:
            self._ids = self.list_ids()
        return self._ids

    def make_place(self, number: int) -> str:
        """Make the place of an event in the order of all events: time, series and id."""
        return f"{self.times[number]}#{escape(self.series[number])}#{escape(self.ids[number])}"

    def cut(self, start: int, end: int) -> FieldColumns:
        """Return the events from ``start`` up to ``end``."""
        if start == 0 and end == len(self):
            return self
        values = {path: column[start:end] for path, column in self.values.items()}
        return FieldColumns(self.times[start:end], self.series[start:end], values, lambda: self.ids[start:end])

    def where(self, flags: Flags) -> FieldColumns:
        """Return the events whose flag is true."""
        values = {path: list(compress(column, flags)) for path, column in self.values.items()}
        times, series = list(compress(self.times, flags)), list(compress(self.series, flags))
        return FieldColumns(times, series, values, lambda: list(compress(self.ids, flags)))

    def select(self, names: NameConditions, conditions: Sequence[Condition] = ()) -> FieldColumns:
        """Return the events that meet conditions on names and on fields, whose columns must be there."""
        found = self
        if names != ANY:
            if names.ids or names.id_prefix:
                flags: Flags = list(map(names.hold, found.series, found.ids))
            else:
                held = {series: names.hold(series, "") for series in set(found.series)}
                flags = [held[series] for series in found.series]
            found = found if all(flags) else found.where(flags)
        for condition in conditions:
            flags = _check_column(condition, found.values[condition.field])
            found = found if all(flags) else found.where(flags)
        return found

    def rows(self) -> list[Row]:
        """Return the events as rows. The column of the whole data must be there."""
        return list(zip(self.times, self.series, self.ids, self.list_data(), strict=True))

    def list_data(self) -> list[JsonObject]:
        """Return the whole data of the events, whose column must be there."""
        datas = self.values.get(DATA, ())
        if set(map(type, datas)) == {str}:
            # One call for all is faster than a call for each.
            decoded: list[JsonObject] = decode_json(f"[{','.join(datas)}]")
            return decoded
        return [decode_json(data) if isinstance(data, str) else data for data in datas]


def join_columns(parts: Sequence[FieldColumns]) -> FieldColumns:
    """Join events that have the same columns. They are in no order any more."""
    values = {path: _join([part.values[path] for part in parts]) for path in parts[0].values}
    times, series = _join([part.times for part in parts]), _join([part.series for part in parts])
    return FieldColumns(times, series, values, lambda: _join([part.ids for part in parts]))


def _join(parts: Iterable[Sequence[Any]]) -> Sequence[Any]:
    return list(chain.from_iterable(parts))


def spread_data(columns: FieldColumns, fields: Sequence[str]) -> FieldColumns:
    """Return events with the columns of these fields, if they have the column of their whole data instead."""
    if DATA not in columns.values:
        return columns
    datas = columns.list_data()
    return replace(columns, values={path: _list_values(datas, path) for path in fields})


def _list_values(datas: Sequence[JsonObject], path: str) -> Sequence[Any]:
    """List the values of a field in the data of events; None where the field is missing."""
    if path == KINDS:
        shapes = [(tuple(data), tuple(map(type, data.values()))) for data in datas]
        known = {
            (names, kinds): frozenset(zip(names, map(name_kind, kinds), strict=True)) for names, kinds in {*shapes}
        }
        return [known[shape] for shape in shapes]
    if "." in path:
        return [find_value(data, path) for data in datas]
    return [data.get(path) for data in datas]


def name_kind(type: type) -> str:
    """Name the kind of the values of a type in JSON, such as ``string``."""
    return _KINDS.get(type, "null")


def make_columns(rows: Iterable[Row], fields: Sequence[str]) -> FieldColumns:
    """Make the columns of rows, which may come in any order."""
    ordered = sorted(rows, key=_find_place)
    values = {path: [row[3] if path == DATA else find_plain(row[3], path) for row in ordered] for path in fields}
    return FieldColumns(
        [row[0] for row in ordered], [row[1] for row in ordered], values, lambda: [row[2] for row in ordered]
    )


def _find_place(row: Row) -> str:
    return f"{row[0]}#{escape(row[1])}#{escape(row[2])}"


def _check_column(condition: Condition, column: Sequence[Any]) -> Flags:
    """Check a condition once for each value of a column. The type counts, too: True equals 1."""
    name = condition.field.rpartition(".")[2]
    alone = condition._replace(field=name)
    held: dict[tuple[type, Any], bool] = {}
    flags = []
    for value in column:
        key = (type(value), value)
        if key not in held:
            held[key] = alone.holds({name: value})
        flags.append(held[key])
    return flags
