"""The rule for creating tables ahead of time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import reduce

from tidetable.catalog import Backfill, Entry, Opening
from tidetable.config import Stream
from tidetable.periods import Kind, Period, find_containing
from tidetable.window import Window

# The lengths to try, from long to short. Periods begin and end at whole hours, so an hour fits into every gap.
_FINER: dict[Kind, tuple[Kind, ...]] = {
    Kind.MONTH: (Kind.MONTH, Kind.DAY, Kind.HOUR),
    Kind.WEEK: (Kind.WEEK, Kind.DAY, Kind.HOUR),
    Kind.DAY: (Kind.DAY, Kind.HOUR),
    Kind.HOUR: (Kind.HOUR,),
}


def find_missing_periods(
    stream: Stream, now: datetime, entries: Sequence[Entry], backfills: Sequence[Backfill] = ()
) -> list[tuple[Period, Opening | None]]:
    """Find the periods that need a table and are not in the catalog, oldest first.

    Each period is returned with its opening by backfills, or with None. Every instant of the writable window and of an
    open backfill needs a table, and so do ``premake`` whole periods after the window. A recorded period keeps its time
    for ever, whatever its length and state. After a change of the length of periods, shorter periods fill the time
    until a period of the new length can begin. So each instant belongs to exactly one table.
    """
    window = Window.of(stream, now)
    end = find_containing(window.newest, stream.period).shift(stream.premake).end
    claims = [entry.period for entry in entries]
    open_now = [backfill for backfill in backfills if backfill.is_open(now)]
    ranges = [(window.oldest, end), *((backfill.start, backfill.end) for backfill in open_now)]
    missing: list[tuple[Period, Opening | None]] = []
    for start, stop in ranges:
        at = start
        while at < stop:
            period = next((claim for claim in claims if at in claim), None)
            if period is None:
                period = find_fitting(stream.period, at, claims)
                missing.append((period, find_opening(period, open_now)))
                claims.append(period)
            at = period.end
    return sorted(missing, key=lambda period_and_backfill: period_and_backfill[0].start)


def find_opening(period: Period, backfills: Sequence[Backfill]) -> Opening | None:
    """Find the end and the units of a period's opening by the backfills that meet it; None if no backfill meets it."""
    opened = [backfill.opened for backfill in backfills if backfill.meets(period)]
    return reduce(Opening.joined, opened) if opened else None


def find_fitting(kind: Kind, at: datetime, claims: Sequence[Period]) -> Period:
    """Find the longest period at an instant that does not overlap a claimed period."""
    candidates = (find_containing(at, finer) for finer in _FINER[kind])
    return next(period for period in candidates if not any(period.overlaps(claim) for claim in claims))
