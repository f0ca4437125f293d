"""One run: observe, plan, apply, report. Observing changes nothing; one table's failure does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from tidetable.catalog import Backfill, Entry
from tidetable.config import Config
from tidetable.errors import TableRefused, describe_error, judge_failure
from tidetable.feed.mappings import FeedTables
from tidetable.leases import hold_lease
from tidetable.lifecycle.actions import Action, Archive, Copy, Create, Delete, Finding
from tidetable.lifecycle.apply import World, apply
from tidetable.lifecycle.catalog_copies import CatalogCopy, follow_catalog
from tidetable.lifecycle.known import remember_policies
from tidetable.lifecycle.observe import (
    CONCURRENCY,
    Observation,
    observe,
    remember_copies,
    remember_horizons,
    remember_tables,
)
from tidetable.lifecycle.outlook import derive_outlook
from tidetable.lifecycle.plan import plan
from tidetable.lifecycle.report import Done, Report
from tidetable.ports import Archiver, Catalog, Clock, Pools, Rollups, Scaling, Tables
from tidetable.ports.feeds import Mappings
from tidetable.remaining import Remaining, limit_time

LEASE = "lifecycle"
# No run holds the lease for longer. Runs are five minutes apart, so a dead run's lease blocks at most one other run.
LEASE_MOST = timedelta(minutes=5)
# The time that a run reserves for its records after the last action. That action may be an archive, which takes all
# other time.
_ENDING = timedelta(seconds=10)
ARCHIVES_AT_ONCE = 4
# The seconds that the actions of one rank wait for tables, in total. After that, actions are begun without a wait, and
# a later run finishes them: 40 tables that do not become ACTIVE must leave time for the archives of other tables.
RANK_SECONDS = 120.0
SKIPPED = "another run is under way; if it died, its lease runs out within 5 minutes of its start"


@dataclass(slots=True)
class Reconciler:
    """The ports and the configuration that a run works with."""

    config: Config
    stage: str
    catalog: Catalog
    tables: Tables
    scaling: Scaling
    archiver: Archiver
    clock: Clock
    pools: Pools
    # Returns the state of the rollups, which few runs need.
    find_rollups: Callable[[], Rollups] | None = None
    # None if the function of the feeds is unknown, as in the command line.
    mappings: Mappings | None = None
    # Returns the name of the catalog's table, which only copies in other Regions need.
    find_catalog_table: Callable[[], str] | None = None

    def make_feed_tables(self) -> FeedTables | None:
        """Make the object that fits the mappings of feeds to the tables."""
        if self.mappings is None:
            return None
        return FeedTables(self.config, self.stage, self.tables, self.mappings, self.catalog)

    def world(self, remaining: Remaining) -> World:
        """Return the ports of a run. ``remaining`` returns the seconds that are left for it."""
        return World(
            self.stage, self.catalog, self.tables, self.scaling, self.archiver, self.clock, self.pools, remaining
        )


def reconcile(
    reconciler: Reconciler,
    owner: str,
    remaining: Remaining,
    *,
    at: datetime | None = None,
    dry_run: bool = False,
    planned: Sequence[Backfill] = (),
    only: str | None = None,
    select: Callable[[Action], bool] | None = None,
) -> Report:
    """Bring the tables to the state that the configuration wants at an instant, by default now.

    A dry run may have backfills that are only ``planned``. With ``only``, the run is for that stream alone. Actions
    that ``select`` denies are left to a later run.

    Only one run works at a time. Its lease ends when its time is up, so a killed run does not block later runs.
    """
    remaining = limit_time((LEASE_MOST - _ENDING).total_seconds(), reconciler.clock, remaining)
    real = reconciler.clock.now()
    report = Report(now=at or real, dry_run=dry_run, only=only)
    if dry_run:
        _run(reconciler, report, remaining, select, planned)
        return report
    with hold_lease(reconciler.catalog, LEASE, owner, real, timedelta(seconds=remaining()) + _ENDING) as free:
        if free:
            _run(reconciler, report, remaining, select)
        else:
            report.skipped = SKIPPED
    return report


def _run(
    reconciler: Reconciler,
    report: Report,
    remaining: Remaining,
    select: Callable[[Action], bool] | None,
    planned: Sequence[Backfill] = (),
) -> None:
    ports = reconciler.catalog, reconciler.tables, reconciler.pools
    observation = observe(reconciler.config, *ports, report.now, planned, report.only)
    config = observation.config
    report.troubles = observation.troubles
    report.outlook = derive_outlook(config, observation.streams, report.now)
    existing = {name for view in observation.streams.values() for name in view.table_names}
    report.tables = len(existing)
    actions = plan(config, reconciler.stage, report.now, observation.streams)
    if any(isinstance(action, Copy) for action in actions) and not _stands(reconciler):
        actions = [action for action in actions if not isinstance(action, Copy)]
    if select is not None:
        actions = [action for action in actions if select(action)]
    if report.dry_run:
        report.done = [_report_finding(action) or Done(action, "planned") for action in actions]
        _follow_feeds(reconciler, observation, report)
        _follow_catalog(reconciler, report)
        return
    remember_policies(reconciler.catalog, observation.known, reconciler.find_rollups)
    unrecorded = observation.known.unrecorded
    actions = [action for action in actions if not (isinstance(action, Create) and action.entry.stream in unrecorded)]
    remember_copies(reconciler.catalog, reconciler.tables, observation, report.now)
    world = reconciler.world(remaining)
    for _, ranked in groupby(actions, key=lambda action: action.rank):
        world.patience = limit_time(RANK_SECONDS, reconciler.clock, remaining)
        report.done += _attempt_all(list(ranked), world, report.now)
    report.tables = len(_predict_tables(existing, report.done))
    _follow_feeds(reconciler, observation, report)
    _follow_catalog(reconciler, report)
    remember_tables(reconciler.catalog, observation)
    remember_horizons(reconciler.catalog, observation)
    try:
        reconciler.catalog.ensure_secret()
    except Exception as error:  # the next run makes it; until then no page ends in a cursor
        observation.troubles.append(f"the secret of cursors could not be made: {describe_error(error)}")


def _stands(reconciler: Reconciler) -> bool:
    """True if a deployment was ever completed. A failed first deployment deletes its tables; copies would delay it."""
    try:
        return reconciler.catalog.stands()
    except Exception:  # a later run makes the copies
        return False


def _follow_feeds(reconciler: Reconciler, observation: Observation, report: Report) -> None:
    """Fit the mappings of feeds to the tables, including the tables that this run has made.

    A run for one stream leaves the mappings to the next scheduled run.
    """
    feeds = reconciler.make_feed_tables()
    if feeds is None or report.only is not None:
        return
    periods: dict[str, Sequence[Entry]] = {}
    try:
        for name, observed in observation.streams.items():
            stream = reconciler.config.streams.get(name)
            if stream is not None and stream.feed is not None:
                oldest = observed.entries[0].period.start if observed.entries else None
                periods[name] = reconciler.catalog.entries(name, oldest, consistent=True)
        report.feeds = feeds.follow(periods, report.now, dry_run=report.dry_run)
    except Exception as error:  # the tables are more urgent than their feeds
        report.troubles.append(f"the feeds could not be checked: {describe_error(error)}")


def _follow_catalog(reconciler: Reconciler, report: Report) -> None:
    """Begin the catalog's next copy in another Region. A run for one stream leaves this to the next scheduled run."""
    if reconciler.find_catalog_table is None or report.only is not None or not reconciler.config.replicas:
        return
    try:
        name, ports = reconciler.find_catalog_table(), (reconciler.catalog, reconciler.tables)
        report.catalog_copies = follow_catalog(reconciler.config, name, *ports, report.now, dry_run=report.dry_run)
    except Exception as error:  # not a trouble: troubles make a deploy fail, and a deploy needs no copies
        why = f"the copies of the catalog could not be checked: {describe_error(error)}"
        report.catalog_copies = [CatalogCopy("copy", reconciler.config.replicas[0], "failed", why)]


