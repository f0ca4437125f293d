"""The rule for the times that a stream accepts: an event outside of the window is ``too_old`` or ``too_new``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidetable.catalog import Backfill
from tidetable.config import Stream
from tidetable.times import to_text


class Window(msgspec.Struct, frozen=True):
    """The writable window: events with ``oldest <= time <= newest`` are accepted."""

    oldest: datetime
    newest: datetime

    @classmethod
    def of(cls, stream: Stream, now: datetime) -> Window:
        """Compute the stream's window at an instant."""
        return cls(now - stream.late, now + stream.ahead)

    def is_too_old(self, time: datetime) -> bool:
        return time < self.oldest

    def is_too_new(self, time: datetime) -> bool:
        return time > self.newest

    def document(self, backfills: Sequence[Backfill] | None = None) -> dict[str, Any]:
        """Return the window in the form of the API, with the backfills under way if they were read."""
        edges = {"oldest": to_text(self.oldest), "newest": to_text(self.newest)}
        return edges if backfills is None else edges | {"backfills": [backfill.document() for backfill in backfills]}
