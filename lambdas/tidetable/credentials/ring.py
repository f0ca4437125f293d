"""The keys that a process remembers, each for a short time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from threading import Lock
from typing import NamedTuple

from tidetable.credentials.records import CredentialRecord
from tidetable.credentials.text import find_slot

# The time for which a key is used without a look at the catalog: a process that read a key just before its revocation
# accepts it for this time.
LIFE = timedelta(seconds=60)
# The time for which a key is remembered as long as the catalog counts no change of a key of its slot. It bounds the life
# of a key that somebody changes in the catalog by hand, uncounted.
LONGEST = timedelta(hours=1)
# A key whose secret seems wrong is read again if it was read earlier than this: the key may have a new secret by now. So
# a flood of wrong secrets costs a read per id, process and this time.
RECHECK = timedelta(seconds=3)
# The time for which an id without a key is not looked up again. A key that is made with such an id works only after
# this time.
UNKNOWN_LIFE = timedelta(seconds=10)
# At most this many known ids, and this many unknown ids, are remembered: a key takes about a kilobyte.
MOST = 20_000


class _Kept(NamedTuple):
    """A key that was read ``at`` an instant. ``changes`` counts the changes in its slot until then; None if unknown."""

    at: datetime
    record: CredentialRecord | None
    changes: int | None


class CredentialRing:
    """Keys by their id, read from the catalog when they are needed.

    ``read`` and ``count_changes`` (changes of existing keys, by slots) must be strongly consistent: then a key that was
    revoked more than ``LIFE`` ago is always found as revoked. Without ``count_changes``, a key is remembered for ``LIFE``.
    Of too many keys, the key that was not used for the longest time is forgotten. Unknown ids are kept apart, so that a
    flood of invented ids cannot push out the keys that are in use.
    """

    def __init__(
        self,
        read: Callable[[str], CredentialRecord | None],
        count_changes: Callable[[], Mapping[str, int]] | None = None,
    ) -> None:
        self._read = read
        self._count_changes = count_changes
        self._counts: tuple[datetime, Mapping[str, int]] | None = None
        self._known: dict[str, _Kept] = {}
        self._unknown: dict[str, _Kept] = {}
        self._lock = Lock()

    def find(self, id: str, now: datetime) -> CredentialRecord | None:
        """Return the key of an id, or None. Errors of reads are raised: an unreadable key is not accepted."""
        kept = self._known.get(id)
        if kept is not None and self._is_current(id, kept, now):
            with self._lock:
                # The keys are in the order of their last use.
                self._known.pop(id, None)
                self._known[id] = kept
            return kept.record
        unknown = self._unknown.get(id)
        if unknown is not None and _is_younger(unknown.at, UNKNOWN_LIFE, now):
            return None
        return self._read_again(id, now)

    def find_newer(self, id: str, now: datetime) -> CredentialRecord | None:
        """Return the key of an id whose secret seems wrong: it is read again, unless it was read within ``RECHECK``."""
        kept = self._known.get(id)
        if kept is not None and _is_younger(kept.at, RECHECK, now):
            return kept.record
        return self._read_again(id, now)

    def _is_current(self, id: str, kept: _Kept, now: datetime) -> bool:
        if _is_younger(kept.at, LIFE, now):
            return True
        is_counted = kept.changes is not None and _is_younger(kept.at, LONGEST, now)
        return is_counted and self._find_count(id, now) == kept.changes

    def _find_count(self, id: str, now: datetime) -> int | None:
        """Return the number of changes in the slot of an id, as the catalog had it within ``LIFE``; None if unknown."""
        if self._count_changes is None:
            return None
        counts = self._counts
        if counts is None or not _is_younger(counts[0], LIFE, now):
            # As with a key, ``now`` is an instant before the read.
            counts = self._counts = now, self._count_changes()
        return counts[1].get(find_slot(id), 0)

    def _read_again(self, id: str, now: datetime) -> CredentialRecord | None:
        # The changes are counted before the key is read: a change in between is found as a change later. The first request
        # of a process does without: it should not wait for two reads.
        changes = self._find_count(id, now) if self._known else None
        # ``now`` is an instant before the read, so the record is never older than its entry says.
        record = self._read(id)
        if record is not None and record.uncounted:
            changes = None
        with self._lock:
            self._known.pop(id, None)
            self._unknown.pop(id, None)
            entries = self._unknown if record is None else self._known
            if len(entries) >= MOST:
                del entries[next(iter(entries))]  # the oldest
            entries[id] = _Kept(now, record, changes)
        return record


def _is_younger(at: datetime, life: timedelta, now: datetime) -> bool:
    """True if less than ``life`` has passed since an instant. If the clock was set back, it may seem to be ahead: False."""
    return timedelta(0) <= now - at < life
