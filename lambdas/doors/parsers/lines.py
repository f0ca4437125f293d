"""Parse InfluxDB's line protocol with the library line-protocol-parser, one line at a time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from line_protocol_parser import LineFormatError
from line_protocol_parser import parse_line as _parse_line

# InfluxDB: the measurement and the tags of a line have at most 65,535 bytes. The library checks that only after its
# work, which grows with the square of the number of tags: 64,000 tags took it 5.6 seconds.
MOST_KEY_BYTES, MOST_TAGS = 65_535, 256
# A text, or a number with its digits before an exponent of a sane length.
_NUMBER = re.compile(
    r'="(?:[^"\\]|\\.)*+"?|=((-?(?:\d++\.?\d*+|\.\d++))(?:[eE]-?\d{1,9})?)(?=[, \r\n]|\Z)', re.ASCII | re.DOTALL
)
_SMALLEST = 2.2250738585072014e-308
_MARK = "tidetable: "
_END_OF_KEY = re.compile(r"(?<!\\) ")


def parse_line(line: str) -> Mapping[str, Any] | None:
    """Parse the measurement, tags, fields and time of a line; None for a comment.

    ValueError says what is wrong with the line.
    """
    if line.count(",") > MOST_TAGS or len(line) > MOST_KEY_BYTES:
        _check_key(line)
    try:
        parsed: Mapping[str, Any] | None = _parse_line(line)
    except LineFormatError as error:
        if (tiny := _parse_tiny_numbers(line)) is not None:
            return tiny
        # The library's messages are sentences, and do not name a position in the line.
        raise ValueError(str(error).rstrip(".").replace("Failed", "failed", 1)) from error
    return parsed


def _parse_tiny_numbers(line: str) -> Mapping[str, Any] | None:
    """Parse a line whose numbers are too close to 0 for the library; None if the line has no such number, or another
    fault.

    The library refuses numbers below 2.2e-308, because the C library reports an underflow. But they are valid: 4.9e-324
    is Java's Double.MIN_VALUE. So the library gets each as a text.
    """
    key = _END_OF_KEY.search(line.lstrip())
    if key is None or _MARK in line:
        return None
    start = len(line) - len(line.lstrip()) + key.end()
    fields = _NUMBER.sub(_mark_tiny, line[start:])
    if _MARK not in fields:
        return None
    try:
        parsed: dict[str, Any] = dict(_parse_line(line[:start] + fields))
    except LineFormatError:
        return None
    parsed["fields"] = {name: _read_marked(value) for name, value in parsed["fields"].items()}
    return parsed


def _mark_tiny(match: re.Match[str]) -> str:
    number = match[1]
    if number is None or not match[2].strip("0.-") or abs(float(number)) >= _SMALLEST:
        return match[0]
    return f'="{_MARK}{number}"'


def _read_marked(value: Any) -> Any:
    """Return the number of a marked text: a float, or exact if it is too small for a float."""
    if not (isinstance(value, str) and value.startswith(_MARK)):
        return value
    number = value.removeprefix(_MARK)
    return float(number) or Decimal(number)


def _check_key(line: str) -> None:
    """Check the measurement and the tags of a line before they are parsed; ValueError if they are too many or too long."""
    text = line.lstrip()
    if text.startswith("#"):
        return
    end = _END_OF_KEY.search(text)
    key = text if end is None else text[: end.start()]
    if len(key) > MOST_KEY_BYTES:
        raise ValueError(f"the measurement and the tags have more than {MOST_KEY_BYTES} bytes: send shorter tags")
    tags = key.count(",") - key.count("\\,")
    if tags > MOST_TAGS:
        raise ValueError(f"the line has {tags} tags, more than {MOST_TAGS}: send the others as fields")
