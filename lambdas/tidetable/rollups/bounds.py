"""The bounds in time that keep rollups exact: who marks a bucket, and when a bucket can be sealed.

A writer looks at the clock once. It marks the buckets of events that are older than ``MARKED_AFTER`` before it writes them,
and it has written everything ``WRITER_LIFE`` later at the latest. So every event without a mark is there ``MARKED_AFTER +
WRITER_LIFE`` after the end of its bucket, and every event with a mark ``WRITER_LIFE`` after its mark.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tidetable.times import to_micros

# Events older than this are marked. On-time events are younger: sending, and three attempts with pauses, take less.
MARKED_AFTER = timedelta(seconds=120)
# The drain's time-out, the longest of the functions that write events; ingest has 28 seconds.
FUNCTION_LIFE = timedelta(seconds=60)
# A process that marked a bucket does not mark it again for so long, so a mark may be so much older than the writer's look.
MARK_KEPT = timedelta(seconds=5)
# Between two clocks. AWS keeps the clocks of its hosts within milliseconds of each other.
CLOCKS = timedelta(seconds=10)
# A request that DynamoDB has accepted may take effect after its function has died.
UNDER_WAY = timedelta(seconds=15)
WRITER_LIFE = FUNCTION_LIFE + MARK_KEPT + CLOCKS + UNDER_WAY
# The query function's time-out: a query that read the state before a mark may read the bucket's cells so much later.
READER_LIFE = timedelta(seconds=30)
# A new definition begins so much later, when no process runs with the configuration of before.
DEFINED_AHEAD = timedelta(minutes=10)
# A process that noted a series does not note it again for so long at the most.
NOTE_KEPT = timedelta(hours=24)
# Notes of a period are removed so long after its table was deleted: then no process remembers one.
NOTES_LEFT = timedelta(hours=48)
# A stream whose last rollup left begins to note again so much later, when no refresher of the former deployment runs.
NOTING_PAUSE = timedelta(hours=1)
LEASE = "rollups"


def needs_mark(time: datetime, now: datetime) -> bool:
    """True if a writer whose clock says ``now`` must mark an event's bucket before it writes the event."""
    return time < now - MARKED_AFTER


def can_seal(end: datetime, now: datetime) -> bool:
    """True if every event without a mark of a bucket that ends at ``end`` has been written."""
    return end + MARKED_AFTER + WRITER_LIFE < now


def can_reseal(marked_at: int, now: datetime) -> bool:
    """True if no writer lives that put a mark at ``marked_at`` (epoch milliseconds), and no query that began before the mark."""
    return to_millis(now) - marked_at > to_millis_of(WRITER_LIFE + READER_LIFE)


def choose_lease_length(timeout: timedelta) -> timedelta:
    """How long a refresher with this time-out holds the lease: when it runs out, the run and its requests are dead."""
    return timeout + 2 * CLOCKS + UNDER_WAY


def to_millis(instant: datetime) -> int:
    """Whole milliseconds since 1970."""
    return to_micros(instant) // 1000


def to_millis_of(length: timedelta) -> int:
    """Whole milliseconds of a length of time."""
    return length // timedelta(milliseconds=1)
