"""The facts of a request that its steps share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from tidetable.access import FULL, Access
from tidetable.catalog import Backfill
from tidetable.config import Stream
from tidetable.layout import Layout
from tidetable.times import to_micros
from tidetable.window import Window


class RequestContext(msgspec.Struct):
    """The stream of a request, the time of its arrival, and what its caller may write.

    ``at`` is ``now`` in epoch milliseconds. ``layout`` is the layout of the stream's new tables.
    ``access`` are the caller's rights. ``backfills`` are the backfills under way; None until ``takes_import`` has read
    them, because most requests need none.
    """

    stream: Stream
    window: Window
    now: datetime
    layout: Layout
    at: int = 0
    access: Access = FULL
    read_backfills: Callable[[str], Sequence[Backfill]] = lambda _: ()
    backfills: Sequence[Backfill] | None = None

    @classmethod
    def of(
        cls, stream: Stream, now: datetime, access: Access, read_backfills: Callable[[str], Sequence[Backfill]]
    ) -> RequestContext:
        """Make the context of a request that arrived at ``now``."""
        at = to_micros(now) // 1000
        return cls(stream, Window.of(stream, now), now, stream.layout, at, access, read_backfills)

    @property
    def judges_all(self) -> bool:
        """True if each event is judged by itself: an index may refuse it, or the policy for large values needs its size."""
        return any(not index.replica for index in self.layout.indexes) or self.stream.shrinks_small

    def takes_import(self, time: datetime) -> bool:
        """True if an open backfill accepts a time before the window."""
        if self.backfills is None:
            backfills = self.read_backfills(self.stream.name)
            self.backfills = [backfill for backfill in backfills if backfill.is_open(self.now)]
        return any(backfill.holds(time) for backfill in self.backfills)
