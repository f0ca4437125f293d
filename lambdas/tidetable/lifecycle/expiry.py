"""When a table closes, and when it has had its time."""

from __future__ import annotations

from datetime import datetime, timedelta

from tidetable.catalog import ArchiveFacts, Entry
from tidetable.config import LifecyclePolicy, Stream
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


def is_leaving(entry: Entry, stream: Stream, now: datetime) -> bool:
    """Whether the entry's table is to be archived or deleted: it has expired, was not restored until later, and may go."""
    kept = stream.on_expiry == "keep" or (entry.keep_until is not None and now <= entry.keep_until)
    return now > expires_at(entry.period, stream) and not kept


def deletable_at(facts: ArchiveFacts, policy: LifecyclePolicy) -> datetime:
    """From when on an archived table may be deleted."""
    return facts.at + policy.delete_grace
