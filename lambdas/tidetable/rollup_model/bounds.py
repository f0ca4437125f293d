"""The bounds in time that keep rollups exact: when a writer marks a bucket, and when a bucket can be sealed.

A writer reads the clock once. Before it writes an event that is older than ``MARKED_AFTER``, it marks the event's
bucket. At the latest ``WRITER_LIFE`` after it read the clock, it has written everything. So an event without a mark is
in its table at the latest ``MARKED_AFTER + WRITER_LIFE`` after the end of its bucket. An event with a mark is there at
the latest ``WRITER_LIFE`` after the mark.

A mark counts until its bucket was computed anew after all of its writers had ended. Then it rests for a while, so that
the refresher knows when it last computed the bucket.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tidetable.ports.rollups import Mark
from tidetable.times import from_micros, to_micros

# The bucket of an event older than this is marked. An event that is sent at once is younger: sending takes less time,
# also with three attempts and their pauses.
MARKED_AFTER = timedelta(seconds=120)
# The time-out of the drain. It is the longest of all functions that write events; the time-out of ingest is 28 seconds.
FUNCTION_LIFE = timedelta(seconds=60)
# A process that marked a bucket does not mark it again for this long. So a mark may be this much older than the moment
# when the writer read the clock.
MARK_KEPT = timedelta(seconds=5)
# In a stream without rollups, a process that marked a period does not mark it again for this long. Such a mark stays for
# at least ``SETTLE``, which is longer than this time and a writer's life.
PERIOD_KEPT = timedelta(minutes=5)
# The allowed difference between two clocks. AWS keeps the clocks of its hosts within milliseconds of each other.
CLOCKS = timedelta(seconds=10)
# A request that DynamoDB has accepted may take effect after its function has died.
UNDER_WAY = timedelta(seconds=15)
WRITER_LIFE = FUNCTION_LIFE + MARK_KEPT + CLOCKS + UNDER_WAY
# A bucket can be sealed this long after its end: then all events without a mark have been written.
SEALED_AFTER = MARKED_AFTER + WRITER_LIFE
# The query function's time-out. A query that read the state before a mark may read the bucket's cells this much later.
READER_LIFE = timedelta(seconds=30)
# A bucket whose late events go on is computed anew this long after its first mark. The refresher runs once a minute, so
# that is 5 minutes at the latest.
MARKED_LONGEST = timedelta(minutes=4)
# After a bucket was computed anew, it waits before it is computed anew for further late events: this long the first
# time, then twice as long each time, and at most the longest pause. A bucket that was not computed anew for ``FORGOTTEN``
# begins anew. A bucket that was computed anew only once begins anew after the longest pause: it has not waited yet, and
# after an import each bucket has such a mark, which queries read.
FIRST_PAUSE, LONGEST_PAUSE, FORGOTTEN = timedelta(minutes=5), timedelta(hours=1), timedelta(days=1)
# The length of the marks of a rebuild. A mark of one second lies in one bucket of each rollup, so other, finer buckets
# within the rebuilt bucket can still be used. Writers' marks are longer: ``every`` is a minute at the least.
REBUILT = timedelta(seconds=1)
# The first bucket of a new definition begins this much later: then no process runs with the former configuration.
DEFINED_AHEAD = timedelta(minutes=10)
# Notes of a period are removed this long after its table was deleted: then no process writes to this table.
NOTES_LEFT = timedelta(hours=48)
# The removal spares notes that were put this long after the deletion. The difference to ``NOTES_LEFT`` is longer than the
# life of any writer: a restore that begins while notes are removed writes only notes that are spared, and in a restored
# period processes rely on no others.
NOTE_KEPT = timedelta(hours=24)
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


def can_rest(mark: Mark, now: datetime) -> bool:
    """True if a mark's last writer, and all queries that read the state before the mark, have ended.

    If its bucket is computed anew now, the mark counts no more.
    """
    return _measure_age(mark.at, now) > WRITER_LIFE + READER_LIFE


def find_due(mark: Mark) -> datetime:
    """Find the instant at which a marked bucket is computed anew at the latest.

    While late events go on, the mark stays all the same: its last writer may still be writing. But then the cells have
    all but the latest events, if the events are deleted.
    """
    due = from_millis(mark.since) + MARKED_LONGEST
    return max(due, from_millis(mark.resealed) + choose_pause(mark.pauses)) if mark.pauses else due


def can_reseal(mark: Mark, now: datetime) -> bool:
    """True if a marked bucket is to be computed anew: its mark can rest, or has waited too long, and its pause is over.

    All queries that read the state before the mark was first put must have ended: they may still read cells. A new event
    is not read with its bucket, but added to the cells (``tidetable.rollups.new_events``).
    """
    if mark.event or _measure_age(mark.since, now) <= WRITER_LIFE + READER_LIFE:
        return False
    if mark.pauses and _measure_age(mark.resealed, now) <= choose_pause(mark.pauses):
        return False
    return can_rest(mark, now) or now > find_due(mark)


def choose_pause(pauses: int) -> timedelta:
    """Choose how long a bucket waits that was computed anew ``pauses`` times."""
    return min(FIRST_PAUSE * (1 << min(pauses - 1, 10)), LONGEST_PAUSE)


def is_forgotten(mark: Mark, now: datetime) -> bool:
    """True if the bucket of a rested mark has had no late event for so long that its pauses begin anew."""
    return _measure_age(mark.resealed, now) > (FORGOTTEN if mark.pauses > 1 else LONGEST_PAUSE)


def _measure_age(millis: int, now: datetime) -> timedelta:
    return timedelta(milliseconds=to_millis(now) - millis)


def choose_lease_length(timeout: timedelta) -> timedelta:
    """Choose how long a refresher with this time-out holds the lease: until all of its requests have surely ended."""
    return timeout + 2 * CLOCKS + UNDER_WAY


def from_millis(millis: int) -> datetime:
    """Convert whole milliseconds since 1970 to an instant."""
    return from_micros(1000 * millis)


def to_millis(instant: datetime) -> int:
    """Convert an instant to whole milliseconds since 1970."""
    return to_micros(instant) // 1000
