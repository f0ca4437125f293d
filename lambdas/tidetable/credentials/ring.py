"""The keys that a process knows, each for a short time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Lock
from typing import TypeVar

from tidetable.credentials.records import KeyRecord

# So long a revoked key may still be accepted by a process that read it just before.
LIFE = timedelta(seconds=60)
# So long an id without a key is not looked up again. A key that is made after its id was refused waits so long.
UNKNOWN_LIFE = timedelta(seconds=10)
# Ids of each kind: a key takes about a kilobyte.
MOST = 5_000

_Kept = TypeVar("_Kept")


class KeyRing:
    """Keys by their id, read from the catalog when they are needed.

    ``read`` must be strongly consistent: then a key that was revoked more than ``LIFE`` ago is never found here as it was
    before. Unknown ids are kept apart, so that a flood of invented ids cannot push out the keys that are in use.
    """

    def __init__(self, read: Callable[[str], KeyRecord | None]) -> None:
        self._read = read
        self._known: dict[str, tuple[datetime, KeyRecord]] = {}
        self._unknown: dict[str, tuple[datetime, None]] = {}
        self._lock = Lock()

    def find(self, id: str, now: datetime) -> KeyRecord | None:
        """The key of an id; None if there is none. Errors of ``read`` pass: a key that cannot be read is not accepted."""
        known = self._known.get(id)
        if known is not None and _is_fresh(known[0], now, LIFE):
            return known[1]
        unknown = self._unknown.get(id)
        if unknown is not None and _is_fresh(unknown[0], now, UNKNOWN_LIFE):
            return None
        # ``now`` is before the reading begins: what is read is at least as young.
        record = self._read(id)
        with self._lock:
            self._known.pop(id, None)
            self._unknown.pop(id, None)
            if record is None:
                _keep(self._unknown, id, (now, None))
            else:
                _keep(self._known, id, (now, record))
        return record


def _is_fresh(since: datetime, now: datetime, life: timedelta) -> bool:
    # A clock that was set back says nothing about an entry's age.
    return timedelta(0) <= now - since < life


def _keep(entries: dict[str, _Kept], id: str, entry: _Kept) -> None:
    """Keep an entry, and drop the oldest if there are too many."""
    if len(entries) >= MOST:
        del entries[next(iter(entries))]
    entries[id] = entry
