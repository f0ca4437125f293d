"""The bounds in time that keep rollups exact: when a writer marks a bucket, and when a bucket can be sealed.

A writer reads the clock once. Before it writes an event that is older than ``MARKED_AFTER``, it marks the event's
bucket. At the latest ``WRITER_LIFE`` after it read the clock, it has written everything. So an event without a mark is
in its table at the latest ``MARKED_AFTER + WRITER_LIFE`` after the end of its bucket. An event with a mark is there at
the latest ``WRITER_LIFE`` after the mark.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tidetable.times import to_micros

# The bucket of an event older than this is marked. An event that is sent at once is younger: sending takes less time,
# also with three attempts and their pauses.
MARKED_AFTER = timedelta(seconds=120)
# The time-out of the drain. It is the longest of all functions that write events; the time-out of ingest is 28 seconds.
FUNCTION_LIFE = timedelta(seconds=60)
# A process that marked a bucket does not mark it again for this long. So a mark may be this much older than the moment
# when the writer read the clock.
MARK_KEPT = timedelta(seconds=5)
# The allowed difference between two clocks. AWS keeps the clocks of its hosts within milliseconds of each other.
CLOCKS = timedelta(seconds=10)
# A request that DynamoDB has accepted may take effect after its function has died.
UNDER_WAY = timedelta(seconds=15)
WRITER_LIFE = FUNCTION_LIFE + MARK_KEPT + CLOCKS + UNDER_WAY
# A bucket can be sealed this long after its end: then all events without a mark have been written.
SEALED_AFTER = MARKED_AFTER + WRITER_LIFE
# The query function's time-out. A query that read the state before a mark may read the bucket's cells this much later.
READER_LIFE = timedelta(seconds=30)
# The first bucket of a new definition begins this much later: then no process runs with the former configuration.
DEFINED_AHEAD = timedelta(minutes=10)
# The longest time for which a process remembers that it noted a series, and does not note it again.
NOTE_KEPT = timedelta(hours=24)
# Notes of a period are removed this long after its table was deleted: then no process remembers such a note.
NOTES_LEFT = timedelta(hours=48)
# After a stream's last rollup was removed, noting begins again this much later at the earliest: then no refresher of
# the former deployment runs.
NOTING_PAUSE = timedelta(hours=1)
LEASE = "rollups"


def needs_mark(time: datetime, now: datetime) -> bool:
    """True if a writer whose clock says ``now`` must mark an event's bucket before it writes the event."""
    return time < now - MARKED_AFTER


def can_seal(end: datetime, now: datetime) -> bool:
    """True if all events without a mark in a bucket that ends at ``end`` have been written."""
    return end + SEALED_AFTER < now


def can_reseal(marked_at: int, now: datetime) -> bool:
    """True if the writer of a mark of ``marked_at`` (epoch milliseconds) and all earlier queries have ended."""
    return to_millis(now) - marked_at > (WRITER_LIFE + READER_LIFE) // timedelta(milliseconds=1)


def choose_lease_length(timeout: timedelta) -> timedelta:
    """Choose how long a refresher with this time-out holds the lease: until all of its requests have surely ended."""
    return timeout + 2 * CLOCKS + UNDER_WAY


def to_millis(instant: datetime) -> int:
    """Convert an instant to whole milliseconds since 1970."""
    return to_micros(instant) // 1000
