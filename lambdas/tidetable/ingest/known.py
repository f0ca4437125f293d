"""The periods that a process read from the catalog a moment ago, so that not every request reads them again.

An entry that is two seconds old must not let a write into a table that is being archived: the scan would miss it. It does not:

- Only entries that are open (or creating) are kept. Only a closed table can be archived, and the lifecycle archives it
  ``SETTLE`` (15 minutes) after it closed, at the earliest.
- They serve only events within the window, which is compared with the time of the request itself, not with the time of the
  read. A table is open as long as its period meets the window.
- Events before the window (of a backfill) always make the request read the catalog. So do those for which no open entry is
  known: nothing is refused, and nothing queued for want of a table, because of an entry that is kept.

What is kept of an open entry never changes: its period, its table and its layout. See docs/decisions/0033.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from tidetable.catalog import Entry, State
from tidetable.ports import CatalogReader

KEPT = timedelta(seconds=2)
_OPEN = frozenset({State.CREATING, State.OPEN})


class KnownPeriods:
    """Entries of the catalog that are open, each for two seconds from before it was read."""

    def __init__(self) -> None:
        self._entries: dict[str, dict[str, tuple[Entry, datetime]]] = {}

    def find_covering(
        self, catalog: CatalogReader, stream: str, oldest: datetime, newest: datetime, now: datetime
    ) -> Sequence[Entry]:
        """The entries of ``[oldest, newest]``, which lies within the window; from memory if that covers all of it."""
        known = self._entries.setdefault(stream, {})
        # A clock that was set back makes nothing young again.
        fresh = [entry for entry, at in known.values() if timedelta(0) <= now - at < KEPT]
        if _holds_all(fresh, oldest, newest):
            return fresh
        entries = catalog.entries(stream, oldest, newest)
        just_read = {entry.table: (entry, now) for entry in entries if entry.state in _OPEN}
        earlier = {entry.table: known[entry.table] for entry in fresh}
        for entry in entries:
            earlier.pop(entry.table, None)
        self._entries[stream] = earlier | just_read
        return entries


def _holds_all(entries: Sequence[Entry], oldest: datetime, newest: datetime) -> bool:
    """Whether the periods follow each other without a gap from one instant to the other."""
    instant = oldest
    for period in sorted((entry.period for entry in entries), key=lambda period: period.start):
        if period.start <= instant < period.end:
            instant = period.end
    return instant > newest
