"""Bills that a process has computed, each kept for a minute: a bill reads up to 2,000 metrics, which cost $0.02."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Any

LIFE = timedelta(minutes=1)
# A bill may have some megabytes, and a key of other streams has another bill.
MOST = 20


class KeptBills:
    """Bills by their key: the streams that the caller may see, and the stream that the request names."""

    def __init__(self) -> None:
        self._bills: dict[Hashable, tuple[datetime, dict[str, Any]]] = {}

    def find_or_compute(self, key: Hashable, now: datetime, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the bill of a key that is less than a minute old, or compute it. Errors are not kept."""
        kept = self._bills.pop(key, None)
        # If the clock was set back, a bill may seem younger than 0 s: it is computed anew then.
        if kept is None or not timedelta(0) <= now - kept[0] < LIFE:
            kept = now, compute()
        if len(self._bills) >= MOST:
            del self._bills[next(iter(self._bills))]  # that was used least recently
        self._bills[key] = kept
        return kept[1]
