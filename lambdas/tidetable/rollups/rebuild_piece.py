"""Compute a piece of a rebuild, the newest bucket first. Its record keeps how far a run came."""

from __future__ import annotations

from datetime import datetime

import msgspec

from tidetable.ports.rollups import RollupState
from tidetable.query.model import RESERVE
from tidetable.rollup_model.cells import Bucket
from tidetable.rollup_model.cover import find_present, join_spans, subtract_spans
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.bucket import choose_segments, compute_bucket
from tidetable.rollups.collect import collect_range, list_gone
from tidetable.rollups.division import choose_division
from tidetable.rollups.rebuild import Piece
from tidetable.rollups.run import RefreshRun
from tidetable.rollups.services import BucketBlocked, Unfinished
from tidetable.work.claim import HeldClaim


def _read_together(
    definition: Definition, start: datetime, end: datetime, run: RefreshRun, state: RollupState
) -> dict[datetime, tuple[datetime, Bucket]]:
    """Read several buckets in one pass, each with the instant when reading began; nothing if they are to be read one by one.

    It costs less to compute a bucket from the cells of finer rollups. If some bucket cannot be read, the others can.
    """
    if any(segment.definition for segment in choose_segments(definition, start, end, run, state)):
        return {}
    if choose_division(definition, start, 0, run.services).number > 1:
        return {}
    read_at = run.services.clock.now()
    try:
        return {at: (read_at, content) for at, content in collect_range(definition, start, end, run.services).items()}
    except BucketBlocked:
        return {}


def compute_piece(piece: Piece, held: HeldClaim, definition: Definition, run: RefreshRun) -> None:
    """Compute the buckets of a piece that are left, and let the claim finish it.

    Raises BucketBlocked if a bucket cannot be computed, Unfinished if the time is up, and Divided if a bucket waits for its
    parts. A piece of a former definition is left to the run that has the stream.
    """
    services, memo = run.services, piece.memo
    state = services.rollups.read_state(run.source, (memo.start, memo.end))
    version = find_present(definition, state)
    if version is None or definition.text != memo.definition:
        return
    waiting: dict[datetime, tuple[datetime, Bucket]] = {}
    together = memo.together
    while memo.reached > memo.start:
        if services.remaining() <= RESERVE:
            raise Unfinished("the time is up")
        bucket = memo.reached - definition.every
        if bucket not in waiting and not run.divided and together > 1:
            start = max(memo.reached - together * definition.every, memo.start)
            waiting = _read_together(definition, start, memo.reached, run, state)
            together = together if waiting else 1
        try:
            compute_bucket(version, bucket, run, state, waiting.pop(bucket, None), divides=True)
        except BucketBlocked:
            # Of events that are deleted for ever, the sealed cells are the only trace.
            gone = join_spans(list_gone(run.source, bucket, memo.reached, services))
            if not memo.marked or subtract_spans([(bucket, memo.reached)], gone):
                raise
        memo = msgspec.structs.replace(memo, reached=bucket)
        held.memo = msgspec.json.encode(memo).decode()
        run.remove_parts(definition.name, bucket)
        run.report.rebuilt += 1
    held.done = True
