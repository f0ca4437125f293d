"""Compute sizes and capacity units by the published rules."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from math import ceil
from typing import Any

Wire = Mapping[str, Any]

WRITE_BYTES = 1024
READ_BYTES = 4096
# The greatest size of an item, with the names of its attributes. Source: Developer Guide, "Constraints: items".
ITEM_BYTES = 400 * 1024


class Stored(dict[str, Any]):
    """A stored item. It never changes, so its size is calculated once."""

    __slots__ = ("size",)

    def __init__(self, item: Mapping[str, Any]) -> None:
        super().__init__(item)
        self.size = _weigh(item)


def measure_item(item: Mapping[str, Wire]) -> int:
    """Measure an item in bytes: names and values in UTF-8, as the Developer Guide's "item sizes" counts them.

    The item is in DynamoDB's JSON.
    """
    return item.size if isinstance(item, Stored) else _weigh(item)


def _weigh(item: Mapping[str, Wire]) -> int:
    return sum(len(name.encode()) + measure_value(value) for name, value in item.items())


def measure_value(value: Wire) -> int:
    """Measure the bytes of one attribute value."""
    ((kind, inner),) = value.items()
    match kind:
        case "S":
            return len(inner.encode())
        case "N":
            return measure_number(inner)
        case "B":
            return len(inner if isinstance(inner, bytes) else base64.b64decode(inner))
        case "BOOL" | "NULL":
            return 1
        case "SS":
            return sum(len(member.encode()) for member in inner)
        case "NS":
            return sum(map(measure_number, inner))
        case "BS":
            return sum(len(member if isinstance(member, bytes) else base64.b64decode(member)) for member in inner)
        case "L":
            return 3 + sum(1 + measure_value(element) for element in inner)
        case "M":
            return 3 + sum(1 + len(name.encode()) + measure_value(member) for name, member in inner.items())
    raise ValueError(f"{kind} is not a type of DynamoDB")


@lru_cache(8192)
def measure_number(text: str) -> int:
    """Measure the bytes of a number: one per two significant digits, one more, and one for a minus.

    Zeros at the beginning and at the end of the number do not count.
    """
    number = Decimal(text)
    digits = len(str(abs(int("".join(map(str, number.as_tuple().digits))))).rstrip("0")) if number else 0
    return (digits + 1) // 2 + 1 + (number < 0)


def write_units(size: int) -> int:
    """Return the units for writing an item of ``size`` bytes: one for each begun KB, at least one."""
    return max(1, ceil(size / WRITE_BYTES))


def read_units(size: int, *, consistent: bool) -> float:
    """Return the units for reading ``size`` bytes: one for each begun 4 KB, at least one; half of that if eventually
    consistent.
    """
    return max(1, ceil(size / READ_BYTES)) * (1.0 if consistent else 0.5)


def put_units(old: Wire | None, new: Wire | None) -> int:
    """Return the units for replacing the item ``old`` by ``new`` (None: no item).

    The size of the larger item counts.
    """
    return write_units(max(measure_item(item) if item else 0 for item in (old, new)))


def index_units(old: Wire | None, new: Wire | None, keys: Iterable[str]) -> int:
    """Return the units of an index with these key attributes, if an item's projection changes (None: it is not in the
    index).

    An unchanged projection costs nothing. An insertion, a deletion or a change of other attributes costs one write. A
    change of a key of the index costs two writes: a deletion and a put.
    """
    if old == new:
        return 0
    if old is None or new is None:
        return write_units(measure_item(old or new or {}))
    if any(old[key] != new[key] for key in keys):
        return write_units(measure_item(old)) + write_units(measure_item(new))
    return put_units(old, new)
