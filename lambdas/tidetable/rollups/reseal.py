"""Compute marked buckets anew, and then clear their marks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from tidetable.ports.rollups import Mark, RollupState
from tidetable.query.model import RESERVE
from tidetable.rollups.bounds import can_reseal
from tidetable.rollups.bucket import Run, compute_bucket
from tidetable.rollups.collect import list_gone
from tidetable.rollups.cover import Version, find_marked_buckets, join_spans, list_versions, subtract_spans
from tidetable.rollups.services import BucketBlocked, Unfinished
from tidetable.times import to_text


def reseal_buckets(run: Run) -> None:
    """Compute marked sealed buckets anew, and then clear their marks. A mark waits until its writer has ended.

    All marks within one bucket of the coarsest rollup are handled together, the newest bucket first.
    """
    rollups = run.services.rollups
    state, now = rollups.read_state(run.source), run.services.clock.now()
    coarsest = run.definitions[-1]
    groups: dict[datetime, list[Mark]] = {}
    for mark in state.marks:
        # The writer of a young mark may still be writing.
        if can_reseal(mark.at, now):
            groups.setdefault(coarsest.floor(mark.bucket), []).append(mark)
    for _, group in sorted(groups.items(), reverse=True):
        # A set, because an import may put hundreds of thousands of marks.
        group_marks = set(group)
        other_marks = [mark for mark in state.marks if mark not in group_marks]
        due = _drop_gone(group, run)
        staying = _reseal_group(due, other_marks, run, state)
        for mark in due:
            if mark not in staying:
                rollups.clear_mark(run.source, mark)
        state = state._replace(marks=[*other_marks, *staying])


def _drop_gone(marks: Sequence[Mark], run: Run) -> list[Mark]:
    """Clear the marks whose events are deleted for ever, and return the other marks. The cells are not changed.

    The cells are now the only trace of those events. A mark stays if some of its events may still exist: if it covers a
    period that has a table or an archive, or that has no table yet.
    """
    start, end = min(mark.bucket for mark in marks), max(mark.bucket + mark.length for mark in marks)
    spans = join_spans(list_gone(run.source, start, end, run.services))
    remaining_marks: list[Mark] = []
    for mark in marks:
        if subtract_spans([(mark.bucket, mark.bucket + mark.length)], spans):
            remaining_marks.append(mark)
        elif run.services.rollups.clear_mark(run.source, mark):
            run.report.gone += 1
    return remaining_marks


def _reseal_group(due: Sequence[Mark], other_marks: Sequence[Mark], run: Run, state: RollupState) -> Collection[Mark]:
    """Compute the buckets of the marks ``due`` anew, the finest rollup first; return the marks that stay.

    The marks of blocked buckets stay. If the finest buckets would take more than half of the time, the marks of the
    finest buckets that were not computed stay, too. A mark is cleared only after its coarsest bucket, and a run may
    have too little time for all marks.
    """
    # In the order in which they are found.
    staying: dict[Mark, None] = {}
    over, remaining = list(state.over), run.services.remaining
    half = remaining() / 2
    for definition in run.definitions:
        # A finer bucket may be used only if it has no mark, or its cells have just been computed anew.
        current = state._replace(marks=[*other_marks, *staying], over=list(over))
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


def _group_marks(version: Version, marks: Iterable[Mark]) -> dict[datetime, list[Mark]]:
    """Group marks by bucket: the marked buckets that are sealed under a version, each with its marks."""
    marks_of: dict[datetime, list[Mark]] = {}
    for mark in marks:
        for bucket in sorted(find_marked_buckets(version, [mark])):
            if version.start <= bucket < version.end:
                marks_of.setdefault(bucket, []).append(mark)
    return marks_of
