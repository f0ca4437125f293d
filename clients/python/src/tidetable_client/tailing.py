"""Follow a stream: compute the range of the next reading, and find its new events.

This needs no clock and no network.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

# The identity of an event within its stream.
Identity = tuple[str, str, str]


class Tail:
    """The state of a tail: readings whose ranges overlap, and the events of the last two readings.

    The range begins at an age, such as ``-60s``. The API counts the age from its own clock, so the clock of this
    machine may be wrong. The range of each reading begins ``overlap`` seconds before the start of the previous reading,
    even if hours lie between the two readings.
    """

    def __init__(self, overlap: float) -> None:
        self._overlap = overlap
        self._began: float | None = None
        self._seen: set[Identity] = set()
        self._read: set[Identity] = set()

    def find_start(self, now: float) -> str:
        """Find the parameter ``from`` of a reading that begins now."""
        elapsed = 0.0 if self._began is None else now - self._began
        return f"-{math.ceil(self._overlap + elapsed)}s"

    def pass_reading(self, now: float, events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the events that the two previous readings did not have. A reading is complete when its last event was taken.

        If a reading fails in the middle, the next range begins at the same instant, and no event is repeated.

        The last two readings are remembered. An answer that came late, for example after an outage, may lack events
        that the previous and the next answer have.
        """
        read: set[Identity] = set()
        for event in events:
            identity = (event["series"], event["time"], event["id"])
            read.add(identity)
            if identity not in self._seen:
                self._seen.add(identity)
                yield event
        self._began, self._seen, self._read = now, read | self._read, read
