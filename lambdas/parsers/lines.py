"""Parse InfluxDB's line protocol with the library line-protocol-parser, one line at a time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from line_protocol_parser import LineFormatError
from line_protocol_parser import parse_line as _parse_line

# InfluxDB: the measurement and the tags of a line have at most 65,535 bytes. The library checks that only after its
# work, which grows with the square of the number of tags: 64,000 tags took it 5.6 seconds.
MOST_KEY_BYTES, MOST_TAGS = 65_535, 256
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
        # The library's messages are sentences, and do not name a position in the line.
        raise ValueError(str(error).rstrip(".").replace("Failed", "failed", 1)) from error
    return parsed


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
