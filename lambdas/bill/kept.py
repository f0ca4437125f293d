"""Bills and other answers from metrics, which a process keeps for a minute: a bill reads up to 2,000 metrics, which cost
$0.02.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from datetime import datetime, timedelta
from typing import Any

LIFE = timedelta(minutes=1)
# A bill may have some megabytes, and a key of other streams has another bill.
MOST = 20


class KeptAnswers:
    """Answers by their key: the streams that the caller may see, and the stream that the request names."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, tuple[datetime, dict[str, Any]]] = {}

    def find_or_compute(self, key: Hashable, now: datetime, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the answer of a key that is less than a minute old, or compute it. Errors are not kept."""
        kept = self._answers.pop(key, None)
        # If the clock was set back, an answer may seem younger than 0 s: it is computed anew then.
        if kept is None or not timedelta(0) <= now - kept[0] < LIFE:
            kept = now, compute()
        if len(self._answers) >= MOST:
            del self._answers[next(iter(self._answers))]  # that was used least recently
        self._answers[key] = kept
        return kept[1]
