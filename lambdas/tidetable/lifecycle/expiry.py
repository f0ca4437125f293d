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
    """True if the period has left the writable window."""
    return now > closes_at(period, stream)


def expires_at(period: Period, stream: Stream) -> datetime:
    """When the period has been kept for ``retention`` whole periods and every write has settled."""
    return max(period.shift(stream.retention).end, closes_at(period, stream) + SETTLE)


def settled_at(entry: Entry, late: timedelta) -> datetime:
    """From when on no write into the entry's table can be under way: it took its last event that long ago."""
    closed = entry.period.end + late
    return (closed if entry.opened is None else max(closed, entry.opened.until)) + SETTLE


def leaves_at(entry: Entry, stream: Stream) -> datetime:
    """When the entry's table has had its time: it has expired, and is neither kept nor open for a backfill any longer."""
    ends = [expires_at(entry.period, stream), settled_at(entry, stream.late)]
    if entry.keep_until is not None:
        ends.append(entry.keep_until)
    return max(ends)


def is_leaving(entry: Entry, stream: Stream, now: datetime) -> bool:
    """True if the entry's table is to be archived or deleted, as its stream says."""
    return stream.on_expiry != "keep" and now > leaves_at(entry, stream)


def deletable_at(facts: ArchiveFacts, policy: LifecyclePolicy) -> datetime:
    """From when on an archived table may be deleted."""
    return facts.at + policy.delete_grace
