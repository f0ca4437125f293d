"""The check of a value against its bounds, and bounds that several checks need."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta

from tidetable.durations import Duration

# A stream may have at most this many open tables: each table costs at least its minimum capacity, and a Region allows
# 2,500 tables.
MAX_OPEN_TABLES = 200
# 100 years: no real retention is longer, and a date after the year 9999 cannot be computed.
MAX_RETENTION = Duration(days=36_525)
# AWS: 40,000 units per table in provisioned mode.
MAX_UNITS = 40_000
# AWS: a Lambda answers at most 6 MB. A request is also encoded in base64, which makes it a third larger.
MAX_BODY = 4_400_000
KEY_ARN = re.compile(r"arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[A-Za-z0-9-]+")


def find_repeated(names: Sequence[str]) -> list[str]:
    """The names that occur more than once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def check_bounds(key: str, value: float | timedelta, least: object, most: object, what: str = "") -> Iterator[str]:
    """Yield a problem if a value is not within its bounds. Bounds are numbers, or durations as text such as "1h"."""
    low, high = (Duration.parse(bound) if isinstance(bound, str) else bound for bound in (least, most))
    if not low <= value <= high:  # type: ignore[operator]
        yield f"{key}: {value} is not within {least} to {most}{what}"
