"""Compute marked buckets anew, and then let their marks rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
from tidetable.rollups.bucket import Computed, compute_bucket
from tidetable.rollups.bucket_parts import list_open
from tidetable.rollups.collect import list_gone
from tidetable.rollups.last_periods import cut_marked
from tidetable.rollups.run import RefreshRun
from tidetable.rollups.services import BucketBlocked, Divided, Unfinished
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
    versions = [version for definition in run.definitions for version in list_versions(definition, state)]
    open_parts = list_open(run.bucket_parts, versions)
    groups: dict[datetime, list[Mark]] = {}
    for mark in state.marks:
        if can_reseal(mark, now) and not run.is_being_read(mark, open_parts):
            groups.setdefault(coarsest.floor(mark.bucket), []).append(mark)
    state = cut_marked(run, state, [mark for group in groups.values() for mark in group])
    for number, (_, group) in enumerate(sorted(groups.items(), reverse=True)):
        if number and run.share() <= 0:
            return False
        # A set, because an import may put hundreds of thousands of marks.
        group_marks = set(group)
        other_marks = [mark for mark in state.marks if mark not in group_marks]
        due = _drop_gone(group, run, state)
        computed, used = _reseal_group(due, run, state)
        for mark in due:
            if mark not in computed:
                other_marks.append(mark)
                continue
            rests = can_rest(mark, computed[mark])
            if not rollups.note_resealed(run.source, mark, to_millis(now), rests=rests) or not rests:
                other_marks.append(mark)
        for rollup, bucket in used:
            run.remove_parts(rollup, bucket)
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


def _reseal_group(
    due: Sequence[Mark], run: RefreshRun, state: RollupState
) -> tuple[dict[Mark, datetime], set[tuple[str, datetime]]]:
    """Compute the buckets of the marks ``due`` anew, the finest rollup first.

    Return the marks whose buckets were all computed, each with an instant: the cells have all events that were written
    before. Also return the divided buckets of which no part is needed any more. The marks of blocked buckets, and of
    buckets that wait for their parts, stay. If the finest buckets would take more than half of the time, the marks of the
    finest buckets that were not computed stay, too. A mark rests only after its coarsest bucket, and a run may have too
    little time for all marks.
    """
    # In the order in which they are found.
    computed = dict.fromkeys(due, run.services.clock.now())
    used: dict[tuple[str, datetime], list[Mark]] = {}
    over, remaining = list(state.over), run.services.remaining
    half = remaining() / 2
    for definition in run.definitions:
        current = state._replace(over=list(over))
        for version in list_versions(definition, state):
            marks_of = _group_marks(version, computed)
            for number, (bucket, marks) in enumerate(marks_of.items()):
                if definition is run.definitions[0] and remaining() < half:
                    rest = {mark for some in list(marks_of.values())[number:] for mark in some}
                    if computed.keys() - rest:
                        run.report.finished = False
                        _drop_marks(computed, rest)
                        break
                found = _try_bucket(version, bucket, run, current)
                if found is None:
                    _drop_marks(computed, marks)
                    continue
                if (definition.name, bucket) in run.divided:
                    used[definition.name, bucket] = marks
                for mark in computed.keys() & marks:
                    computed[mark] = min(computed[mark], found.read_at)
                if not found.is_kept:
                    over.append((definition.name, bucket))
    return computed, {name for name, marks in used.items() if computed.keys() >= set(marks)}


def _try_bucket(version: DefinitionVersion, bucket: datetime, run: RefreshRun, state: RollupState) -> Computed | None:
    """Compute a marked bucket; None if it is blocked, or waits for its parts."""
    if run.services.remaining() < RESERVE:
        raise Unfinished("the time is up")
    try:
        found = compute_bucket(version, bucket, run, state, divides=True)
    except BucketBlocked as error:
        run.report.blocked.append(f"{version.definition.stream} {to_text(bucket)}: {error}")
        return None
    except Divided:
        return None
    run.report.resealed += found.is_kept
    return found


def _drop_marks(computed: dict[Mark, datetime], marks: Iterable[Mark]) -> None:
    for mark in marks:
        computed.pop(mark, None)


def _group_marks(version: DefinitionVersion, marks: Iterable[Mark]) -> dict[datetime, list[Mark]]:
    """Group marks by bucket: the marked buckets that are sealed under a version, each with its marks."""
    marks_of: dict[datetime, list[Mark]] = {}
    for mark in marks:
        for bucket in sorted(find_marked_buckets(version, [mark])):
            if version.start <= bucket < version.end:
                marks_of.setdefault(bucket, []).append(mark)
    return marks_of
