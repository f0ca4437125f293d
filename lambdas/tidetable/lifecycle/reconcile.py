"""One run: observe, plan, apply, report. Looking never changes anything, and one table's failure stops no other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby, takewhile
from typing import Any

from tidetable.catalog import State
from tidetable.config import Config, Stream
from tidetable.errors import ArchiveBusy, StaleEntry, TidetableError
from tidetable.lifecycle.actions import Action, Archive, Deferred, Lost
from tidetable.lifecycle.apply import NotReady, World, apply
from tidetable.lifecycle.plan import Observed, plan
from tidetable.ports import Archiver, Catalog, Clock, Table, TableRefused, Tables
from tidetable.times import EPOCH, to_text

LEASE = "lifecycle"
_CONCURRENCY = 8


@dataclass(frozen=True, slots=True)
class Done:
    """An action and what became of it: planned, done, deferred, failed or lost."""

    action: Action
    outcome: str
    detail: str = ""

    def document(self) -> dict[str, str]:
        """The line of a report."""
        action, entry = self.action, self.action.entry
        return {
            "action": action.name,
            "stream": entry.stream,
            "period": entry.period.label,
            "table": entry.table,
            "reason": action.reason,
            "outcome": self.outcome,
            "detail": self.detail,
        }


@dataclass(slots=True)
class Report:
    """What a run found and did; ``skipped`` says why a run did nothing at all."""

    now: datetime
    dry_run: bool
    tables: int = 0
    done: list[Done] = field(default_factory=list)
    skipped: str | None = None

    def count(self, outcome: str) -> int:
        """How many actions ended so."""
        return sum(one.outcome == outcome for one in self.done)

    @property
    def healthy(self) -> bool:
        """Whether the run did all that it set out to do."""
        return self.skipped is None and not self.count("failed") and not self.count("lost")

    def document(self) -> dict[str, Any]:
        """The report as JSON."""
        return {
            "now": to_text(self.now),
            "dry_run": self.dry_run,
            "healthy": self.healthy,
            "skipped": self.skipped,
            "tables": self.tables,
            "actions": [one.document() for one in self.done],
        }


@dataclass(slots=True)
class Reconciler:
    """What a run needs besides the time."""

    config: Config
    stage: str
    catalog: Catalog
    tables: Tables
    archiver: Archiver
    clock: Clock


def reconcile(
    parts: Reconciler, owner: str, remaining: Callable[[], float], *, at: datetime | None = None, dry_run: bool = False
) -> Report:
    """Bring the tables to what the configuration asks for at an instant (now, unless told otherwise).

    One run at a time: the lease lasts as long as this run can, so a run that was killed does not block the ones after it.
    """
    real = parts.clock.now()
    report = Report(now=at or real, dry_run=dry_run)
    if dry_run:
        _run(parts, report, remaining)
        return report
    if not parts.catalog.acquire(LEASE, owner, real, timedelta(seconds=remaining())):
        report.skipped = "another run is under way"
        return report
    try:
        _run(parts, report, remaining)
    finally:
        parts.catalog.release(LEASE, owner)
    return report


def observe(parts: Reconciler, now: datetime) -> dict[str, Observed]:
    """Each stream's entries, from the oldest whose table is not gone, and the tables behind them."""
    entries = {
        name: list(parts.catalog.entries(name, _oldest_of_interest(stream, parts.catalog, now), consistent=True))
        for name, stream in parts.config.streams.items()
    }
    with ThreadPoolExecutor(_CONCURRENCY) as pool:
        names = [one.table for found in entries.values() for one in found if one.state is not State.DELETED]
        tables: dict[str, Table] = {
            table.name: table for table in pool.map(parts.tables.describe, names) if table is not None
        }
    return {name: Observed(found, tables) for name, found in entries.items()}


def _run(parts: Reconciler, report: Report, remaining: Callable[[], float]) -> None:
    observed = observe(parts, report.now)
    report.tables = sum(len([one for one in stream.entries if one.live]) for stream in observed.values())
    actions = plan(parts.config, parts.stage, report.now, observed)
    if report.dry_run:
        report.done = [Done(action, "planned") for action in actions]
        return
    world = World(parts.stage, parts.catalog, parts.tables, parts.archiver, parts.clock, remaining)
    for _, ranked in groupby(actions, key=lambda action: action.rank):
        report.done += _attempt_all(list(ranked), world, report.now)
    _remember_horizons(parts.catalog, observed)


def _oldest_of_interest(stream: Stream, catalog: Catalog, now: datetime) -> datetime | None:
    """Where to begin to look: entries of deleted tables stay for ever, but those in the writable window still claim time."""
    horizon = catalog.horizon(stream.name)
    return None if horizon is None else min(horizon, now - stream.late)


def _remember_horizons(catalog: Catalog, observed: Mapping[str, Observed]) -> None:
    """Note what the run found at its beginning; what it deleted itself, the next one finds."""
    for name, stream in observed.items():
        deleted = list(takewhile(lambda entry: entry.state is State.DELETED, stream.entries))
        if deleted and deleted[-1].period.end > (catalog.horizon(name) or EPOCH):
            catalog.set_horizon(name, deleted[-1].period.end)


def _attempt_all(actions: Sequence[Action], world: World, now: datetime) -> list[Done]:
    """Attempt every action of one rank, side by side: the wait for one table holds up no other."""
    # An archive reads a whole table: one at a time, so that a backlog costs time and not everybody's capacity.
    with ThreadPoolExecutor(1 if isinstance(actions[0], Archive) else _CONCURRENCY) as pool:
        return list(pool.map(lambda action: _attempt(action, world, now), actions))


def _attempt(action: Action, world: World, now: datetime) -> Done:
    if isinstance(action, Deferred):
        return Done(action, "deferred", action.reason)
    if isinstance(action, Lost):
        return Done(action, "lost", action.reason)
    try:
        apply(action, world, now)
    except (NotReady, StaleEntry, ArchiveBusy) as error:
        return Done(action, "deferred", str(error))
    except TableRefused as error:
        return Done(action, "deferred" if error.transient else "failed", str(error))
    except TidetableError as error:
        return Done(action, "failed", str(error))
    except Exception as error:  # whatever one table's trouble is, the others' work must go on
        return Done(action, "failed", f"{type(error).__name__}: {error}")
    return Done(action, "done")
