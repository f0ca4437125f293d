"""The use case of a backfill: past periods opened for importing history, and closed again by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from tidetable.catalog import Backfill
from tidetable.config import Config
from tidetable.config.check import MAX_OPEN_TABLES
from tidetable.config.check_capacity import MAX_UNITS
from tidetable.errors import TidetableError
from tidetable.leases import leased
from tidetable.lifecycle.reconcile import LEASE, Reconciler, Report, reconcile
from tidetable.periods import LONGEST
from tidetable.times import to_text

LONGEST_OPEN = timedelta(days=30)


class BadBackfill(TidetableError):
    """A backfill that was asked for cannot be; nothing was done."""


def open_backfill(
    backfill: Backfill, parts: Reconciler, owner: str, remaining: Callable[[], float], *, dry_run: bool = False
) -> Report:
    """Record the request and make the tables that it needs; BadBackfill says why not.

    The same request again, with a later end, prolongs it. What one run cannot finish the next ones do.
    """
    problems = list(_problems(backfill, parts))
    if problems:
        raise BadBackfill("; ".join(problems))
    if dry_run:
        return reconcile(parts, owner, remaining, dry_run=True, planned=[backfill])
    # Between two runs of the lifecycle: one under way would not know of it, and move the horizon beyond it.
    with leased(parts.catalog, LEASE, owner, parts.clock.now(), timedelta(seconds=remaining())) as held:
        if not held:
            raise BadBackfill("the lifecycle is at work; ask again in a moment")
        parts.catalog.put_backfill(backfill)
        horizon = parts.catalog.horizon(backfill.stream)
        if horizon is not None and horizon > backfill.start:
            parts.catalog.set_horizon(backfill.stream, backfill.start)
    return reconcile(parts, owner, remaining)


def end_backfills(stream: str, parts: Reconciler) -> list[Backfill]:
    """Take back every backfill of a stream: its periods close now, and those that have expired go the way of all others."""
    if stream not in parts.config.streams:
        raise BadBackfill(_unknown(stream, parts.config))
    now = parts.clock.now()
    ended = [one for one in parts.catalog.backfills(stream) if now < one.opened.until]
    for one in parts.catalog.backfills(stream):
        parts.catalog.drop_backfill(one)
    for entry in parts.catalog.entries(stream, consistent=True):
        if entry.is_open(now) and entry.opened is not None:
            closed = entry.opened._replace(until=now)
            parts.catalog.move(entry, entry.state, expected=(entry.state,), opened=closed)
    return ended


def _problems(backfill: Backfill, parts: Reconciler) -> Iterator[str]:
    now, opened = parts.clock.now(), backfill.opened
    policy = parts.config.streams.get(backfill.stream)
    if policy is None:
        yield _unknown(backfill.stream, parts.config)
        return
    if not backfill.start < backfill.end:
        yield f"from ({to_text(backfill.start)}) must be before to ({to_text(backfill.end)})"
        return
    if backfill.end > now:
        yield f"to ({to_text(backfill.end)}) is in the future, where nothing has happened"
    if not now < opened.until <= now + LONGEST_OPEN:
        yield f"it must close within {LONGEST_OPEN.days} days, and not have closed already"
    if (opened.write is None) is not (opened.read is None):
        yield "give both write and read units, or neither for on-demand tables"
    for units in (opened.write, opened.read):
        if units is not None and not 1 <= units <= MAX_UNITS:
            yield f"{units} is not within 1 to {MAX_UNITS} units per second"
    # Data never makes tables, and neither does a slip of the pen.
    if (backfill.end - backfill.start) / LONGEST[policy.period] > MAX_OPEN_TABLES:
        yield f"that would open more than {MAX_OPEN_TABLES} tables; import the history in pieces"
        return
    gone = [
        entry.period.label
        for entry in parts.catalog.entries(backfill.stream, backfill.start, backfill.end, consistent=True)
        if not entry.writable and entry.period.start < backfill.end
    ]
    if gone:
        yield f"{', '.join(gone[:5])}{' and others' if len(gone) > 5 else ''} are archived or gone: restore them first"


def _unknown(stream: str, config: Config) -> str:
    return f"there is no stream {stream!r}; there are {', '.join(config.streams)}"
