"""A rebuild of a rollup: an order for a range of its buckets, and pieces of this range, which several runs compute.

An order and its pieces are work items. The run that has the stream cuts a limited number of pieces off the end of the
order's range, and counts them when they are finished (``rebuild_turn``). Any run computes a piece (``rebuild_piece``).
Buckets before the rollup's beginning count when the beginning moves back over their piece: pieces are counted from the
beginning backwards, without a hole. Sealed buckets are marked when their piece is cut, so they are read from the events
until it is counted.

An event may come into a bucket that a piece has read already. So no mark rests while its bucket is in a piece: the bucket
is computed anew after the piece was counted, and all runs see its mark until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from tidetable.ports.rollups import Mark, RollupState, Span
from tidetable.rollup_model.bounds import REBUILT, SEALED_AFTER, can_rest, can_seal, to_millis
from tidetable.rollup_model.cover import DefinitionVersion, find_present, join_spans, list_versions
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.services import Services
from tidetable.times import EPOCH, from_text, to_text
from tidetable.work.claim import RecordUnread, WorkItem, refuse_unread

# The kind of work.
REBUILD = "rebuild"
# So many pieces of an order are cut at most before some of them are counted.
PIECES_AT_ONCE = 100
# A piece lies in one period, so it is not longer than a month.
_LONGEST = timedelta(days=31)
NOT_BEGUN = "the rollup has not begun: wait for the refresher's next run"


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the record of an order says: the definition, the buckets ``[start, end)``, and when it was made.

    The buckets from ``cut`` on have been cut into pieces.
    """

    definition: str
    start: datetime
    end: datetime
    cut: datetime
    made: int


