"""Notes of series, for streams that are partitioned by series and have rollups: a writer notes each series before it
writes the first event of the series into a period.

No single key of such a table gives all of its events, so rollups read the events of the noted series. The order is: the
note, the event, the acknowledgement. A writer that dies in between leaves a note that is not needed, but never an event
without a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from tidetable.catalog import Entry
from tidetable.errors import StoreUnavailable, TableMissing, TableThrottled
from tidetable.ports import Slot
from tidetable.ports.rollups import Rollups
from tidetable.rollup_model.bounds import NOTE_KEPT, to_millis

# A process remembers at least this number of its last notes, and at most twice the number, at about 150 bytes per note.
MOST = 150_000


class SeriesIndex:
    """Puts the notes of a process. It remembers the last notes for less than ``NOTE_KEPT``, and skips them."""

    def __init__(self, rollups: Rollups, most: int = MOST) -> None:
        self._rollups = rollups
        self._most = most
        # The remembered series by stream and period: the younger half and the older half.
        self._young: dict[tuple[str, str], set[str]] = {}
        self._old: dict[tuple[str, str], set[str]] = {}
        self._count = 0
        self._begun: datetime | None = None
        # Why notes were not put the last time that they failed.
        self.trouble = ""

    def note(self, stream: str, series_of: Mapping[str, Iterable[str]], now: datetime) -> bool:
        """Put notes for the series in ``series_of``, which has them by the labels of their periods; False if any note
        may be missing.

        ``now`` is the instant when the writer looked at the clock, before it decided to write.
        """
        self._forget_old(now)
        for period, series in series_of.items():
            key = stream, period
            young, old = self._young.setdefault(key, set()), self._old.get(key, set())
            unknown = sorted({name for name in series if name not in young and name not in old})
            if unknown:
                try:
                    self._rollups.put_notes(stream, period, unknown, to_millis(now))
                except (StoreUnavailable, TableMissing, TableThrottled) as error:
                    self.trouble = str(error)
                    return False
                young.update(unknown)
                self._count += len(unknown)
        return True

    def note_events(
        self, stream: str, entries: Sequence[Entry], events: Iterable[tuple[Slot, str]], now: datetime
    ) -> frozenset[Slot]:
        """Note the series of events. Return the slots that must not be written: their notes may be missing.

        ``events`` has the slot and the series of each event. Only periods that are partitioned by series need notes.
        """
        labels = {entry.table: entry.period.label for entry in entries if entry.layout.partition_by == "series"}
        if not labels:
            return frozenset()
        slots = [(slot, series) for slot, series in events if slot[0] in labels]
        series_of: dict[str, set[str]] = {}
        for slot, series in slots:
            series_of.setdefault(labels[slot[0]], set()).add(series)
        if self.note(stream, series_of, now):
            return frozenset()
        return frozenset(slot for slot, series in slots if not self._is_kept(stream, labels[slot[0]], series))

    def _is_kept(self, stream: str, period: str, series: str) -> bool:
        key = stream, period
        return series in self._young.get(key, ()) or series in self._old.get(key, ())

    def _forget_old(self, now: datetime) -> None:
        """Forget all notes ``NOTE_KEPT`` after the first note; forget the older half when the younger half is full."""
        if self._begun is None or not timedelta(0) <= now - self._begun < NOTE_KEPT:
            # If the clock was set back, the notes may seem younger than 0 s: they are forgotten.
            self._young, self._old, self._count, self._begun = {}, {}, 0, now
        elif self._count >= self._most:
            self._young, self._old, self._count = {}, self._young, 0
