"""Marks: before a writer writes delayed events, it marks the buckets of the stream's rollups that the events change.

A few delayed events that their tables do not have are each written together with a mark that names the event. The
refresher adds such an event to the cells, and does not read its bucket anew (``tidetable.rollups.new_events``).

Queries read a marked bucket from the events, so an aggregate shows an event as soon as it is acknowledged. The order
is: the mark, the event, the acknowledgement. A writer that dies in between leaves a mark that is not needed, but never
an event without a mark. On-time events need no mark: their bucket is sealed only when all of its writers have ended
(``tidetable.rollup_model.bounds``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from datetime import datetime, timedelta

from tidetable.config.model import Stream
from tidetable.errors import CollectionFull, PutRefused, StoreUnavailable, TableMissing, TableThrottled
from tidetable.forms.choose import choose_form
from tidetable.ingest.routing import Routed
from tidetable.ingest.series_index import SeriesIndex
from tidetable.periods import Period
from tidetable.ports import EventStore, Guarded, Mark, Rollups, Slot, Transacted, Written
from tidetable.rollup_model.bounds import MARK_KEPT, PERIOD_KEPT, needs_mark, to_millis
from tidetable.times import EPOCH

# The number of buckets that a process remembers. Beyond it, the process forgets buckets that it must mark again anyway.
_MOST = 10_000
# The length of the mark of a period in a stream without rollups. Every period is at least as long.
PERIOD = timedelta(hours=1)
# A request with more delayed events only marks their buckets. An event that is written with its own mark costs four write
# units instead of one, which is less than reading its bucket anew.
MOST_ADDED = 10


class Marks:
    """Puts the marks of a process. A bucket that it marked within ``MARK_KEPT`` is not marked again.

    ``listed`` are the streams without rollups in which periods that are over are marked, because their tables are read for
    their series. ``notes`` puts the notes of series. Writers put marks and notes before the events.
    """

    def __init__(self, rollups: Rollups, listed: Set[str] = frozenset()) -> None:
        self._rollups = rollups
        self._listed = listed
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
        try:
            return self._put_missing(stream.name, buckets, step, now, MARK_KEPT)
        except TableMissing as error:
            self.trouble = str(error)
            return False

    def mark_ended(self, stream: str, periods: Iterable[Period], now: datetime) -> bool:
        """Mark those of the periods that are over, before a writer writes events in them; False if any mark may be missing.

        Only of streams without rollups: there no other events have marks.
        """
        starts = {period.start for period in periods if needs_mark(period.end, now)}
        try:
            return self._put_missing(stream, starts, PERIOD, now, PERIOD_KEPT)
        except TableMissing:
            # Then nobody can read a last period, either.
            return True

    def _put_missing(
        self, stream: str, buckets: Iterable[datetime], length: timedelta, now: datetime, kept: timedelta
    ) -> bool:
        """Put the marks that this process has not put within the time ``kept``; False or TableMissing if any may be missing."""
        unmarked = sorted(bucket for bucket in buckets if not self._is_kept(stream, bucket, now, kept))
        if not unmarked:
            return True
        try:
            self._rollups.put_marks(stream, unmarked, to_millis(now), length)
        except (StoreUnavailable, TableThrottled) as error:
            self.trouble = str(error)
            return False
        if len(self._put) + len(unmarked) > _MOST:
            self._put = {key: at for key, at in self._put.items() if timedelta(0) <= now - at < PERIOD_KEPT}
        self._put |= {(stream, bucket): now for bucket in unmarked}
        return True

    def prepare_puts(
        self, stream: Stream, routed: Routed, oldest: datetime, now: datetime, store: EventStore
    ) -> tuple[frozenset[Slot], frozenset[Slot], float]:
        """Mark the buckets and note the series of a request's events, the oldest of which has the time ``oldest``.

        Return the slots that must not be written, as a mark or a note may be missing, the slots of new delayed events,
        which are written, and the write units that these events consumed with their marks. Without rollups, only mark
        the periods that are over, if the stream needs it.
        """
        if not stream.rollup:
            unready = frozenset[Slot]()
            if stream.name in self._listed and needs_mark(oldest, now):
                ended = {entry.table: entry.period for entry in routed.entries if needs_mark(entry.period.end, now)}
                slots = {put.slot: ended[put.table] for put in routed.puts if put.table in ended}
                if not self.mark_ended(stream.name, slots.values(), now):
                    unready = frozenset(slots)
            return unready, frozenset(), 0.0
        unready = self.notes.note_events(routed.entries, routed.list_series(), now)
        if not needs_mark(oldest, now):
            return unready, frozenset(), 0.0
        delayed = [(slot, time) for slot, time in routed.list_times() if needs_mark(time, now) and slot not in unready]
        written, units = self._write_new(stream, routed, dict(delayed), now, store)
        delayed = [(slot, time) for slot, time in delayed if slot not in written]
        if delayed and not self.mark(stream, (time for _, time in delayed), now):
            unready |= {slot for slot, _ in delayed}
        return unready, written, units

    def _write_new(
        self, stream: Stream, routed: Routed, delayed: Mapping[Slot, datetime], now: datetime, store: EventStore
    ) -> tuple[frozenset[Slot], float]:
        """Write those of a few delayed events that their tables do not have, each with its mark; return their slots and
        the consumed write units.

        Without an answer, nobody knows whether such an event was written. Then it is marked and written as any other.
        """
        written, total = set[Slot](), Written()
        step = min(rollup.every for rollup in stream.rollup)
        proving = {entry.table for entry in routed.entries if choose_form(entry.layout).proves_new}
        puts = [put for put in routed.puts if put.slot in delayed and put.table in proving and not put.outside]
        for put in puts if len(delayed) <= MOST_ADDED else ():
            bucket = EPOCH + (delayed[put.slot] - EPOCH) // step * step
            mark = Mark(bucket, to_millis(now), step, event=(put.table, *put.key))
            try:
                own = Guarded(self._rollups.make_mark(stream.name, mark))
                done = store.transact([Guarded(put, "absent"), own], total=total)
            except (CollectionFull, PutRefused, StoreUnavailable, TableMissing, TableThrottled):
                break
            if done is Transacted.DONE:
                written.add(put.slot)
        return frozenset(written), total.units

    def _is_kept(self, stream: str, bucket: datetime, now: datetime, kept: timedelta) -> bool:
        at = self._put.get((stream, bucket))
        # If the clock was set back, a mark may seem younger than 0 s: it does not count then.
        return at is not None and timedelta(0) <= now - at < kept
