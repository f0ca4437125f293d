"""The check of a value against its bounds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from tidetable.durations import Duration


def check_bounds(key: str, value: float | timedelta, least: object, most: object, what: str = "") -> Iterator[str]:
    """Yield a problem if a value is not within its bounds. Bounds are numbers, or durations as text such as "1h"."""
    low, high = (Duration.parse(bound) if isinstance(bound, str) else bound for bound in (least, most))
    if not low <= value <= high:  # type: ignore[operator]
        yield f"{key}: {value} is not within {least} to {most}{what}"
