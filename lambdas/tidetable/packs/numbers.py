"""Write numbers as DynamoDB answers them: a pack keeps JSON, and its events must look like the events of plain items."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import Raw

from tidetable.exact_json import are_texts, canonical_json, canonical_lines, decode_json
from tidetable.layout import render_number

# An exponent, a zero at the end of a fraction, or a zero with a sign. A text may match, too: that costs only time.
_UNUSUAL = re.compile(rb"[0-9][eE][+-]?[0-9]|\.[0-9]*0(?![0-9])|-0(?![0-9.])").search
# The zeros at the end of a fraction, in a line that is a number.
_ZEROS = re.compile(rb"(\.[0-9]*?)0+$", re.MULTILINE).sub
_FLAT = frozenset({str, int, bool, type(None)})
_PLAIN = frozenset({int, bool, type(None), Decimal, Raw})


def settle_lines(text: bytes, values: Sequence[Any], *, usual: bool = False) -> bytes:
    """Write the numbers of ``canonical_lines(values)`` as DynamoDB answers them.

    DynamoDB answers a number without exponent and without needless zeros: ``1.50`` as 1.5 and ``1E+3`` as 1000. Values
    may be ``Raw``, or objects with ``Raw`` fields, as a batch has them. With ``usual``, all are texts or none is.
    """
    if usual and text[:1] == b'"':
        return text
    kinds = set(map(type, values))
    if kinds <= _FLAT or are_texts(text):
        return text
    if kinds <= _PLAIN and not (b"E" in text or b'"' in text):
        trimmed = _ZEROS(rb"\1", text).replace(b".\n", b"\n") if b"." in text and b"0\n" in text else text
        if b"-0\n" not in trimmed:
            return trimmed
    return canonical_lines([_settle_value(value) for value in values]) if _UNUSUAL(text) else text


def settle_text(data: Any) -> str:
    """Write one JSON value in the form of ``settle_lines``, without the end of the line."""
    return canonical_json(_settle_value(data)).decode()


def _settle_value(value: Any) -> Any:
    kind = type(value)
    if kind is Decimal:
        # A Decimal of less than 1E-6 would be written with an exponent.
        return msgspec.Raw(render_number(value).encode())
    if kind is Raw:
        return _settle_value(decode_json(value))
    if kind is dict:
        return {name: _settle_value(inner) for name, inner in value.items()}
    if kind is list:
        return [_settle_value(inner) for inner in value]
    return value
