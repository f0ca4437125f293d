"""The rules for the instants at which a table closes, and at which it expires."""

from __future__ import annotations

from datetime import datetime, timedelta

from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.config import LifecyclePolicy, Stream
from tidetable.periods import Period

# 15 minutes after a table has closed, every write that began before has ended: Lambda's longest run is 15 minutes.
SETTLE = timedelta(minutes=15)
# Segments of a retained table that got a write are archived again once in this time, at most.
AGAIN = timedelta(hours=1)
# A table that is deleted without an archive waits at most this long for the marked buckets of its stream's rollups.
MARKS_AWAITED = timedelta(hours=24)


def compute_closing(period: Period, stream: Stream) -> datetime:
    """Compute when the period's table closes: ``late`` after the period's end. Later events are not accepted."""
    return period.end + stream.late


def is_closed(period: Period, stream: Stream, now: datetime) -> bool:
    """True if the period has left the writable window."""
    return now > compute_closing(period, stream)


def compute_expiry(period: Period, stream: Stream) -> datetime:
    """Compute when the period has been kept for ``retention`` whole periods, and every write has ended."""
    return max(period.shift(stream.retention).end, compute_closing(period, stream) + SETTLE)


def compute_settling(entry: Entry, late: timedelta) -> datetime:
    """Compute the instant from which no write into the entry's table can be under way: ``SETTLE`` after its last event."""
    closed = entry.period.end + late
    return (closed if entry.opened is None else max(closed, entry.opened.until)) + SETTLE


def compute_entry_expiry(entry: Entry, stream: Stream) -> datetime:
    """Compute when the entry's table expires: its period, its ``keep_until`` and its backfill have ended."""
    ends = [compute_expiry(entry.period, stream), compute_settling(entry, stream.late)]
    if entry.keep_until is not None:
        ends.append(entry.keep_until)
    return max(ends)


def is_expired(entry: Entry, stream: Stream, now: datetime) -> bool:
    """True if the entry's table has expired, and its stream's policy is to archive or to delete such tables."""
    return stream.on_expiry != "keep" and now > compute_entry_expiry(entry, stream)


def is_due_at_close(entry: Entry, stream: Stream, now: datetime) -> bool:
    """True if the entry's table will now be archived, or is being archived for the first time, before it has expired.

    A restored table holds what its archive holds. It is archived when it expires.
    """
    if entry.state is State.RETAINED:
        return entry.segments is not None and not entry.has_whole_archive
    due = stream.archive_at == "close" and stream.on_expiry == "archive" and entry.keep_until is None
    return due and entry.state is State.CLOSED and now > compute_settling(entry, stream.late)


def compute_deletion(facts: ArchiveFacts, policy: LifecyclePolicy) -> datetime:
    """Compute the instant from which an archived table may be deleted."""
    return facts.at + policy.delete_grace
