"""Parse InfluxDB's line protocol with the library line-protocol-parser, one line at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from line_protocol_parser import LineFormatError
from line_protocol_parser import parse_line as _parse_line


def parse_line(line: str) -> Mapping[str, Any] | None:
    """Parse the measurement, tags, fields and time of a line; None for a comment.

    ValueError says what is wrong with the line.
    """
    try:
        parsed: Mapping[str, Any] | None = _parse_line(line)
    except LineFormatError as error:
        # The library's messages are sentences, and do not name a position in the line.
        raise ValueError(str(error).rstrip(".").replace("Failed", "failed", 1)) from error
    return parsed
