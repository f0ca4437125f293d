"""Numbers as DynamoDB answers them: a pack keeps JSON, and its events must be answered as those of plain items are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec

from tidetable.exact import canonical_json
from tidetable.keys.index import number_text

# An exponent, a zero at the end of a fraction, or a zero with a sign. Texts may look so, too: that costs time, and no more.
_UNUSUAL = re.compile(rb"[0-9][eE][+-]?[0-9]|\.[0-9]*0(?![0-9])|-0(?![0-9.])").search
_ENCODE_LINES = msgspec.json.Encoder(decimal_format="number", order="sorted").encode_lines
_FLAT = frozenset({str, int, bool, type(None)})


def encode_lines(values: Sequence[Any]) -> bytes:
    """JSON values as canonical text, a line each, with numbers as DynamoDB answers them.

    DynamoDB answers a number without exponent and without needless zeros: ``1.50`` as 1.5 and ``1E+3`` as 1000.
    """
    text = _ENCODE_LINES(values)
    kinds = set(map(type, values))
    if kinds <= _FLAT:
        return text
    if kinds <= _FLAT | {Decimal} and b"E" not in text and not (b"0\n" in text and b"." in text):
        return text
    return _ENCODE_LINES([_settled(value) for value in values]) if _UNUSUAL(text) else text


def settled_text(data: Any) -> str:
    """One JSON value as ``encode_lines`` writes it, without the end of the line."""
    return canonical_json(_settled(data)).decode()


def _settled(value: Any) -> Any:
    kind = type(value)
    if kind is Decimal:
        # A Decimal of less than 1E-6 would be written with an exponent.
        return msgspec.Raw(number_text(value).encode())
    if kind is dict:
        return {name: _settled(inner) for name, inner in value.items()}
    if kind is list:
        return [_settled(inner) for inner in value]
    return value
