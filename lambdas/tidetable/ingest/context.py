"""The facts of a request that its steps share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from tidetable.access import FULL, Access
from tidetable.catalog import Backfill
from tidetable.config import Stream
from tidetable.layout import Layout
from tidetable.values import MAX_ITEM_BYTES
from tidetable.window import Window

# AWS: a partition key has at most 2,048 bytes, a sort key 1,024. The rest is for the names of attributes.
_KEY_BYTES = 4_000


class StreamRules(msgspec.Struct, frozen=True):
    """What follows from a stream's policy alone: the layout of its new tables, and how its events are checked.

    If a body has at most ``small_bytes``, none of its events can exceed DynamoDB's limit for items. ``judges_all`` says that
    each event is judged by itself: an index may refuse it, or the policy for large values needs its size.
    """

    layout: Layout
    small_bytes: int
    judges_all: bool

    @classmethod
    def of(cls, stream: Stream, layout: Layout) -> StreamRules:
        """Find the rules of a stream whose new tables have this layout.

        The fields of an item take at most the bytes of their JSON. The item has its keys and, for each index, keys and
        perhaps a copy of the fields. Each local index may hold all of it.
        """
        indexes = layout.indexes
        room = (MAX_ITEM_BYTES - 1) // (1 + len(layout.local_indexes)) - _KEY_BYTES * (1 + len(indexes))
        small_bytes = room // (1 + sum(bool(index.project) for index in indexes))
        judges_all = any(not index.replica for index in indexes) or stream.shrinks_small
        return cls(layout, small_bytes, judges_all)


class RequestContext(msgspec.Struct):
    """The stream of a request, the time of its arrival, and what its caller may write.

    ``at`` is ``now`` in epoch milliseconds. ``access`` are the caller's rights. ``backfills`` are the backfills under way;
    None until ``takes_import`` has read them, because most requests need none.
    """

    stream: Stream
    rules: StreamRules
    window: Window
    now: datetime
    at: int = 0
    access: Access = FULL
    read_backfills: Callable[[str], Sequence[Backfill]] = lambda _: ()
    backfills: Sequence[Backfill] | None = None

    def takes_import(self, time: datetime) -> bool:
        """True if an open backfill accepts a time before the window."""
        if self.backfills is None:
            backfills = self.read_backfills(self.stream.name)
            self.backfills = [backfill for backfill in backfills if backfill.is_open(self.now)]
        return any(backfill.holds(time) for backfill in self.backfills)
