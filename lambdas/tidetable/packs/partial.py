"""Read only the needed columns of a pack: most reads of whole ranges need two fields of ten, and no ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from itertools import compress
from typing import Any

import msgspec

from tidetable.exact_json import are_texts, decode_json
from tidetable.layout import find_plain
from tidetable.packs.body import (
    DECODE,
    FORMAT,
    FORMATS,
    DamagedPack,
    PackBody,
    PackColumns,
    decode_texts,
    read_times,
    unpack_ids,
)
from tidetable.packs.ids import DERIVED, DERIVED_TIMELESS, HEXADECIMAL, TEXT, UUIDS

# The bytes of an id that is kept as hexadecimal digits.
_ID_BYTES = 16
_IDS = frozenset({TEXT, HEXADECIMAL, UUIDS, DERIVED, DERIVED_TIMELESS})
_NUMBERS = b"0123456789.-\n"
# The kinds of values of JSON by their first characters; any other character begins a number.
_KINDS = {b'"': "string", b"t": "boolean", b"f": "boolean", b"n": "null", b"{": "object", b"[": "array"}


class PartialPack:
    """The events of a body, in the order of their places. Times and series are decoded, everything else on demand.

    DamagedPack if the body cannot be read, also if only a column is damaged that nobody needs: what an answer says
    about a pack must not depend on the question.
    """

    def __init__(self, body: bytes, format: int) -> None:
        if format not in FORMATS:
            raise DamagedPack(
                f"it is of the format {format}, this reads the format {FORMAT}; deploy the version that wrote it"
            )
        try:
            self._body = decoded = DECODE(body)
            self.times: Sequence[str] = read_times(decoded)
            self.count = len(self.times)
            numbers, names = decoded.which_series, decoded.series
            self._names = frozenset(names)
            self.series: Sequence[str] = [names[number] for number in numbers] if numbers else names * self.count
            self._refuse_damage()
        except (msgspec.DecodeError, ValueError, IndexError, TypeError) as error:
            raise DamagedPack(f"its body cannot be read: {error}") from error

    @property
    def ats(self) -> Sequence[int] | None:
        """The times when the events were accepted, in epoch milliseconds; None if they were accepted together."""
        return self._body.ats or None

    @cached_property
    def texts(self) -> Sequence[str]:
        """The JSON of each event's data."""
        body = self._body
        return decode_texts(body.shapes, body.which_shape, body.columns, self.count)

    def render(self, split: Callable[[bytes], Sequence[str]], around: str) -> Sequence[str]:
        """Render each event's data in another form than JSON: see ``decode_texts``. ``split`` may raise ValueError."""
        body = self._body
        return decode_texts(body.shapes, body.which_shape, body.columns, self.count, split, around)

    @cached_property
    def ids(self) -> Sequence[str]:
        """The ids of the events. Ids that are derived from the content cost a hash each."""
        # The texts are only needed for derived ids.
        derived = self._body.ids in (DERIVED, DERIVED_TIMELESS)
        return unpack_ids(self._body, self.times, self.series, self.texts if derived else ())

    def has_any(self, series: Sequence[str]) -> bool:
        """True if the pack has events of any of these series."""
        return not self._names.isdisjoint(series)

    def find_events(self, series: Sequence[str]) -> PackColumns:
        """Find the events of some series. A pack without them is not decoded further."""
        if not self.has_any(series):
            return PackColumns((), (), (), ())
        flags = list(map(frozenset(series).__contains__, self.series))
        columns = [self.times, self.series, self.ids, self.texts, self.ats]
        return PackColumns._make([None if column is None else list(compress(column, flags)) for column in columns])

    def read_field(self, path: str) -> Sequence[Any]:
        """Read the plain value of a field, by its path, of each event: a text, a number, a boolean or None."""
        top, _, rest = path.partition(".")
        try:
            if not self.has_columns:
                return [find_plain(data, path) for data in self._rows]
            return self._read_shapes(lambda own, count: _read_column(own[top], rest) if top in own else [None] * count)
        except (ValueError, ArithmeticError) as error:
            raise DamagedPack(f"its body cannot be read: {error}") from error

    @property
    def has_columns(self) -> bool:
        """True if no event is kept as a row."""
        shapes = self._body.shapes
        return None not in shapes and (len(shapes) == 1 or bool(self._body.which_shape))

    def list_kinds(self) -> Sequence[frozenset[tuple[str, str]]]:
        """List the names and the kinds of the fields of each event, if the pack has columns."""
        return self._read_shapes(_list_kinds)

    def _read_shapes(self, read: Callable[[Mapping[str, bytes], int], Sequence[Any]]) -> Sequence[Any]:
        """Read values of the columns of each shape and the number of its events; return them in the order of all events."""
        columns, numbers = iter(self._body.columns), self._body.which_shape
        found: list[Sequence[Any]] = []
        for number, shape in enumerate(self._body.shapes):
            own = {name: next(columns) for name in shape or ()}
            found.append(read(own, numbers.count(number) if numbers else self.count))
        if not numbers:
            return found[0]
        following = [iter(values) for values in found]
        return [next(following[number]) for number in numbers]

    @cached_property
    def _rows(self) -> list[Any]:
        return [decode_json(text) for text in self.texts]

    def _refuse_damage(self) -> None:
        """Raise ValueError or IndexError if ``decode_body`` would not decode the body."""
        body = self._body
        counts = [body.which_shape.count(number) for number in range(len(body.shapes))]
        if not body.which_shape:
            counts = [self.count]
        zeros = body.zeros or [b""] * len(body.columns)
        if len(zeros) != len(body.columns):
            raise ValueError("its zeros are not of its columns")
        columns = zip(body.columns, zeros, strict=True)
        for shape, count in zip(body.shapes, counts, strict=False):
            for _ in (None,) if shape is None else shape:
                column, zeros_of = next(columns, (None, b""))
                if column is None or column.count(b"\n") + 1 != count or len(zeros_of) not in (0, count):
                    raise ValueError("its columns differ in length")
                if not column.isascii():
                    column.decode()
        if body.which_shape and (len(body.which_shape) != self.count or sum(counts) != self.count):
            raise ValueError("its columns differ in length")
        if not body.shapes or len(self.series) != self.count or (body.ats and len(body.ats) != self.count):
            raise ValueError("its columns differ in length")
        _refuse_ids(body, self.count)


