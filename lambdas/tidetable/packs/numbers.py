"""Write numbers as DynamoDB answers them: a pack keeps JSON, and its events must look like the events of plain items."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

import msgspec
from msgspec import Raw

from tidetable.exact_json import canonical_json, decode_json, encode_json
from tidetable.layout import render_number
from tidetable.values import count_item_bytes

# An exponent, a zero at the end of a fraction, or a zero with a sign. A text may match, too: that costs only time.
_UNUSUAL = re.compile(rb"[0-9][eE][+-]?[0-9]|\.[0-9]*0(?![0-9])|-0(?![0-9.])").search
_ENCODE_LINES = msgspec.json.Encoder(decimal_format="number", order="sorted").encode_lines
# The zeros at the end of a fraction, in a line that is a number.
_ZEROS = re.compile(rb"(\.[0-9]*?)0+$", re.MULTILINE).sub
# A number of at most 30 characters, without an exponent, is within DynamoDB's limit of 38 digits.
_SHORT = 30
_FLAT = frozenset({str, int, bool, type(None)})
_PLAIN = frozenset({int, bool, type(None), Decimal, Raw})


def encode_lines(values: Sequence[Any]) -> bytes:
    """Encode JSON values as canonical text, one line per value, with numbers as DynamoDB answers them.

    DynamoDB answers a number without exponent and without needless zeros: ``1.50`` as 1.5 and ``1E+3`` as 1000. Values
    may be ``Raw``, or objects with ``Raw`` fields; ValueError if DynamoDB would refuse such a value.
    """
    values, text = _encode_sent_lines(values)
    kinds = set(map(type, values))
    if kinds <= _FLAT or _are_texts(text, len(values)):
        return text
    if kinds <= _PLAIN and not (b"E" in text or b'"' in text):
        trimmed = _ZEROS(rb"\1", text).replace(b".\n", b"\n") if b"." in text and b"0\n" in text else text
        if b"-0\n" not in trimmed:
            return trimmed
    return _ENCODE_LINES([_settle_value(value) for value in values]) if _UNUSUAL(text) else text


def encode_sent_lines(values: Sequence[Any]) -> bytes:
    """Encode JSON values as canonical text, one line per value, with numbers as they were sent."""
    return _encode_sent_lines(values)[1]


def _encode_sent_lines(values: Sequence[Any]) -> tuple[Sequence[Any], bytes]:
    """Return the values and their canonical text.

    ``Raw`` values are decoded, unless their JSON is canonical already.
    """
    text = _ENCODE_LINES(values)
    if type(values[0]) is Raw:
        if _is_canonical(text, len(values)):
            return values, text
        values = [decode_json(value) for value in values]
        checked: Sequence[Any] = [{"value": value} for value in values]
    elif any(type(value) is Raw for row in values if type(row) is dict for value in islice(row.values(), 1)):
        values = checked = [decode_json(encode_json(row)) for row in values]
    else:
        return values, text
    for data in checked:
        count_item_bytes({"data": data})
    return values, _ENCODE_LINES(values)


def _is_canonical(text: bytes, count: int) -> bool:
    """True if lines of JSON are surely canonical, and have no value that DynamoDB refuses."""
    if b"\\" in text or b"{" in text or b"[" in text:
        return False
    if _are_texts(text, count):
        return True
    # All numbers are short and have no exponent. No number has so many zeros that Decimal writes it with an exponent.
    rest = text.translate(None, b"0123456789.-\n")
    for word in (b"true", b"false", b"null"):
        rest = rest.replace(word, b"")
    return not rest and b"-0\n" not in text and b"0.00000" not in text and max(map(len, text.split(b"\n"))) <= _SHORT


def _are_texts(text: bytes, count: int) -> bool:
    """True if each of the lines of JSON is a text."""
    return text[:1] == b'"' and text.count(b'\n"') == count - 1


def settle_text(data: Any) -> str:
    """Write one JSON value in the form of ``encode_lines``, without the end of the line."""
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
