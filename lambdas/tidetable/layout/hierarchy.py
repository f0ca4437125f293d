"""Joined sort keys: the values of several fields in one text, which sorts by these values. Each value is one level.

A level ends with ``END``, the second character of Unicode. Characters up to ``_MARK`` are written as two characters. So
the end of a level sorts before every character of a longer level. A level never looks like the beginning of another
level: after "Cal" comes an end, but "California" goes on there. A visible separator such as ``#`` has neither property:
a space and "!" sort before it. The first character (NUL) is not used, because not every engine keeps it.

A missing value is the empty level, and sorts first. The empty text, numbers and booleans have marks of their own, so
that a key distinguishes the number 5 from the text "5", as conditions do.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

END = "\x01"
_MARK = "\x02"
_EMPTY, _OTHER = f"{_MARK}\x02", f"{_MARK}\x03"
_WRITTEN = {ord("\x00"): f"{_MARK}\x04", ord(END): f"{_MARK}\x05", ord(_MARK): f"{_MARK}\x06"}


def join_levels(levels: Sequence[str]) -> str:
    """Join levels to one text; each level ends with ``END``."""
    return "".join([f"{level}{END}" for level in levels])


def make_text_level(text: str) -> str:
    """Make a text's level. It begins with another non-empty text's level only if the text begins with that text."""
    if not text:
        return _EMPTY
    return text.translate(_WRITTEN) if min(text) <= _MARK else text


def make_level(value: Any) -> str:
    """Make the level of a field's value; empty if the value is not plain."""
    if isinstance(value, str):
        return make_text_level(value)
    text = render_value(value)
    return "" if text is None else _OTHER + text


def skip_levels(key: str, count: int) -> str:
    """Return the rest of a key after its first ``count`` levels."""
    return key.split(END, count)[count]


def render_value(value: Any) -> str | None:
    """Write a plain value as text: numbers without needless zeros, booleans as true or false; None for other values."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int() | Decimal():
            return render_number(value)
    return None


def render_number(number: int | Decimal) -> str:
    """Write a number as text for keys, without an exponent and needless zeros."""
    plain = format(Decimal(number), "f") if number else "0"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain
