"""When a table is lowered for late events: its period is over, and it still takes what comes late.

Such a table takes a trickle, so the ladder may have a step for it, ``age = "late"``. What the step throttles is queued, and the
drain writes it: nothing is lost by a step that is too low, it only takes longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.periods import Period

# How long after its period's end a table keeps its units. Until then events of the busy period still come: from senders whose
# clocks are slow (5 minutes, as much as ``ahead`` allows the others by default), from requests under way (half a minute), and
# from the overflow, whose drain tries a message again after 6 and after 12 minutes. A longer backlog is not waited for: the
# drain carries it at the units of the late step, and a backfill of the period raises the table meanwhile.
LATE_SETTLE = timedelta(minutes=15)


def find_lowering(period: Period, stream: Stream) -> datetime | None:
    """When the period's table is lowered for late events; None if its stream's ladder has no step for them."""
    return period.end + LATE_SETTLE if stream.capacity.late_step is not None else None


def is_lowered(period: Period, stream: Stream, now: datetime) -> bool:
    """True if the period's table has been lowered for late events; also true of a table that has closed since."""
    instant = find_lowering(period, stream)
    return instant is not None and now > instant


def find_lowered_tables(stream: Stream, entries: Iterable[Entry], now: datetime) -> frozenset[str]:
    """The names of the tables that are lowered for late events; a table that is open for a backfill has the backfill's units."""
    if stream.capacity.late_step is None:
        return frozenset()
    return frozenset(
        entry.table for entry in entries if is_lowered(entry.period, stream, now) and not entry.is_open(now)
    )
