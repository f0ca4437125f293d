"""JSON whose numbers are exact: whole numbers are int, other numbers are Decimal, never float."""

from __future__ import annotations

from decimal import Context, Decimal, InvalidOperation
from typing import Any

import msgspec

# AWS: numbers have 38 digits. With this precision no sum loses a digit to rounding, however many numbers it has.
EXACT = Context(prec=420)


def parse_exact_number(text: str) -> Decimal:
    """Parse a JSON number that is not whole, with all its digits."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return Decimal("NaN")  # the event's own check refuses it, and can name the field


_DECODE = msgspec.json.Decoder(float_hook=parse_exact_number).decode
encode_json = msgspec.json.Encoder(decimal_format="number").encode
# The same text for the same content, whatever the order of its fields.
canonical_json = msgspec.json.Encoder(decimal_format="number", order="sorted").encode


def show_text(value: Any) -> str:
    """A text as it is; any other value as JSON."""
    return value if isinstance(value, str) else encode_json(value).decode()


def decode_json(text: bytes | str) -> Any:
    """Decode JSON with exact numbers (int or Decimal); ValueError says what is wrong."""
    try:
        return _DECODE(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from error
