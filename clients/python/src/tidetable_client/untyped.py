"""Values that the declared type of their column cannot hold: an answer in Arrow keeps them as JSON."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import msgspec

HEADER = "Tidetable-Untyped-Columns"
_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


class UntypedWarning(UserWarning):
    """Some values of an answer do not fit the type that the configuration declares for their column."""


def read_counts(headers: Mapping[str, str]) -> Counter[str]:
    """Read the number of such values by column: ``ms=1820,price=4``."""
    counts: Counter[str] = Counter()
    for entry in filter(None, headers.get(HEADER, "").split(",")):
        name, _, count = entry.partition("=")
        counts[unquote(name)] += int(count)
    return counts


def warn_of(counts: Mapping[str, int], callers: int) -> None:
    """Warn of the columns with such values, once for all of them. The user's call is so many callers away."""
    columns = ", ".join(f"{name} ({count:,})" for name, count in sorted(counts.items()))
    text = (
        f"values do not fit the declared type of their column: {columns}. Numbers are shown in a wider type where there "
        "is one, other values are null; the column data has all of them. Declare a type that fits, such as double"
    )
    warnings.warn(text, UntypedWarning, stacklevel=callers + 1)


def find_values(
    names: Sequence[str], counts: Mapping[str, int], read: Callable[[str], Iterable[Any]]
) -> dict[str, list[Any]]:
    """Find the columns with numbers that their own type cannot hold; return their values, with these numbers.

    ``read`` returns the values of a column. The numbers are in the column ``data`` as JSON, or in ``group`` for columns
    such as ``group.ms``.
    """
    rest, prefix = ("data", "") if "data" in names else ("group", "group.")
    wanted = {name.removeprefix(prefix): name for name in counts if name in names}
    found: dict[str, dict[int, Any]] = {name: {} for name in wanted}
    for place, text in enumerate(read(rest) if wanted and rest in names else ()):
        for name, value in (_decode(text) if text and text != "{}" else {}).items():
            if name in found and isinstance(value, int | Decimal) and not isinstance(value, bool):
                found[name][place] = value
    filled = {}
    for name, numbers in found.items():
        values = list(read(wanted[name]))
        missing = {place: number for place, number in numbers.items() if values[place] is None}
        if missing and not any(isinstance(value, str | bool) for value in values):
            filled[wanted[name]] = [missing.get(place, value) for place, value in enumerate(values)]
    return filled
