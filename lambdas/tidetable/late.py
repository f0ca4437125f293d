"""The rule for lowering a table whose period is over, but which still takes late events.

Such a table gets few events, so the ladder may have a step for it, ``age = "late"``. Events that are throttled at this
step are queued, and the drain writes them: if the step is too low, no event is lost, but it is written later.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.config.capacity import LATE_SETTLE
from tidetable.periods import Period


def find_lowering(period: Period, stream: Stream) -> datetime | None:
    """Find when the period's table is lowered for late events; None if the ladder has no step for late events."""
    return period.end + LATE_SETTLE if stream.capacity.late_step is not None else None


def is_lowered(period: Period, stream: Stream, now: datetime) -> bool:
    """True if the period's table has been lowered for late events; also if the table has closed since then."""
    instant = find_lowering(period, stream)
    return instant is not None and now > instant


def find_lowered_tables(stream: Stream, entries: Iterable[Entry], now: datetime) -> frozenset[str]:
    """Find the names of the tables that are lowered for late events, without tables that have the units of a backfill."""
    if stream.capacity.late_step is None:
        return frozenset()
    return frozenset(
        entry.table for entry in entries if is_lowered(entry.period, stream, now) and not entry.is_open(now)
    )
