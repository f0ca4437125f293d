"""The keys that a process remembers, each for a short time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Lock

from tidetable.credentials.records import CredentialRecord

# The time for which a key is remembered: a process that read a key just before its revocation accepts it for this time.
LIFE = timedelta(seconds=60)
# A key whose secret seems wrong is read again if it was read earlier than this: the key may have a new secret by now. So
# a flood of wrong secrets costs a read per id, process and this time.
RECHECK = timedelta(seconds=3)
# The time for which an id without a key is not looked up again. A key that is made with such an id works only after
# this time.
UNKNOWN_LIFE = timedelta(seconds=10)
# At most this many known ids, and this many unknown ids, are remembered: a key takes about a kilobyte.
MOST = 5_000


class CredentialRing:
    """Keys by their id, read from the catalog when they are needed.

    ``read`` must be strongly consistent: then a key that was revoked more than ``LIFE`` ago is always found as revoked.
    Unknown ids are kept apart, so that a flood of invented ids cannot push out the keys that are in use.
    """

    def __init__(self, read: Callable[[str], CredentialRecord | None]) -> None:
        self._read = read
        self._known: dict[str, tuple[datetime, CredentialRecord | None]] = {}
        self._unknown: dict[str, tuple[datetime, CredentialRecord | None]] = {}
        self._lock = Lock()

    def find(self, id: str, now: datetime) -> CredentialRecord | None:
        """Return the key of an id, or None. Errors of ``read`` are raised: an unreadable key is not accepted."""
        for entries, life in ((self._known, LIFE), (self._unknown, UNKNOWN_LIFE)):
            entry = entries.get(id)
            # If the clock was set back, an entry may seem younger than 0 s: it is not fresh then.
            if entry is not None and timedelta(0) <= now - entry[0] < life:
                return entry[1]
        return self._read_again(id, now)

    def find_newer(self, id: str, now: datetime) -> CredentialRecord | None:
        """Return the key of an id whose secret seems wrong: it is read again, unless it was read within ``RECHECK``."""
        entry = self._known.get(id)
        if entry is not None and timedelta(0) <= now - entry[0] < RECHECK:
            return entry[1]
        return self._read_again(id, now)

    def _read_again(self, id: str, now: datetime) -> CredentialRecord | None:
        # ``now`` is an instant before the read, so the record is never older than its entry says.
        record = self._read(id)
        with self._lock:
            self._known.pop(id, None)
            self._unknown.pop(id, None)
            entries = self._unknown if record is None else self._known
            if len(entries) >= MOST:
                del entries[next(iter(entries))]  # the oldest
            entries[id] = (now, record)
        return record
