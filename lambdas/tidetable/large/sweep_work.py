"""The daily sweep as a work item: a message wakes a worker, and an unfinished sweep goes on with the next message."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from tidetable.large.sweep import Sweeper, sweep
from tidetable.large.sweep_report import Swept
from tidetable.remaining import Remaining, limit_time
from tidetable.times import from_text, to_text
from tidetable.work.claim import EVERY_STREAM, ItemName, WorkItem, WorkRecords, hold_claim, rests
from tidetable.work.schedule import DueItem

# The one item of this kind. The memo of its record is the instant from which on the sweep is due again.
SWEEP = ItemName("sweep", "objects")
# The schedule comes once a day, never at the same second.
_RESTS = timedelta(hours=20)
# The seconds of a worker.
_SHARE = 300.0


def find_due_sweep(work: WorkRecords, now: datetime) -> Sequence[DueItem]:
    """Find the sweep if it is due and does not rest."""
    if rests(SWEEP.kind, EVERY_STREAM, work.list_pauses()):
        return []
    record = next(iter(work.list_items(SWEEP.kind)), WorkItem(*SWEEP))
    return [DueItem(record, EVERY_STREAM)] if _is_due(record.memo, now) else []


def work_on_sweep(
    sweeper: Sweeper, work: WorkRecords, owner: str, remaining: Remaining, length: timedelta
) -> Swept | None:
    """Sweep for five minutes at most; None if another worker sweeps, or if the sweep is not due."""
    now = sweeper.clock.now()
    if rests(SWEEP.kind, EVERY_STREAM, work.list_pauses()):
        return None
    with hold_claim(work, *SWEEP, owner, now, length) as held:
        if held is None or not _is_due(held.memo, now):
            return None
        swept = sweep(sweeper, limit_time(_SHARE, sweeper.clock, remaining))
        held.memo = to_text(now + _RESTS) if swept.finished else ""
        held.problem = swept.failures[0] if swept.failures else ""
    return swept


def _is_due(memo: str, now: datetime) -> bool:
    return not memo or from_text(memo) <= now