def _predict_tables(there: set[str], done: Sequence[Done]) -> set[str]:
    """Predict the tables that exist after a run's creations and deletions."""
    tables = set(there)
    for attempt in done:
        if attempt.outcome == "done" and isinstance(attempt.action, Create):
            tables |= {spec.name for spec in attempt.action.specs}
        elif attempt.outcome == "done" and isinstance(attempt.action, Delete):
            tables -= set(attempt.action.entry.tables)
    return tables


def _attempt_all(actions: Sequence[Action], world: World, now: datetime) -> list[Done]:
    """Attempt the actions of one rank in parallel, so that the wait for one table does not delay the others.

    If AWS refuses a creation because too many are under way, it is tried again, with half as many in parallel, down to
    one at a time. AWS makes 250 tables with indexes at once, but "might temporarily reduce the number" (CreateTable).
    """
    # An archive runs in a function of its own, which must load pyarrow: only a few run at once, however many are due.
    width = ARCHIVES_AT_ONCE if any(isinstance(action, Archive) for action in actions) else CONCURRENCY
    done: list[Done] = []
    while actions:
        with world.pools(width) as pool:
            tried = list(pool.map(lambda action: _attempt(action, world, now), actions))
        again = [attempt for attempt in tried if attempt.crowded and isinstance(attempt.action, Create) and width > 1]
        done += [attempt for attempt in tried if attempt not in again]
        actions, width = [attempt.action for attempt in again], max(1, width // 2)
    return done


def _attempt(action: Action, world: World, now: datetime) -> Done:
    outcome = _report_finding(action)
    if outcome is not None:
        return outcome
    try:
        apply(action, world, now)
    except Exception as error:  # an error of one table must not stop the work on the others
        return Done(action, *judge_failure(error), isinstance(error, TableRefused) and error.crowded)
    return Done(action, "done")


def _report_finding(action: Action) -> Done | None:
    """Make the outcome of an action that only reports."""
    return Done(action, action.outcome, action.reason) if isinstance(action, Finding) else None
