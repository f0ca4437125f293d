"""What DynamoDB can hold: sizes by its published rules, and the values that it would refuse."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from tidetable.events import Item

# AWS: 400 KB per item, attribute names included.
MAX_ITEM_BYTES = 400 * 1024
# DynamoDB nests 32 levels deep; `data` itself is the first.
MAX_DEPTH = 31
MAX_DIGITS = 38


def item_bytes(item: Item) -> int:
    """The size of an item in bytes; ValueError names the value that DynamoDB would refuse."""
    return sum(len(name.encode()) + _size(value, name, 0) for name, value in item.items())


def _size(value: Any, path: str, depth: int) -> int:
    match value:
        case str():
            return len(value.encode())
        case bool() | None:
            return 1
        case int() | Decimal():
            return _number_size(value, path)
        case dict() | list() if depth >= MAX_DEPTH:
            raise ValueError(f"{path} is nested more than {MAX_DEPTH} levels deep")
        case dict():
            return 3 + sum(_field_size(name, inner, path, depth) for name, inner in value.items())
        case list():
            return 3 + sum(1 + _size(inner, f"{path}[{index}]", depth + 1) for index, inner in enumerate(value))
    raise ValueError(f"{path} is no JSON value")


def _field_size(name: str, value: Any, path: str, depth: int) -> int:
    if not name:
        raise ValueError(f"{path} has a field without a name")
    return 1 + len(name.encode()) + _size(value, f"{path}.{name}", depth + 1)


def _number_size(value: int | Decimal, path: str) -> int:
    if isinstance(value, int):
        digits, magnitude = len(str(abs(value))) if abs(value) < 10**MAX_DIGITS else MAX_DIGITS + 1, 0
    else:
        if not value.is_finite():
            raise ValueError(f"{path} is no number that can be stored")
        digits, magnitude = len(value.as_tuple().digits), value.adjusted() if value else 0
    if digits > MAX_DIGITS:
        raise ValueError(f"{path} has more than {MAX_DIGITS} digits; send it as text")
    if not -130 <= magnitude <= 125:
        raise ValueError(f"{path} lies outside 1E-130 to 9.9E+125; send it as text")
    # A byte for every two digits, one for the exponent, one for a sign: the published rule, rounded up.
    return digits // 2 + 3
