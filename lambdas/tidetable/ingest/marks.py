"""Marks: before a writer writes delayed events, it marks the buckets of the stream's rollups that the events change.

Queries read a marked bucket from the events, so an aggregate shows an event as soon as it is acknowledged. The order
is: the mark, the event, the acknowledgement. A writer that dies in between leaves a mark that is not needed, but never
an event without a mark. On-time events need no mark: their bucket is sealed only when all of its writers have ended
(``tidetable.rollup_model.bounds``).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from tidetable.config.model import Stream
from tidetable.errors import StoreUnavailable, TableMissing, TableThrottled
from tidetable.ingest.routing import Routed
from tidetable.ingest.series_index import SeriesIndex
from tidetable.ports import Slot
from tidetable.ports.rollups import Rollups
from tidetable.rollup_model.bounds import MARK_KEPT, needs_mark, to_millis
from tidetable.times import EPOCH

# The number of buckets that a process remembers. Beyond it, the process forgets buckets that it must mark again anyway.
_MOST = 10_000


class Marks:
    """Puts the marks of a process. A bucket that it marked within ``MARK_KEPT`` is not marked again.

    ``notes`` puts the notes of series. Writers put marks and notes before the events.
    """

    def __init__(self, rollups: Rollups) -> None:
        self._rollups = rollups
        self._put: dict[tuple[str, datetime], datetime] = {}
        self.notes = SeriesIndex(rollups)
        # Why marks were not put the last time that they failed.
        self.trouble = ""

    def mark(self, stream: Stream, times: Iterable[datetime], now: datetime) -> bool:
        """Mark the buckets of the delayed events among ``times``; False if any mark may be missing.

        ``now`` is the instant when the writer looked at the clock, before it decided to write.
        """
        step = min(rollup.every for rollup in stream.rollup)
        buckets = {EPOCH + (time - EPOCH) // step * step for time in times if needs_mark(time, now)}
        unmarked = sorted(bucket for bucket in buckets if not self._is_kept(stream.name, bucket, now))
        if not unmarked:
            return True
        try:
            self._rollups.put_marks(stream.name, unmarked, to_millis(now), step)
        except (StoreUnavailable, TableMissing, TableThrottled) as error:
            self.trouble = str(error)
            return False
        if len(self._put) + len(unmarked) > _MOST:
            self._put = {key: at for key, at in self._put.items() if timedelta(0) <= now - at < MARK_KEPT}
        self._put |= {(stream.name, bucket): now for bucket in unmarked}
        return True

    def mark_and_note_events(self, stream: Stream, routed: Routed, oldest: datetime, now: datetime) -> frozenset[Slot]:
        """Mark the buckets and note the series of a request's events, the oldest of which has the time ``oldest``.

        Return the slots that must not be written, as a mark or a note may be missing.
        """
        unready: frozenset[Slot] = frozenset()
        if needs_mark(oldest, now):
            delayed = [(slot, time) for slot, time in routed.list_times() if needs_mark(time, now)]
            if not self.mark(stream, (time for _, time in delayed), now):
                unready = frozenset(slot for slot, _ in delayed)
        return unready | self.notes.note_events(stream.name, routed.entries, routed.list_series(), now)

    def _is_kept(self, stream: str, bucket: datetime, now: datetime) -> bool:
        at = self._put.get((stream, bucket))
        # If the clock was set back, a mark may seem younger than 0 s: it does not count then.
        return at is not None and timedelta(0) <= now - at < MARK_KEPT
