"""What the run that has a stream does for the rebuilds of its rollups: count finished pieces, and cut more.

Each step may be stopped after any request, and the next run does it again. A piece is counted before its record is
removed, and its record is added before the order says that it was cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from tidetable.catalog import Entry, find_entry_at
from tidetable.ports.rollups import Edge, Mark, RollupState
from tidetable.rollup_model.bounds import REBUILT, to_millis
from tidetable.rollup_model.cover import DefinitionVersion, find_present
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.bucket_parts import BucketPart
from tidetable.rollups.rebuild import (
    PIECES_AT_ONCE,
    REBUILD,
    Order,
    Piece,
    PieceMemo,
    Rebuild,
    find_rebuild,
)
from tidetable.rollups.run import RefreshRun
from tidetable.rollups.services import Services, Superseded
from tidetable.times import to_text
from tidetable.work.claim import WorkItem

# A piece has about so many events, or so many buckets: a run computes it in one to two minutes.
PIECE_EVENTS, PIECE_BUCKETS = 4_000_000, 200
# Short buckets are read together: about so many events, and at most so many buckets, whose groups are in memory.
TOGETHER_EVENTS, MOST_TOGETHER = 500_000, 20
# The number of marks that are written in one call.
_MARKS = 100
# A run that removes a piece claims it for this long, so that no other run begins it.
_REMOVAL = timedelta(minutes=1)


def needs_turn(rebuild: Rebuild, definitions: Sequence[Definition], rebuilds: Sequence[Rebuild], now: datetime) -> bool:
    """True if the run that has the stream can count, cut or remove something. ``rebuilds`` are those of the stream."""
    definition = next((one for one in definitions if one.name == rebuild.rollup), None)
    order, pieces = rebuild.order, rebuild.pieces
    if any(not piece.item.is_claimed(now) for piece in rebuild.orphans):
        return True
    if order is None:
        return False
    if definition is None or order.definition != definition.text:
        return True
    before = [piece for piece in pieces if not piece.memo.marked]
    is_countable = any(piece.item.done for piece in pieces if piece.memo.marked) or (before and before[0].item.done)
    is_finished = order.cut <= order.start and not pieces
    return bool(is_countable) or is_finished or _find_low(rebuild, order, definition, definitions, rebuilds) < order.cut


def is_in_piece(part: BucketPart, rebuilds: Sequence[Rebuild]) -> bool:
    """True if a part of a bucket belongs to a piece of a rebuild."""
    return any(
        piece.rollup == part.rollup and piece.meets(part.bucket, part.bucket + REBUILT)
        for rebuild in rebuilds
        for piece in rebuild.pieces
    )


def advance_rebuilds(run: RefreshRun, state: RollupState) -> RollupState:
    """Count, cut and remove pieces of all rebuilds of a stream; return the state with the moved edges."""
    # A finer rollup is first, because a coarser rollup is computed from its cells.
    for definition in run.definitions:
        rebuild = find_rebuild(definition, run.rebuilds)
        if rebuild is not None:
            _remove_pieces(rebuild.orphans, run)
            state = _advance(rebuild, definition, run, state)
    for rebuild in run.rebuilds:
        if all(definition.name != rebuild.rollup for definition in run.definitions):
            _remove_pieces(rebuild.orphans, run)
            _end(rebuild, run)
    return state


def _advance(rebuild: Rebuild, definition: Definition, run: RefreshRun, state: RollupState) -> RollupState:
    version, order = find_present(definition, state), rebuild.order
    if order is None:
        return state
    if version is None or order.definition != definition.text:
        _end(rebuild, run)
        return state
    edge = _count_pieces(rebuild, version, run)
    state = state._replace(edges=[edge if other == version.edge else other for other in state.edges])
    reach = max([order.cut, *(piece.memo.end for piece in rebuild.pieces if not piece.memo.marked)])
    if reach < edge.start or (order.cut <= order.start and not rebuild.pieces):
        # The rollup began anew after events that are gone, or the rebuild is finished.
        _end(rebuild, run)
    else:
        _cut_pieces(rebuild, order, version._replace(edge=edge, start=edge.start), run)
    return state


def _count_pieces(rebuild: Rebuild, version: DefinitionVersion, run: RefreshRun) -> Edge:
    """Let finished pieces count, and remove them; return the edge of the rollup.

    Who computed a bucket has replaced the marks of new events that it may have read. So a new event that has such a mark is
    in no cell of a finished piece, and can be added to them as soon as they count.
    """
    services, edge = run.services, version.edge
    for piece in [piece for piece in rebuild.pieces if piece.memo.marked and piece.item.done]:
        if run.share() <= 0:
            return edge
        _clear_marks(piece, run)
        _remove(rebuild.pieces, piece, services)
    counted, start = list[Piece](), edge.start
    for piece in rebuild.pieces:
        if not piece.memo.marked:
            if not piece.item.done or piece.memo.end < start:
                break
            counted.append(piece)
            start = min(start, piece.memo.start)
    if start < edge.start:
        moved = edge._replace(start=start)
        if not services.rollups.put_edge(run.source, moved, edge):
            raise Superseded(f"the edge of {version.definition.stream} was moved by another run")
        edge = moved
    for piece in counted:
        _remove(rebuild.pieces, piece, services)
    return edge


def _clear_marks(piece: Piece, run: RefreshRun) -> None:
    """Remove the marks that were put when a piece was cut, unless another piece has put them, too."""
    others = [other for rebuild in run.rebuilds for other in rebuild.pieces if other.item.name != piece.item.name]
    for mark in run.services.rollups.read_marks(run.source, (piece.memo.start, piece.memo.end)):
        is_own = (mark.length, mark.at) == (REBUILT, piece.memo.cut_at) and _has_put(piece, mark, run)
        if is_own and not any(_has_put(other, mark, run) for other in others):
            run.services.rollups.clear_mark(run.source, mark)


def _has_put(piece: Piece, mark: Mark, run: RefreshRun) -> bool:
    """True if a mark is of a bucket that was marked when the piece was cut."""
    definition = next((one for one in run.definitions if one.name == piece.rollup), None)
    is_start = definition is not None and definition.floor(mark.bucket) == mark.bucket
    return is_start and piece.memo.marked and mark.meets(piece.memo.start, piece.memo.end)


def _end(rebuild: Rebuild, run: RefreshRun) -> None:
    """Remove the order, then the pieces that no run has."""
    run.services.work.remove(REBUILD, f"{rebuild.source}#{rebuild.rollup}")
    _remove_pieces(rebuild.pieces, run)


def _remove_pieces(pieces: list[Piece], run: RefreshRun) -> None:
    """Remove pieces that do not count any more, unless a run has them: it may still write cells.

    The marks of a piece that no run has had are removed, too. The buckets of other pieces may have some new cells, so the
    run that has the stream computes them anew because of their marks.
    """
    services = run.services
    for piece in list(pieces):
        if piece.item.done:
            _remove(pieces, piece, services)
            continue
        now = services.clock.now()
        claim = services.work.claim(REBUILD, piece.item.name, "removal", now, now + _REMOVAL, added=True)
        if claim is not None:
            if claim.generation == 1 and piece.memo.marked:
                _clear_marks(piece, run)
            _remove(pieces, piece, services)


def _remove(pieces: list[Piece], piece: Piece, services: Services) -> None:
    services.work.remove(REBUILD, piece.item.name)
    pieces.remove(piece)


def _find_low(
    rebuild: Rebuild,
    order: Order,
    definition: Definition,
    definitions: Sequence[Definition],
    rebuilds: Sequence[Rebuild],
) -> datetime:
    """Find the instant down to which pieces can be cut now.

    A coarser rollup waits for a finer one that it is computed from: then it need not read events. A finer rollup waits for
    the pieces of a coarser one, which may be reading its cells.
    """
    low = order.start
    if len(rebuild.pieces) > PIECES_AT_ONCE // 2 or rebuild.orphans:
        return order.cut
    for other in definitions:
        theirs = find_rebuild(other, rebuilds)
        if theirs is None or other.name == definition.name:
            continue
        if other.can_feed(definition):
            left = theirs.find_end_of_left()
            low = low if left is None else max(low, definition.ceil(left))
        elif definition.can_feed(other):
            ends = [piece.memo.end for piece in theirs.pieces if piece.memo.start < order.cut]
            low = max([low, *ends])
    return low


def _cut_pieces(rebuild: Rebuild, order: Order, version: DefinitionVersion, run: RefreshRun) -> None:
    """Cut pieces off the end of the order's range. The buckets of a sealed piece are marked before it is added."""
    definition, services = version.definition, run.services
    cut, low = order.cut, _find_low(rebuild, order, definition, run.definitions, run.rebuilds)
    now = to_millis(services.clock.now())
    entries = services.catalog.entries(run.source, low, cut, consistent=True) if low < cut else ()
    while low < cut and len(rebuild.pieces) < PIECES_AT_ONCE:
        marked = cut > version.start
        first, events = _choose_start(cut, definition, entries, run)
        start = max(first, version.start if marked else low, low)
        together = max(min(TOGETHER_EVENTS // max(round(events), 1), MOST_TOGETHER), 1)
        if marked:
            buckets = [start + number * definition.every for number in range((cut - start) // definition.every)]
            for number in range(0, len(buckets), _MARKS):
                services.rollups.put_marks(run.source, buckets[number : number + _MARKS], now, REBUILT)
        memo = PieceMemo(order.made, order.definition, start, cut, cut, now, marked, together)
        text = msgspec.json.encode(memo).decode()
        name = f"{run.source}#{rebuild.rollup}#{to_text(start)}#{order.made}"
        services.work.add(REBUILD, name, text)
        rebuild.pieces.append(Piece(WorkItem(REBUILD, name, text), memo, run.source, rebuild.rollup))
        cut = start
    if cut < order.cut:
        _note_cut(rebuild, msgspec.structs.replace(order, cut=cut), services)


def _note_cut(rebuild: Rebuild, order: Order, services: Services) -> None:
    """Let the record of an order say how far it is cut. An order that was removed meanwhile stays removed."""
    name, now = f"{rebuild.source}#{rebuild.rollup}", services.clock.now()
    claim = services.work.claim(REBUILD, name, "cutting", now, now + _REMOVAL, added=True)
    if claim is not None:
        services.work.release(claim, msgspec.json.encode(order).decode())


def _choose_start(
    cut: datetime, definition: Definition, entries: Sequence[Entry], run: RefreshRun
) -> tuple[datetime, float]:
    """Choose the first bucket of the piece that ends at ``cut``, so that a run can compute it in one to two minutes; return
    it, and the events of a bucket.

    Its events are estimated from the archive of their period, or from the last buckets that were sealed.
    """
    every, last = definition.every, cut - definition.every
    entry = find_entry_at(entries, last)
    rates = [
        run.sizes[other.name] / other.every.total_seconds() for other in run.definitions if other.name in run.sizes
    ]
    rate = max(rates, default=0.0)
    if entry is not None and entry.archived is not None:
        rate = entry.archived.events / (entry.period.end - entry.period.start).total_seconds()
    events = rate * every.total_seconds()
    start = cut - min(PIECE_BUCKETS, int(PIECE_EVENTS / max(events, 1))) * every
    if entry is not None:
        start = max(start, definition.ceil(entry.period.start))
    return min(start, last), events
