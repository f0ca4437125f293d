"""The periods that a process has just read from the catalog.

They are remembered, so that not every request reads them again: until the period ends, and afterwards for two seconds at a
time. A remembered entry must not allow a write into a table that is being archived: the archive's scan would miss the
event. These rules prevent that:

- Only open entries (or entries that are being created) are remembered. No table closes before its period ends, whatever
  the configuration says, and it is archived or deleted 15 minutes (``SETTLE``) after it closed, at the earliest.
- Remembered entries serve only events within the window. The window is that of the request's own time, not that of the
  time of the read. A table is open as long as its period meets the window.
- A request reads the catalog if it has events before the window (of a backfill), or events for which no open entry is
  remembered. So a remembered entry never causes a refusal, and never queues an event because its table is missing.

The remembered facts of an open entry never change: its period, its table and its layout. See docs/decisions/0300.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from tidetable.catalog import OPENING, Entry
from tidetable.catalog_steps import read_entries_at
from tidetable.ingest.context import RequestContext
from tidetable.periods import LONGEST, Kind, show_bounds
from tidetable.ports import CatalogReader
from tidetable.times import from_text

# How long an entry is remembered after the end of its period, counted from a moment before it was read: a shorter `late`
# may close the table at any instant.
KEPT = timedelta(seconds=2)


class RecentPeriods:
    """Remembers open entries of the catalog.

    ``until_end`` says that an entry is remembered until its period ends. The local stage can act as if it were another
    time, and archive a table before its period ends: there an entry is remembered for two seconds only.
    """

    def __init__(self, *, until_end: bool = True) -> None:
        self._until_end = until_end
        # By stream and table: the entry, the instant before it was read, and the instant until which it is used.
        self._entries: dict[str, dict[str, tuple[Entry, datetime, datetime]]] = {}

    def find_covering(
        self, catalog: CatalogReader, context: RequestContext, times: Sequence[str], oldest: str, newest: str
    ) -> Sequence[Entry]:
        """Return the entries of a request's ``times``, of which these are the oldest and the newest; from memory if all are
        there. Entries between distant times are not read.
        """
        stream, now, first, last = context.stream.name, context.now, from_text(oldest), from_text(newest)
        if first < context.window.oldest:
            known_times = map(from_text, times) if last - first > LONGEST[Kind.MONTH] else (first, last)
            return read_entries_at(catalog, stream, known_times, consistent=False)
        known = self._entries.setdefault(stream, {})
        # If the clock was set back, an entry may seem to be read later than now: it is not used then.
        fresh = [entry for entry, at, until in known.values() if at <= now < until]
        if _holds_all(fresh, oldest, newest):
            return fresh
        entries = catalog.entries(stream, first, last)
        read = {entry.table for entry in entries}
        self._entries[stream] = {entry.table: known[entry.table] for entry in fresh if entry.table not in read} | {
            entry.table: (entry, now, max(now + KEPT, entry.period.end) if self._until_end else now + KEPT)
            for entry in entries
            if entry.state in OPENING
        }
        return entries


def _holds_all(entries: Sequence[Entry], oldest: str, newest: str) -> bool:
    """True if the entries' periods cover the time from ``oldest`` to ``newest`` without a gap."""
    instant = oldest
    for start, end, _ in sorted(show_bounds(entry.period) for entry in entries):
        if start <= instant < end:
            instant = end
    return instant > newest
