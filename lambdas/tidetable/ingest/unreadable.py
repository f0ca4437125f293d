"""Read bodies with values that cannot be decoded: each gets its own verdict, and the other values are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import JSONDecoder, dumps
from typing import Any

import msgspec

from tidetable.exact_json import decode_json


class Unreadable(msgspec.Struct, frozen=True):
    """A line of NDJSON, or an element of an array, that cannot be decoded: it is rejected, the others are kept."""

    reason: str


def read_elements(text: str) -> Iterator[Any]:
    """Yield the elements of an array in order; ``Unreadable`` for an element that cannot be decoded.

    ValueError if the array itself is not JSON.
    """
    at = _skip_space(text, text.index("[") + 1)
    try:
        while text[at : at + 1] != "]":
            _, end = _SCANNER.raw_decode(text, at)
            yield _read_element(text[at:end])
            at = _skip_space(text, end)
            if text[at : at + 1] == ",":
                at = _skip_space(text, at + 1)
                if text[at : at + 1] == "]":
                    raise ValueError(f"a comma before the end of the array (character {at})")
            elif text[at : at + 1] != "]":
                raise ValueError(f"expected a comma or the end of the array (character {at})")
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if _skip_space(text, at + 1) < len(text):
        raise ValueError(f"something follows the array (character {at + 1})")


def _read_element(text: str) -> Any:
    try:
        return decode_json(text)
    except ValueError as error:
        return Unreadable(find_lone_surrogate(text) or f"this element of the array cannot be read: {error}")


def _skip_space(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks is not None else at


def read_line(line: bytes) -> Any:
    """Return the value of a line, of any type; ``Unreadable`` if the line is not JSON."""
    try:
        return decode_json(line)
    except ValueError as error:
        return Unreadable(find_lone_surrogate(line) or f"this line is not JSON: {error}")


def find_lone_surrogate(text: bytes | str) -> str | None:
    """Return a reason to refuse a text that has half of a surrogate pair, which is not a character; None for any other
    text.

    Such a text obeys the grammar of JSON (RFC 8259, section 8.2). It comes from programs that cut an emoji in the
    middle.
    """
    try:
        surrogate = _SURROGATE.search(
            dumps(_SCANNER.decode(text if isinstance(text, str) else text.decode()), ensure_ascii=False)
        )
    except (ValueError, RecursionError):
        return None
    if surrogate is None:
        return None
    return f"\\u{ord(surrogate.group()):04x} is half of a surrogate pair, which is not a character: send both halves"


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_BLANKS = re.compile(r"[ \t\r\n]*")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# Python's own decoder accepts lone surrogates, and can decode a value in the middle of a text. Numbers are not checked.
_SCANNER = JSONDecoder(parse_float=str, parse_int=str, parse_constant=_refuse_constant)
