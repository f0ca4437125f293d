"""One run: observe, plan, apply, report. Observing changes nothing; one table's failure does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby

from tidetable.catalog import Backfill, Entry
from tidetable.copies.catalog_copies import follow_catalog
from tidetable.copies.table_copies import Copy
from tidetable.errors import judge_failure, note_trouble
from tidetable.leases import LEASE_MOST, LIFECYCLE_LEASE, hold_lease
from tidetable.lifecycle.apply import apply, begin_creation, finish_creation
from tidetable.lifecycle.observe import (
    Observation,
    observe,
    read_stream_entries,
    remember_copies,
    remember_horizons,
    remember_tables,
)
from tidetable.lifecycle.outlook import derive_outlook
from tidetable.lifecycle.plan import plan
from tidetable.lifecycle.report import Done, RunReport
from tidetable.remaining import limit_time
from tidetable.run_streams import remember_policies
from tidetable.upkeep.actions import Action, Archive, Create, Delete, Finding
from tidetable.upkeep.run import CONCURRENCY, RANK_SECONDS, LifecycleRun

# The time that a run reserves for its records after the last action. That action may be an archive, which takes all
# other time.
_ENDING = timedelta(seconds=10)
ARCHIVES_AT_ONCE = 4
SKIPPED = "another run is under way; if it died, its lease runs out within 5 minutes of its start"


def reconcile(
    run: LifecycleRun,
    *,
    at: datetime | None = None,
    dry_run: bool = False,
    planned: Sequence[Backfill] = (),
    only: str | None = None,
    select: Callable[[Action], bool] | None = None,
) -> RunReport:
    """Bring the tables to the state that the configuration wants at an instant, by default now.

    A dry run may have backfills that are only ``planned``. With ``only``, the run is for that stream alone. Actions
    that ``select`` denies are left to a later run.

    Only one run works at a time. Its lease ends when its time is up, so a killed run does not block later runs.
    """
    run = replace(run, remaining=limit_time((LEASE_MOST - _ENDING).total_seconds(), run.clock, run.remaining))
    real = run.clock.now()
    report = RunReport(now=at or real, dry_run=dry_run, only=only)
    if dry_run:
        _perform_run(run, report, select, planned)
        return report
    with hold_lease(
        run.catalog, LIFECYCLE_LEASE, run.owner, real, timedelta(seconds=run.remaining()) + _ENDING
    ) as free:
        if free:
            _perform_run(run, report, select)
        else:
            report.skipped = SKIPPED
    return report


def _perform_run(
    run: LifecycleRun, report: RunReport, select: Callable[[Action], bool] | None, planned: Sequence[Backfill] = ()
) -> None:
    observation = observe(run, report.now, planned, report.only)
    report.troubles = observation.troubles
    report.outlook = derive_outlook(observation.config, observation.streams, report.now)
    existing = {name for view in observation.streams.values() for name in view.table_names}
    report.tables = len(existing)
    actions = plan(observation.config, run.stage, report.now, observation.streams)
    if any(isinstance(action, Copy) for action in actions) and not _is_deployed(run):
        actions = [action for action in actions if not isinstance(action, Copy)]
    if select is not None:
        actions = [action for action in actions if select(action)]
    if report.dry_run:
        report.done = [_report_finding(action) or Done(action, "planned") for action in actions]
        _follow_feeds(run, observation, report)
        _follow_catalog(run, report)
        return
    remember_policies(run.catalog, observation.known, report.now, run.find_rollups)
    unrecorded = observation.known.unrecorded
    actions = [action for action in actions if not (isinstance(action, Create) and action.entry.stream in unrecorded)]
    remember_copies(run.catalog, run.tables, observation, report.now)
    for _, ranked in groupby(actions, key=lambda action: action.rank):
        run.patience = limit_time(RANK_SECONDS, run.clock, run.remaining)
        report.done += _attempt_all(list(ranked), run, report.now)
    report.tables = len(_predict_tables(existing, report.done))
    _follow_feeds(run, observation, report)
    _follow_catalog(run, report)
    remember_tables(run.catalog, observation)
    remember_horizons(run.catalog, observation, report.now)
    # If this fails, the next run makes it; until then no page ends in a cursor.
    with note_trouble("the secret of cursors could not be made", report.troubles):
        run.catalog.ensure_secret()


def _is_deployed(run: LifecycleRun) -> bool:
    """True if a deployment was ever completed. A failed first deployment deletes its tables; copies would delay it."""
    try:
        return run.catalog.is_deployed()
    except Exception:  # a later run makes the copies
        return False


def _follow_feeds(run: LifecycleRun, observation: Observation, report: RunReport) -> None:
    """Fit the mappings of feeds to all tables, also to new tables. A run for one stream leaves this to the next run."""
    feeds = run.make_feed_tables()
    if feeds is None or report.only is not None:
        return
    # An error here must not end the run: the tables are more urgent than their feeds.
    with note_trouble("the feeds could not be checked", report.troubles):
        periods: dict[str, Sequence[Entry]] = {}
        changed = {done.action.entry.stream for done in report.done if done.outcome != "planned"}
        for name, observed in observation.streams.items():
            stream = run.config.streams.get(name)
            if stream is not None and stream.feed is not None:
                periods[name] = observed.entries
                if name in changed:
                    horizon, backfills = run.catalog.read_horizon(name), observed.backfills
                    periods[name] = read_stream_entries(stream, run.catalog, horizon, report.now, backfills)
        report.feeds = feeds.follow(periods, report.now, dry_run=report.dry_run)


def _follow_catalog(run: LifecycleRun, report: RunReport) -> None:
    """Begin the catalog's next copy in another Region. A run for one stream leaves this to the next scheduled run."""
    if report.only is None:
        report.catalog_copies = follow_catalog(run, report.now, dry_run=report.dry_run)


