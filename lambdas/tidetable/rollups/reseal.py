"""Compute marked buckets anew, and then let their marks rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from tidetable.ports.rollups import Mark, RollupState
from tidetable.query.model import RESERVE
from tidetable.rollup_model.bounds import REBUILT, can_reseal, can_rest, is_forgotten, to_millis
from tidetable.rollup_model.cover import (
    DefinitionVersion,
    find_marked_buckets,
    join_spans,
    list_versions,
    subtract_spans,
)
from tidetable.rollups.bucket import compute_bucket
from tidetable.rollups.collect import list_gone
from tidetable.rollups.run import RefreshRun
from tidetable.rollups.services import BucketBlocked, Unfinished
from tidetable.times import to_text

# A run removes at most this many rested marks of a stream: each is a request, and sealing must not wait for them.
SWEPT_AT_ONCE = 1_000


def reseal_buckets(run: RefreshRun) -> bool:
    """Compute marked sealed buckets anew. Then their marks rest, unless a writer may still be writing.

    All due marks within one bucket of the coarsest rollup are handled together, the newest bucket first. Returns False
    if due marks are left because the stream's share of the run is used; at least one bucket was handled.
    """
    rollups = run.services.rollups
    state, now = rollups.read_at_once(run.source), run.services.clock.now()
    coarsest = run.definitions[-1]
    groups: dict[datetime, list[Mark]] = {}
    for mark in state.marks:
        if can_reseal(mark, now) and not run.is_being_read(mark):
            groups.setdefault(coarsest.floor(mark.bucket), []).append(mark)
    for number, (_, group) in enumerate(sorted(groups.items(), reverse=True)):
        if number and run.share() <= 0:
            return False
        # A set, because an import may put hundreds of thousands of marks.
        group_marks = set(group)
        other_marks = [mark for mark in state.marks if mark not in group_marks]
        due = _drop_gone(group, run, state)
        staying = _reseal_group(due, run, state)
        for mark in due:
            if mark in staying:
                other_marks.append(mark)
                continue
            rests = can_rest(mark, now)
            if not rollups.note_resealed(run.source, mark, to_millis(now), rests=rests) or not rests:
                other_marks.append(mark)
        state = state._replace(marks=other_marks)
    return True


def sweep_rested(run: RefreshRun, state: RollupState) -> None:
    """Remove marks that have rested for long enough, some in each run, until the time is up."""
    services = run.services
    now = services.clock.now()
    for mark in [mark for mark in state.rested if is_forgotten(mark, now)][:SWEPT_AT_ONCE]:
        if services.remaining() < RESERVE:
            return
        services.rollups.clear_mark(run.source, mark)


def _drop_gone(marks: Sequence[Mark], run: RefreshRun, state: RollupState) -> list[Mark]:
    """Take out the marks whose events are deleted for ever, and return the other marks. The cells are not changed.

    The cells are now the only trace of those events, and may lack late ones: answers have a gap there. The mark of a
    rebuild says nothing of late events, and a bucket that was never sealed has no cells. A mark stays if some of its
    events may still exist: if it covers a period that has a table or an archive, or that has no table yet.
    """
    start, end = min(mark.bucket for mark in marks), max(mark.bucket + mark.length for mark in marks)
    spans = join_spans(list_gone(run.source, start, end, run.services))
    remaining_marks: list[Mark] = []
    now = run.services.clock.now()
    for mark in marks:
        # The writer of a young mark may belong to a backfill, which opens a deleted period.
        if not can_rest(mark, now) or subtract_spans([(mark.bucket, mark.bucket + mark.length)], spans):
            remaining_marks.append(mark)
            continue
        is_sealed = any(
            _group_marks(version, [mark])
            for definition in run.definitions
            for version in list_versions(definition, state)
        )
        rollups = run.services.rollups
        if mark.length > REBUILT and is_sealed:
            run.report.gone += rollups.note_lost(run.source, mark)
        else:
            run.report.gone += rollups.clear_mark(run.source, mark)
    return remaining_marks


def _reseal_group(due: Sequence[Mark], run: RefreshRun, state: RollupState) -> Collection[Mark]:
    """Compute the buckets of the marks ``due`` anew, the finest rollup first; return the marks that stay.

    The marks of blocked buckets stay. If the finest buckets would take more than half of the time, the marks of the
    finest buckets that were not computed stay, too. A mark rests only after its coarsest bucket, and a run may have too
    little time for all marks.
    """
    # In the order in which they are found.
    staying: dict[Mark, None] = {}
    over, remaining = list(state.over), run.services.remaining
    half = remaining() / 2
    for definition in run.definitions:
        # A finer bucket is used if it has no mark, if its cells have just been computed anew, or if its mark is not due:
        # that mark is also a mark of the coarser bucket, which is computed again when the mark is due.
        current = state._replace(marks=[*staying], over=list(over))
        for version in list_versions(definition, state):
            marks_of = _group_marks(version, due)
            for number, (bucket, marks) in enumerate(marks_of.items()):
                if remaining() < RESERVE:
                    raise Unfinished("the time is up")
                if definition is run.definitions[0] and remaining() < half:
                    rest = {mark for some in list(marks_of.values())[number:] for mark in some}
                    computed = [mark for mark in due if mark not in rest]
                    if computed:
                        due, run.report.finished = computed, False
                        staying |= dict.fromkeys(sorted(rest))
                        break
                try:
                    if compute_bucket(version, bucket, run, current):
                        run.report.resealed += 1
                    else:
                        over.append((definition.name, bucket))
                except BucketBlocked as error:
                    run.report.blocked.append(f"{definition.stream} {to_text(bucket)}: {error}")
                    staying |= dict.fromkeys(marks)
    return staying


def _group_marks(version: DefinitionVersion, marks: Iterable[Mark]) -> dict[datetime, list[Mark]]:
    """Group marks by bucket: the marked buckets that are sealed under a version, each with its marks."""
    marks_of: dict[datetime, list[Mark]] = {}
    for mark in marks:
        for bucket in sorted(find_marked_buckets(version, [mark])):
            if version.start <= bucket < version.end:
                marks_of.setdefault(bucket, []).append(mark)
    return marks_of