def _refuse_ids(body: PackBody, count: int) -> None:
    if body.ids not in _IDS:
        raise ValueError(f"ids of the unknown kind {body.ids}")
    if body.ids == TEXT:
        kept, wanted = len(body.id_texts), count
    else:
        kept, rest = divmod(len(body.id_bytes), _ID_BYTES)
        wanted = len(body.others) if body.ids in (DERIVED, DERIVED_TIMELESS) else count
        kept += bool(rest)
        if body.others and max(body.others) >= count:
            raise IndexError("an id of no event")
    if kept != wanted:
        raise ValueError("its ids are not as many as its events")


def _list_kinds(columns: Mapping[str, bytes], count: int) -> Sequence[frozenset[tuple[str, str]]]:
    """List the names and the kinds of the values of columns of JSON, for each of ``count`` lines."""
    kinds: list[Sequence[str]] = []
    for column in columns.values():
        if are_texts(column):
            kinds.append(["string"] * count)
        elif not column.translate(None, _NUMBERS):
            kinds.append(["number"] * count)
        else:
            kinds.append([_KINDS.get(line[:1], "number") for line in column.split(b"\n")])
    rows = list(zip(*kinds, strict=True)) if kinds else [()] * count
    known = {row: frozenset(zip(columns, row, strict=True)) for row in {*rows}}
    return [known[row] for row in rows]


def _read_column(column: bytes, rest: str) -> Sequence[Any]:
    """Read a column of JSON, a line per value; of objects, the value at the path ``rest``."""
    if not rest:
        if not column.translate(None, _NUMBERS):
            # Lines of numbers only, without an exponent: an exponent is rare, and the lines below read it.
            return list(map(Decimal if b"." in column else int, column.decode().split("\n")))
        # One call for all is faster than a call for each. No line feed is in a text of JSON.
        values: list[Any] = decode_json(b"[" + column.replace(b"\n", b",") + b"]")
        if len(values) != column.count(b"\n") + 1:
            raise ValueError("a line is not a value")
        if not {dict, list}.isdisjoint(map(type, values)):
            values = [None if isinstance(value, dict | list) else value for value in values]
        return values
    lines = column.decode().split("\n")
    known = {line: find_plain({"": decode_json(line)}, f".{rest}") for line in set(lines)}
    return [known[line] for line in lines]