def _predict_tables(there: set[str], done: Sequence[Done]) -> set[str]:
    tables = set(there)
    for attempt in done:
        if attempt.outcome == "done" and isinstance(attempt.action, Create):
            tables |= set(attempt.action.entry.tables)
        elif attempt.outcome == "done" and isinstance(attempt.action, Delete):
            tables -= set(attempt.action.entry.tables)
    return tables


def _attempt_all(actions: Sequence[Action], run: LifecycleRun, now: datetime) -> list[Done]:
    """Attempt the actions of one rank in parallel, so that the wait for one table does not delay the others.

    The tables of all periods are begun before any is waited for: AWS makes hundreds at the same time.
    """
    # An archive runs in a function of its own, which must load pyarrow: only a few run at once, however many are due.
    width = ARCHIVES_AT_ONCE if any(isinstance(action, Archive) for action in actions) else CONCURRENCY
    with run.pools(width) as pool:
        begun = list(pool.map(lambda action: _begin_action(action, run, now), actions))
        return list(pool.map(lambda action, end: _attempt(action, end) or Done(action, "done"), actions, begun))


def _begin_action(action: Action, run: LifecycleRun, now: datetime) -> Callable[[], None] | Done:
    """Begin to make the tables of a new period. Return what is left to do, or the outcome if it is known already."""
    finding = _report_finding(action)
    if finding is not None:
        return finding
    if not isinstance(action, Create):
        return lambda: apply(action, run, now)
    begun: list[Entry] = []
    failed = _attempt(action, lambda: begun.append(begin_creation(action, run)))
    return failed or (lambda: finish_creation(action, begun[0], run))


def _attempt(action: Action, step: Callable[[], None] | Done) -> Done | None:
    """Do a step of an action; return the outcome if it is known already, or if the step fails."""
    if isinstance(step, Done):
        return step
    try:
        step()
    except Exception as error:  # an error of one table must not stop the work on the others
        return Done(action, *judge_failure(error))
    return None


def _report_finding(action: Action) -> Done | None:
    return Done(action, action.outcome, action.reason) if isinstance(action, Finding) else None
