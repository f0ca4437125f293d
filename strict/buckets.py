"""Token buckets that fill by the second."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

_MINUTE = timedelta(minutes=1)


class TokenBucket:
    """Grants ``rate`` units per second, and saves the unused units of the last ``seconds`` seconds.

    A new bucket holds the units of one second: it has not saved any units yet.
    """

    def __init__(self, rate: float, seconds: float, now: datetime) -> None:
        self.rate = rate
        self._seconds = seconds
        self._tokens = float(rate)
        self._filled = now

    def set_rate(self, rate: float, now: datetime) -> None:
        """Change the rate. Saved units stay, up to the new rate's limit."""
        self._fill(now)
        self.rate = rate
        self._tokens = min(self._tokens, rate * self._seconds)

    def has(self, units: float, now: datetime) -> bool:
        """True if this number of units is available."""
        self._fill(now)
        return self._tokens >= units

    def take(self, units: float) -> None:
        """Take units. The size of a read is known only afterwards, so a read may leave a debt."""
        self._tokens -= units

    def _fill(self, now: datetime) -> None:
        passed = (now - self._filled).total_seconds()
        if passed > 0:
            self._tokens = min(self._tokens + passed * self.rate, self.rate * self._seconds)
            self._filled = now


class Peaks:
    """The highest use of any one second, in units. It is kept per minute."""

    def __init__(self) -> None:
        self._second: datetime | None = None
        self._units = 0.0
        self._recent: deque[tuple[datetime, float]] = deque()
        self._settled = 0.0

    def add(self, units: float, now: datetime) -> None:
        """Count units that are used now."""
        second = now.replace(microsecond=0)
        self._units = self._units + units if second == self._second else units
        self._second = second
        minute = second.replace(second=0)
        if self._recent and self._recent[-1][0] == minute:
            self._recent[-1] = minute, max(self._recent[-1][1], self._units)
        else:
            self._recent.append((minute, self._units))

    def find_peak(self, at: datetime) -> float:
        """Return the highest peak in the minutes that ended before an instant."""
        while self._recent and self._recent[0][0] + _MINUTE <= at:
            self._settled = max(self._settled, self._recent.popleft()[1])
        return self._settled