class PieceMemo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the record of a piece says: the order's ``made``, the buckets ``[start, end)``, and when it was cut.

    The buckets from ``reached`` on are computed. ``marked`` says that the buckets are sealed, and marked at ``cut_at``.
    So many buckets are read ``together``, in one pass over their events.
    """

    made: int
    definition: str
    start: datetime
    end: datetime
    reached: datetime
    cut_at: int
    marked: bool
    together: int = 1


_NOTHING = PieceMemo(0, "", EPOCH, EPOCH, EPOCH, 0, marked=False)


class Piece(NamedTuple):
    """A piece of a rebuild, as its record says."""

    item: WorkItem
    memo: PieceMemo
    source: str
    rollup: str

    def is_ready(self, now: datetime) -> bool:
        """True if it can be computed: queries that read the state before its buckets were marked have ended."""
        mark = Mark(self.memo.start, self.memo.cut_at, REBUILT)
        return not self.item.done and (not self.memo.marked or can_rest(mark, now))

    def meets(self, start: datetime, end: datetime) -> bool:
        """True if it has a bucket that overlaps ``[start, end)``."""
        return self.memo.start < end and start < self.memo.end


class Rebuild(NamedTuple):
    """The rebuild of a rollup: its order, its pieces, the newest first, and the pieces whose order is gone.

    The lists change with the records. ``unread`` are records that cannot be read. If there are some, the other
    pieces are computed, but none is cut, counted or removed until the order is cancelled.
    """

    source: str
    rollup: str
    order: Order | None
    pieces: list[Piece]
    orphans: list[Piece]
    unread: Sequence[WorkItem] = ()

    def list_ready(self, now: datetime) -> list[Piece]:
        """List the pieces that can be computed or are being computed, the newest first.

        If a piece before the rollup's beginning cannot be computed, the pieces before it cannot count.
        """
        ready = list[Piece]()
        for piece in self.pieces:
            if piece.is_ready(now):
                ready.append(piece)
                if piece.item.problem and not piece.memo.marked:
                    break
        return ready

    def list_items(self) -> list[WorkItem]:
        """List the items of its pieces and of its order."""
        items = [*(piece.item for piece in [*self.pieces, *self.orphans]), *self.unread]
        return items if self.order is None else [*items, WorkItem(REBUILD, f"{self.source}#{self.rollup}")]

    def count_left(self, definition: Definition) -> int:
        """Count the buckets that are not computed yet."""
        left = [piece.memo.reached - piece.memo.start for piece in self.pieces]
        if self.order is not None:
            left.append(self.order.cut - self.order.start)
        return sum(length // definition.every for length in left)

    def find_end_of_left(self) -> datetime | None:
        """Find the end of the last bucket that does not count yet; None if all buckets count or one cannot be computed."""
        if any(piece.item.problem for piece in self.pieces):
            return None
        ends = [piece.memo.end for piece in self.pieces]
        if self.order is not None and self.order.start < self.order.cut:
            ends.append(self.order.cut)
        return max(ends, default=None)


def list_rebuilds(services: Services, source: str = "") -> list[Rebuild]:
    """List the rebuilds of all streams, or of one stream."""
    items = services.work.list_items(REBUILD, f"{source}#" if source else "")
    of_rollup = dict[tuple[str, str], list[WorkItem]]()
    for item in items:
        stream, _, rest = item.name.partition("#")
        of_rollup.setdefault((stream, rest.partition("#")[0]), []).append(item)
    return [_read_rebuild(*names, some) for names, some in of_rollup.items()]


def _read_rebuild(source: str, rollup: str, items: Sequence[WorkItem]) -> Rebuild:
    """Read the rebuild of a rollup from its records, in the order of their names: its order, then the oldest piece."""
    order, pieces, unread = None, list[Piece](), list[WorkItem]()
    for item in reversed(items):
        try:
            if item.name.count("#") > 1:
                pieces.append(read_piece(item))
            else:
                with refuse_unread(item):
                    order = msgspec.json.decode(item.memo, type=Order)
        except RecordUnread:
            unread.append(item)
    if unread and items[0].name == f"{source}#{rollup}":
        return Rebuild(source, rollup, None, pieces, [], unread)
    # Without an order, pieces that cannot be read are removed, too.
    pieces += [Piece(item, _NOTHING, source, rollup) for item in unread]
    own = [piece for piece in pieces if order is not None and piece.memo.made == order.made]
    if order is not None and own:
        # The run that cut the last pieces may have been stopped before it noted this.
        order = msgspec.structs.replace(order, cut=min(order.cut, own[-1].memo.start))
    return Rebuild(source, rollup, order, own, [piece for piece in pieces if piece not in own])


def read_piece(item: WorkItem) -> Piece:
    """Read what the record of a piece says. Raises RecordUnread."""
    with refuse_unread(item):
        source, rollup, *_ = item.name.split("#")
        return Piece(item, msgspec.json.decode(item.memo, type=PieceMemo), source, rollup)


def find_rebuild(definition: Definition, rebuilds: Iterable[Rebuild]) -> Rebuild | None:
    """Find the rebuild of a rollup."""
    names = definition.source, definition.name
    return next((rebuild for rebuild in rebuilds if (rebuild.source, rebuild.rollup) == names), None)


def list_spans(rebuilds: Iterable[Rebuild]) -> list[Span]:
    """List the spans of all pieces. A mark in one of them does not rest."""
    pieces = [piece for rebuild in rebuilds for piece in [*rebuild.pieces, *rebuild.orphans]]
    unread = [item.name.split("#")[2:3] for rebuild in rebuilds for item in rebuild.unread]
    starts = [from_text(start) for of_piece in unread for start in of_piece]
    return join_spans(
        [*((piece.memo.start, piece.memo.end) for piece in pieces), *((start, start + _LONGEST) for start in starts)]
    )


def leave_out(state: RollupState, spans: Sequence[Span]) -> RollupState:
    """Leave out the marks that do not rest because their buckets are in pieces."""
    if not spans:
        return state
    marks = [mark for mark in state.marks if mark.event or not any(mark.meets(*span) for span in spans)]
    return state._replace(marks=marks)


def order_rebuild(version: DefinitionVersion, start: datetime, end: datetime, services: Services) -> bool:
    """Order the rebuild of the buckets of ``[start, end)``; False if the rollup has an order already.

    All buckets from ``start`` to the rollup's beginning are computed, also if ``end`` is earlier, because a rollup must not
    have holes.
    """
    definition = version.definition
    first, last = choose_range(version, start, end)
    order = Order(definition.text, first, last, last, to_millis(services.clock.now()))
    return services.work.add(REBUILD, f"{definition.source}#{definition.name}", msgspec.json.encode(order).decode())


def choose_range(version: DefinitionVersion, start: datetime, end: datetime) -> Span:
    """Choose the buckets that a rebuild of ``[start, end)`` computes; the range is empty if there are none."""
    definition = version.definition
    first = definition.floor(start)
    return first, max(first, version.start, min(definition.ceil(end), version.end))


def cancel_rebuild(definition: Definition, services: Services) -> None:
    """Remove the order of a rebuild. The run that has the stream then removes the pieces that no run has."""
    services.work.remove(REBUILD, f"{definition.source}#{definition.name}")


def find_obstacle(definition: Definition, state: RollupState, now: datetime) -> str | None:
    """Find the reason why the past buckets of a rollup cannot be computed yet, with the time from which they can."""
    newest = find_present(definition, state)
    if newest is None:
        return NOT_BEGUN
    begin = f"the rollup begins at {to_text(newest.start)}: rebuild it"
    if not can_seal(newest.start, now):
        return f"{begin} after {to_text(newest.start + SEALED_AFTER)}"
    if any(version.edge.sealed >= newest.edge.sealed for version in list_versions(definition, state)[1:]):
        return f"{begin} when its first bucket is sealed"
    return None


def describe_rebuild(definition: Definition, rebuild: Rebuild | None, now: datetime) -> dict[str, Any] | None:
    """Describe the progress of a rebuild; None if there is none.

    ``oldest`` is how many seconds a piece has waited for a worker, ``problem`` says why a piece cannot be computed.
    """
    if rebuild is None or rebuild.order is None:
        return None
    order, items = rebuild.order, [piece.item for piece in rebuild.pieces]
    waiting = [now - item.waiting for item in items if item.waiting is not None and not item.done]
    return {
        "from": to_text(order.start),
        "to": to_text(order.end),
        "buckets": (order.end - order.start) // definition.every,
        "left": rebuild.count_left(definition),
        "pieces": len(items),
        "running": sum(item.is_claimed(now) and not item.done for item in items),
        "oldest": int(max(waiting).total_seconds()) if waiting else 0,
        "problem": next((item.problem for item in items if item.problem and not item.done), None),
    }
