"""The limits of DynamoDB's values: their sizes by the published rules, and the values that DynamoDB refuses."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from tidetable.events import Item, JsonObject
from tidetable.exact_json import MAX_NUMBER_CHARACTERS, TOO_LONG

# AWS: 400 KB per item, attribute names included.
MAX_ITEM_BYTES = 400 * 1024
# DynamoDB nests 32 levels deep; `data` itself is the first.
MAX_DEPTH = 31
MAX_DIGITS = 38
_SURELY_SMALL = 10**18
_BEYOND = 10**200


def count_item_bytes(item: Item) -> int:
    """Count the bytes of an item; ValueError names the value that DynamoDB would refuse."""
    try:
        return sum([_measure_text(name) + _measure_value(value, 0) for name, value in item.items()])
    except _Refused as error:
        raise ValueError(_explain_error(item, error)) from error


def is_plain(data: JsonObject) -> bool:
    """True if data is flat and has only text and small numbers, which DynamoDB never refuses.

    The caller must know that Decimals are small. False only means that another check is needed.
    """
    for name, value in data.items():
        kind = type(value)
        if not name or not (
            kind is str
            or kind is Decimal
            or kind is bool
            or value is None
            or (kind is int and -_SURELY_SMALL < value < _SURELY_SMALL)
        ):
            return False
    return True


class _Refused(ValueError):
    """A value that cannot be stored; ``place`` has its name or position at each level, the innermost level first."""

    def __init__(self, what: str) -> None:
        self.place: list[str | int] = []
        super().__init__(what)


def _measure_value(value: Any, depth: int) -> int:
    kind = type(value)
    if kind is str:
        return _measure_text(value)
    if kind is Decimal or kind is int:
        return _measure_number(value)
    if kind is dict or kind is list:
        return _measure_members(value, depth)
    if kind is bool or value is None:
        return 1
    if kind is bytes:
        return len(value)
    raise _Refused("is not a JSON value")


def _measure_text(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _measure_members(value: JsonObject | list[Any], depth: int) -> int:
    """Measure an object or a list; the names of an object's fields count, too."""
    if depth >= MAX_DEPTH:
        raise _Refused(f"is nested more than {MAX_DEPTH} levels deep")
    members: Iterable[tuple[str | int, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
    size = 3 + (sum(map(_measure_text, value)) if isinstance(value, dict) else 0)
    for place, member in members:
        if place == "":
            raise _Refused("has a field without a name")
        try:
            size += 1 + _measure_value(member, depth + 1)
        except _Refused as error:
            error.place.append(place)
            raise
    return size


def _explain_error(item: Item, error: _Refused) -> str:
    """Return the message with the whole path, which begins in ``data``: this project makes the other attributes."""
    path = "data" if "data" in item else ""
    for step in reversed(error.place):
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return f"{path} {error}"


def _measure_number(value: int | Decimal) -> int:
    if isinstance(value, int):
        digits, magnitude = _count_int_digits(abs(value))
    else:
        if value is TOO_LONG:
            raise _Refused(f"is a number of more than {MAX_NUMBER_CHARACTERS} characters; send it as text")
        if not value.is_finite():
            raise _Refused("lies outside 1E-130 to 9.9E+125; send it as text")
        digits, magnitude = count_digits(value), value.adjusted() if value else 0
    if digits > MAX_DIGITS:
        raise _Refused(f"has more than {MAX_DIGITS} digits; send it as text")
    if not -130 <= magnitude <= 125:
        raise _Refused("lies outside 1E-130 to 9.9E+125; send it as text")
    # A byte for every two digits, one for the exponent, one for a sign: the published rule, rounded up.
    return digits // 2 + 3


def count_digits(number: Decimal) -> int:
    """Count a number's significant digits: zeros at the end of a large number do not count."""
    digits = number.as_tuple().digits
    return len(digits) if len(digits) <= MAX_DIGITS else len("".join(map(str, digits)).rstrip("0"))


def _count_int_digits(value: int) -> tuple[int, int]:
    """Count a whole number's significant digits; return also its order of magnitude."""
    if value < 10**MAX_DIGITS:
        return len(str(value)), 0
    if value >= _BEYOND:
        # Python refuses to write numbers of thousands of digits.
        return MAX_DIGITS + 1, 0
    text = str(value)
    return len(text.rstrip("0")), len(text) - 1
