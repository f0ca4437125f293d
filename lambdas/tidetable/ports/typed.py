"""Tables of typed columns, and the type of the functions that write them as bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class TypedColumn(NamedTuple):
    """A column: its name, its type and a value per row, None for null.

    | type | values |
    |---|---|
    | ``string``, ``boolean``, ``double`` | text, truth, floats |
    | ``integer`` | whole numbers of 64 bits |
    | ``time`` | whole microseconds since 1970; ``time(ZONE)`` names a zone other than UTC to show them in |
    | ``decimal(precision, scale)`` | whole numbers: the number times ten to the power of the scale |
    """

    name: str
    type: str
    values: Sequence[Any]


# Writes a table as bytes; all its columns have the same length.
TableEncoder = Callable[[Sequence[TypedColumn]], bytes]
