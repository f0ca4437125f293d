"""Convert arrays of Arrow to values of JSON, exactly.

A value without an exact form becomes ``Unreadable`` with its reason. pyarrow's own conversion raises an error for the
whole array, or loses digits of it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from tidetable.exact_json import EXACT

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_DAY = 86_400
_EPOCH = date(1970, 1, 1)
_FIRST, _LAST = (date.min - _EPOCH).days, (date.max - _EPOCH).days
_WRAP = 2**64


@dataclass(frozen=True)
class Unreadable:
    """A value that has no form in JSON, and the reason."""

    reason: str


def read_values(array: Any, wide: Any = None) -> Sequence[Any]:
    """Convert an array. ``wide`` is the same array with milliseconds where the file has INT96, or None."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        values = read_values(array.storage)
        is_uuid = getattr(kind, "extension_name", "") == "arrow.uuid"
        return [_show_uuid(value) for value in array.storage.to_pylist()] if is_uuid else values
    if pa.types.is_dictionary(kind):
        return read_values(array.dictionary_decode())
    for is_kind, read in _READERS:
        if is_kind(kind):
            return read(array, wide)
    return _read_each(array, lambda scalar: scalar.as_py())


def read_text(array: Any, wide: Any = None) -> Sequence[Any]:
    """Convert an array of series, times or ids: bytes are text in UTF-8, because old files do not mark text."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if _is_binary(array.type):
        return _read_each(array, lambda scalar: None if scalar.as_py() is None else scalar.as_py().decode())
    return read_values(array, wide)


def _read_each(array: Any, convert: Callable[[Any], Any]) -> list[Any]:
    """Convert an array value by value, so that one value does not spoil the others."""
    values = []
    for scalar in array:
        try:
            values.append(convert(scalar))
        except (ValueError, OverflowError, TypeError, NotImplementedError) as error:
            values.append(Unreadable(f"the value cannot be read: {error}"))
    return values


def _read_plain(array: Any, _: Any) -> Sequence[Any]:
    try:
        values: list[Any] = array.to_pylist()
    except ValueError:  # text that is not UTF-8
        return _read_each(array, lambda scalar: scalar.as_py())
    return values


def _read_floats(array: Any, _: Any) -> Sequence[Any]:
    return [None if value is None else float(value) for value in array.to_pylist()]


def _read_binary(array: Any, _: Any) -> Sequence[Any]:
    return [None if value is None else b64encode(value).decode() for value in array.to_pylist()]


def _read_whole(array: Any, bits: int = 64) -> list[int | None]:
    """Read the whole numbers with which Arrow stores times."""
    whole: list[int | None] = array.view(pa.int32() if bits == 32 else pa.int64()).to_pylist()
    return whole


def _read_timestamps(array: Any, wide: Any) -> Sequence[Any]:
    digits, end = _DIGITS[array.type.unit], "" if array.type.tz is None else "Z"
    values = _read_whole(array)
    if wide is not None and wide.type.unit != array.type.unit:
        # The nanoseconds are correct but for a multiple of 2**64, and the milliseconds say which multiple.
        values = [
            None if value is None or coarse is None else coarse * 10**6 + (value - coarse * 10**6) % _WRAP
            for value, coarse in zip(values, _read_whole(wide), strict=True)
        ]
    return [None if value is None else _show_instant(value, digits, end) for value in values]


def _show_instant(value: int, digits: int, end: str) -> str | Unreadable:
    seconds, rest = divmod(value, 10**digits)
    days, second = divmod(seconds, _DAY)
    shown = _show_day(days)
    return shown if isinstance(shown, Unreadable) else f"{shown}T{_show_clock(second, rest, digits)}{end}"


def _show_day(days: int) -> str | Unreadable:
    if not _FIRST <= days <= _LAST:
        return Unreadable("the date lies outside the years 1 to 9999")
    return (_EPOCH + timedelta(days=days)).isoformat()


def _show_clock(second: int, rest: int, digits: int) -> str:
    """Show a time of day, with as many groups of three digits as it needs."""
    text = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    while digits and rest % 1000 == 0:
        digits, rest = digits - 3, rest // 1000
    return f"{text}.{rest:0{digits}d}" if digits else text


def _read_dates(array: Any, _: Any) -> Sequence[Any]:
    if pa.types.is_date32(array.type):
        return [None if days is None else _show_day(days) for days in _read_whole(array, 32)]
    return [
        None
        if value is None
        else Unreadable("the date has a time of day")
        if value % (_DAY * 1000)
        else _show_day(value // (_DAY * 1000))
        for value in _read_whole(array)
    ]


def _read_times(array: Any, _: Any) -> Sequence[Any]:
    digits = _DIGITS[array.type.unit]
    return [None if value is None else _show_time(value, digits) for value in _read_whole(array, array.type.bit_width)]


def _show_time(value: int, digits: int) -> str | Unreadable:
    second, rest = divmod(value, 10**digits)
    return _show_clock(second, rest, digits) if 0 <= second < _DAY else Unreadable("the time of day has no such hour")


def _read_durations(array: Any, _: Any) -> Sequence[Any]:
    """Read durations as seconds."""
    digits = _DIGITS[array.type.unit]
    return [None if value is None else _show_seconds(value, digits) for value in _read_whole(array)]


def _show_seconds(value: int, digits: int) -> int | Decimal:
    whole, rest = divmod(value, 10**digits)
    return EXACT.scaleb(Decimal(value), -digits) if rest else whole


def _read_lists(array: Any, wide: Any) -> Sequence[Any]:
    values = read_values(pc.list_flatten(array), wide and pc.list_flatten(wide))
    return _cut(values, pc.list_value_length(array).to_pylist(), _pass_on)


def _read_maps(array: Any, wide: Any) -> Sequence[Any]:
    """Read maps: an object if all keys are text, otherwise pairs."""
    lists = _as_lists(array)
    lengths = pc.list_value_length(lists).to_pylist()
    entries = pc.list_flatten(lists)
    wides = (None, None) if wide is None else pc.list_flatten(_as_lists(wide)).flatten()
    keys, items = (read_values(inner, copy) for inner, copy in zip(entries.flatten(), wides, strict=True))
    is_text = _is_text(array.type.key_type)
    return _cut(list(zip(keys, items, strict=True)), lengths, _make_object if is_text else _make_pairs)


def _as_lists(array: Any) -> Any:
    kind = array.type
    entry = pa.struct([pa.field("key", kind.key_type), pa.field("value", kind.item_type)])
    return array.cast(pa.list_(entry))


def _cut(values: Sequence[Any], lengths: Iterable[int | None], make: Callable[[Sequence[Any]], Any]) -> list[Any]:
    """Cut the values of all lists into one list for each length; None if the length is None."""
    lists, place = [], 0
    for length in lengths:
        lists.append(None if length is None else make(values[place : place + length]))
        place += length or 0
    return lists


def _pass_on(values: Sequence[Any]) -> Any:
    """Return the values as a list; if one of them is unreadable, the list is."""
    return next((value for value in values if isinstance(value, Unreadable)), list(values))


def _make_pairs(entries: Sequence[tuple[Any, Any]]) -> Any:
    return _pass_on([_pass_on(entry) for entry in entries])


def _make_object(entries: Sequence[tuple[Any, Any]]) -> Any:
    pairs = _make_pairs(entries)
    if isinstance(pairs, Unreadable):
        return pairs
    made = dict(entries)
    return made if len(made) == len(entries) else Unreadable("a map has the same key twice")


def _read_structs(array: Any, wide: Any) -> Sequence[Any]:
    names = [field.name for field in array.type]
    if len({*names}) < len(names):
        return [Unreadable("two fields have the same name") if valid.as_py() else None for valid in array.is_valid()]
    wides = [None] * len(names) if wide is None else wide.flatten()
    columns = [read_values(inner, copy) for inner, copy in zip(array.flatten(), wides, strict=True)]
    rows: Iterable[tuple[Any, ...]] = zip(*columns, strict=True) if columns else [()] * len(array)
    return [
        _make_object(list(zip(names, row, strict=True))) if valid.as_py() else None
        for row, valid in zip(rows, array.is_valid(), strict=True)
    ]


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_binary(kind: Any) -> bool:
    is_plain = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return bool(is_plain or pa.types.is_binary_view(kind))


def _is_list(kind: Any) -> bool:
    is_plain = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(is_plain)


def _is_plain(kind: Any) -> bool:
    """True for the types whose values Python holds exactly. A text, a float and a time have readers of their own."""
    return bool(pa.types.is_null(kind) or pa.types.is_primitive(kind) or pa.types.is_decimal(kind))


def _show_uuid(value: bytes | None) -> str | None:
    return str(UUID(bytes=value)) if value else None


_READERS: Sequence[tuple[Callable[[Any], bool], Callable[[Any, Any], Sequence[Any]]]] = (
    (_is_text, _read_plain),
    (pa.types.is_floating, _read_floats),
    (pa.types.is_timestamp, _read_timestamps),
    (pa.types.is_date, _read_dates),
    (pa.types.is_time, _read_times),
    (pa.types.is_duration, _read_durations),
    (_is_binary, _read_binary),
    (_is_list, _read_lists),
    (pa.types.is_map, _read_maps),
    (pa.types.is_struct, _read_structs),
    (_is_plain, _read_plain),
)
