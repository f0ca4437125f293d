"""JSON whose numbers are exact: whole numbers are int, other numbers are Decimal, never float."""

from __future__ import annotations

import re
from decimal import Context, Decimal, InvalidOperation
from typing import Any

import msgspec

# AWS: numbers have 38 digits. With this precision no sum loses a digit to rounding, however many numbers it has.
EXACT = Context(prec=420)
# A sum of numbers within DynamoDB's limits takes 305 characters. A Decimal of 4,000,000 digits takes 300 MB, and the text
# of 1e999999999, without an exponent, 1 GB.
MAX_NUMBER_CHARACTERS = 400
# They stand for numbers that have more characters, with and without their exponent. They are not finite, so the event's
# own check refuses them, and can name the field.
TOO_LONG, BEYOND = Decimal("NaN1"), Decimal("NaN2")


def parse_exact_number(text: str) -> Decimal:
    """Parse a JSON number that is not whole, with all its digits; ``TOO_LONG`` or ``BEYOND`` if it has too many."""
    if len(text) > MAX_NUMBER_CHARACTERS:
        return TOO_LONG
    try:
        number = Decimal(text)
    except InvalidOperation:
        return BEYOND
    if -MAX_NUMBER_CHARACTERS <= number.adjusted() <= MAX_NUMBER_CHARACTERS:
        return number
    return BEYOND if number else Decimal(0)


_DECODE = msgspec.json.Decoder(float_hook=parse_exact_number).decode
encode_json = msgspec.json.Encoder(decimal_format="number").encode
# The same text for the same content, whatever the order of its fields.
canonical_json = msgspec.json.Encoder(decimal_format="number", order="sorted").encode
canonical_lines = msgspec.json.Encoder(decimal_format="number", order="sorted").encode_lines
# A number of at most 30 characters, without an exponent, is within DynamoDB's limit of 38 digits.
_LONG, _DIGITS = b"0" * 31, bytes.maketrans(b"123456789.-", b"0" * 11)
# A further line that is no text. To count the other lines takes three times as long.
_NO_TEXT = re.compile(rb'\n[^"]').search


def show_text(value: Any) -> str:
    """A text as it is; any other value as JSON."""
    return value if isinstance(value, str) else encode_json(value).decode()


def decode_json(text: bytes | str) -> Any:
    """Decode JSON with exact numbers (int or Decimal); ValueError, as msgspec's errors are, says what is wrong."""
    try:
        return _DECODE(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def is_usual(lines: bytes) -> bool:
    """True if lines of JSON are surely canonical, and hold no value that DynamoDB refuses.

    Each is a text without escapes, or each is a short number without an exponent, a boolean or null.
    """
    if are_texts(lines):
        return b"\\" not in lines
    # No number has so many zeros that Decimal writes it with an exponent.
    rest = lines.translate(None, b"0123456789.-\n")
    for word in (b"true", b"false", b"null"):
        rest = rest.replace(word, b"")
    return not (rest or b"-0\n" in lines or b"0.00000" in lines or _LONG in lines.translate(_DIGITS))


def are_texts(lines: bytes) -> bool:
    """True if each value is a text, of values of JSON that begin a line each. Only an object or a list has several lines."""
    return lines[:1] == b'"' and _NO_TEXT(lines) is None
