"""Choose the narrowest type that holds every number of a column exactly. This needs no other library."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Context, Decimal
from typing import Any, Literal, NamedTuple

Kind = Literal["integer", "unsigned", "double", "decimal", "text"]
# A decimal of Arrow has 38 digits, or 76. DynamoDB's numbers have 38 significant digits, but up to 126 places.
SHORT, LONG = 38, 76
# Up to this number a double stores every whole number exactly.
WHOLE = 2**53
_LONG_INTEGER, _UNSIGNED = 2**63, 2**64
_EXACT = Context(prec=420)


class Width(NamedTuple):
    """The type of a column of numbers. A decimal has ``precision`` digits, ``scale`` of them after the point."""

    kind: Kind
    precision: int = 0
    scale: int = 0


def choose_width(values: Iterable[Any], *, decimal: bool = False) -> Width | None:
    """Choose the type for the numbers among ``values``; None if there are no numbers, or other values too.

    With ``decimal``, numbers with a fraction become a decimal, also if a double could hold them. Numbers with more than
    76 digits become text.
    """
    numbers = [value for value in values if value is not None]
    kinds = {*map(type, numbers)}
    if not numbers or not kinds <= {int, float, Decimal}:
        return None
    if kinds == {int}:
        low, high = min(numbers), max(numbers)
        if low >= -_LONG_INTEGER and high < _LONG_INTEGER:
            return Width("integer")
        if low >= 0 and high < _UNSIGNED:
            return Width("unsigned")
    elif not decimal and all(map(fits_double, numbers)):
        return Width("double")
    return _choose_decimal(numbers)


def _choose_decimal(numbers: Sequence[int | float | Decimal]) -> Width:
    places = [to_decimal(number).as_tuple() for number in numbers]
    scale = max(max(-int(place.exponent), 0) for place in places)
    whole = max(max(len(place.digits) + int(place.exponent), 0) for place in places)
    precision = max(whole + scale, 1)
    return Width("decimal", precision, scale) if precision <= LONG else Width("text")


def fits_double(number: float | Decimal) -> bool:
    """True if a double shows the same number. The shortest text of a double is the number that a reader sees."""
    if isinstance(number, float):
        return True
    if isinstance(number, int):
        return -WHOLE <= number <= WHOLE
    return Decimal(repr(float(number))) == number


def to_decimal(number: float | Decimal) -> Decimal:
    """Convert a number to Decimal without zeros at its end; a double by its shortest text."""
    plain = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    return plain.normalize(_EXACT)


def show_digits(number: float | Decimal) -> str:
    """Show a number with all its digits and without an exponent."""
    return format(to_decimal(number), "f")


def soften(value: Any) -> Any:
    """Convert Decimals in lists and objects to floats where a float is exact, as an answer without Decimals has them."""
    if isinstance(value, Decimal):
        return float(value) if fits_double(value) else value
    if isinstance(value, list):
        return [soften(inner) for inner in value]
    if isinstance(value, dict):
        return {name: soften(inner) for name, inner in value.items()}
    return value
