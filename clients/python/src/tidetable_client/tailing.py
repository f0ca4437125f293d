"""Following a stream: which range the next reading has, and which of its events are new. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

# The identity of an event within its stream.
Identity = tuple[str, str, str]


class Tail:
    """Readings that overlap, and the events of the last reading.

    The range is an age, which the API counts from its own clock: so the clock of this machine may be wrong. Each
    reading begins ``overlap`` before the begin of the reading before it, also if hours lie between them.
    """

    def __init__(self, overlap: float) -> None:
        self._overlap = overlap
        self._began: float | None = None
        self._seen: set[Identity] = set()

    def find_start(self, now: float) -> str:
        """The parameter ``from`` of a reading that begins now."""
        elapsed = 0.0 if self._began is None else now - self._began
        return f"-{math.ceil(self._overlap + elapsed)}s"

    def pass_reading(self, now: float, events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The events that the reading before did not have. The reading counts when its last event was taken.

        If it fails in the middle, the next one begins where it began, and repeats no event.
        """
        read: set[Identity] = set()
        for event in events:
            identity = (event["series"], event["time"], event["id"])
            read.add(identity)
            if identity not in self._seen:
                self._seen.add(identity)
                yield event
        self._began, self._seen = now, read
