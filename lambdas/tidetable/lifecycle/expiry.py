"""When a table closes, and when it has had its time."""

from __future__ import annotations

from datetime import datetime, timedelta

from tidetable.config import Stream
from tidetable.periods import Period

# No write begun while a table was open can still be under way this long after: Lambda's longest run is 15 minutes.
SETTLE = timedelta(minutes=15)


def closes_at(period: Period, stream: Stream) -> datetime:
    """When the period's latest event can no longer come: a table is open until its end plus ``late``."""
    return period.end + stream.late


def is_closed(period: Period, stream: Stream, now: datetime) -> bool:
    """Whether the period has left the writable window."""
    return now > closes_at(period, stream)


def expires_at(period: Period, stream: Stream) -> datetime:
    """When the period has been kept for ``retention`` whole periods and every write has settled."""
    return max(period.shift(stream.retention).end, closes_at(period, stream) + SETTLE)


def is_expired(period: Period, stream: Stream, now: datetime) -> bool:
    """Whether the period is to be archived or deleted, as its stream says."""
    return now > expires_at(period, stream)
