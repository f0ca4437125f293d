"""Durations as people write them: ``90s``, ``15m``, ``6h``, ``7d``."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache
from typing import Any

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_PATTERN = re.compile(r"([0-9]{1,7})([smhd])")
_LENGTH = re.compile(r"([0-9]{1,7})([smhdw])")


class Duration(timedelta):
    """A length of time that prints as it is written in the configuration."""

    @classmethod
    def parse(cls, text: str) -> Duration:
        """Read ``<whole number><s|m|h|d>``; ValueError says what a duration looks like."""
        match = _PATTERN.fullmatch(text)
        if match is None:
            raise ValueError(f'"{text}" is not a duration: write a whole number and s, m, h or d, such as "15m"')
        return cls(**{_UNITS[match[2]]: int(match[1])})

    def __str__(self) -> str:
        seconds = int(self.total_seconds())
        for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
            if seconds and seconds % size == 0:
                return f"{seconds // size}{unit}"
        return f"{seconds}s"


@lru_cache(256)
def parse_length(text: str) -> timedelta:
    """Read a duration, or whole weeks such as ``2w``; ValueError says what they look like."""
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise ValueError(
            f'"{text}" is not a duration: write a whole number and s, m, h or d, such as "15m"; or weeks, such as 2w'
        )
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def read_duration(kind: type, value: Any) -> Any:
    """Read a duration: msgspec calls this for each value whose type in the model it does not know."""
    if kind is not Duration:
        raise TypeError(f"no rule to read a {kind.__name__}")
    if not isinstance(value, str):
        raise ValueError('expected a duration such as "15m"')
    return Duration.parse(value)
