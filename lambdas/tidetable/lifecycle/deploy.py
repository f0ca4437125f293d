"""Deploy: make the tables that the configuration needs now. Scheduled runs make the other tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

from tidetable.catalog import State
from tidetable.config import Stream
from tidetable.errors import note_trouble
from tidetable.ladder import RAISED
from tidetable.leases import is_recorded, record_fact
from tidetable.lifecycle.conflicts import find_conflicts
from tidetable.lifecycle.outlook import measure_lead
from tidetable.lifecycle.premake import find_missing_periods
from tidetable.lifecycle.reconcile import reconcile
from tidetable.lifecycle.report import RunReport
from tidetable.names import name_table
from tidetable.periods import Period
from tidetable.times import MOMENT
from tidetable.upkeep.actions import Action, Create, Finding, Open, Reopen, SetCapacity
from tidetable.upkeep.run import LifecycleRun
from tidetable.window import Window

# The pause between two runs of a deploy. A scheduled run ends within minutes, and a table is made in seconds.
PAUSE_SECONDS = 5.0
# A refusal is final only after this number of runs: the rights of a new role are in force everywhere after some
# seconds.
REFUSED_MOST = 4
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Unmade:
    """A table that does not exist yet, and ``why``, if that is known. If it is ``needed``, present events need it."""

    stream: str
    table: str
    needed: bool
    # The instant at which the catalog recorded its period; None if no run has recorded it yet.
    since: datetime | None
    why: str = ""


@dataclass(slots=True)
class Deployed:
    """The result of a deploy: its runs, the tables that scheduled runs will make, and its failure, if it failed."""

    reports: list[RunReport] = field(default_factory=list)
    unmade: list[Unmade] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    failure: str | None = None


def deploy(run: LifecycleRun, configuration: str, *, first: bool) -> Deployed:
    """Make the tables that the configuration needs, in one run after another, until all tables exist or the time is up.

    ``configuration`` is the digest of the deployed configuration. ``first`` says that the stack is being created. Only
    actions that the next events need are done, so that no deploy waits for an archive. docs/decisions/0027 says when a
    deploy fails.
    """
    began, name = run.clock.now(), f"deployed#{configuration}"
    deployed, refused = Deployed(), 0
    if not _has_stood(run, name):
        deployed.failure = _find_misuse(run)
    if deployed.failure is not None:
        return deployed
    while True:
        report = RunReport(run.clock.now(), dry_run=False)
        # For example, the catalog may not answer for a moment.
        with note_trouble("a run ended early", report.troubles):
            report = reconcile(run, select=is_urgent)
        deployed.reports.append(report)
        _note_unmade_tables(run, report, deployed)
        waits, refuses = _judge_unfinished(report, deployed)
        refused += refuses
        goes_on = waits or (refuses and refused < REFUSED_MOST)
        if not goes_on or run.remaining() < 2 * PAUSE_SECONDS:
            break
        run.clock.sleep(PAUSE_SECONDS)
    deployed.failure = _find_failure(run, deployed, name, first=first, began=began)
    if deployed.failure is None:
        record_fact(run.catalog, name, run.clock.now())
    return deployed


def _find_misuse(run: LifecycleRun) -> str | None:
    """Find the errors that the configuration would make with existing tables, as one text; None if no error is known."""
    try:
        return "; ".join(islice(find_conflicts(run.config, run.catalog), _NAMED)) or None
    except Exception:  # the first run reports a catalog that does not answer
        return None


def is_urgent(action: Action) -> bool:
    """True if an action makes or opens a table, raises its capacity, or only reports. Scheduled runs do the others."""
    if isinstance(action, SetCapacity):
        # The scheduled run that archives a table raises the table's capacity for the export.
        return not action.lowers and action.level.reason != RAISED
    return isinstance(action, Create | Open | Reopen | Finding)


def _note_unmade_tables(run: LifecycleRun, report: RunReport, deployed: Deployed) -> None:
    details = {result.action.entry.table: result.detail for result in report.done if result.detail}
    deployed.unmade, deployed.troubles = [], list(report.troubles)
    for stream in run.config.streams.values():
        # A stream that cannot be read must not hide the other streams.
        with note_trouble(f"the catalog could not be read for {stream.name}", deployed.troubles):
            deployed.unmade += _find_unmade(run, stream, details)


def _find_unmade(run: LifecycleRun, stream: Stream, details: dict[str, str]) -> Iterator[Unmade]:
    now = run.clock.now()
    entries = run.catalog.entries(stream.name, Window.of(stream, now).oldest, consistent=True)
    for period, _ in find_missing_periods(stream, now, entries):
        table = name_table(run.stage, stream.name, period)
        yield Unmade(stream.name, table, _is_needed(period, stream, now), None, details.get(table, ""))
    for entry in entries:
        if entry.state is State.CREATING:
            needed = _is_needed(entry.period, stream, now)
            yield Unmade(stream.name, entry.table, needed, entry.created_at, details.get(entry.table, ""))


def _is_needed(period: Period, stream: Stream, now: datetime) -> bool:
    """True if events of the writable window need the period's table now, or will need it within its lead time."""
    window = Window.of(stream, now)
    return not (window.is_too_old(period.end - MOMENT) or window.is_too_new(period.start - measure_lead(period)))


def _judge_unfinished(report: RunReport, deployed: Deployed) -> tuple[bool, bool]:
    """Decide if another run could make more tables, and if AWS refused a request."""
    creates = [result for result in report.done if isinstance(result.action, Create | Open)]
    refused = any(result.outcome == "failed" for result in creates) or bool(deployed.troubles)
    failed = {result.action.entry.table for result in report.done if result.outcome == "failed"}
    waits = report.skipped is not None or any(table.table not in failed for table in deployed.unmade)
    return waits, refused


def _find_failure(run: LifecycleRun, deployed: Deployed, name: str, *, first: bool, began: datetime) -> str | None:
    if not first and _has_stood(run, name):
        # A rollback must not fail: that leaves the stack in UPDATE_ROLLBACK_FAILED. Alarms report the missing tables.
        return None
    if deployed.troubles:
        return f"some tables could not be checked: {'; '.join(list(dict.fromkeys(deployed.troubles))[:_NAMED])}"
    needed = [table for table in deployed.unmade if table.needed]
    missing = [table for table in needed if first or not _was_missing(table, run, began)]
    if not missing:
        return None
    last = deployed.reports[-1].skipped
    named = "; ".join(f"{table.table}: {table.why or last or 'it is not active yet'}" for table in missing[:_NAMED])
    return f"{len(missing)} tables that events need now could not be made; {named}"


def _was_missing(table: Unmade, run: LifecycleRun, began: datetime) -> bool:
    """True if the stage lacked this table before the deploy. The deploy may be the remedy: a shorter retention."""
    stands = any(entry.state is not State.CREATING for entry in run.catalog.walk(table.stream, consistent=True))
    return stands and table.since is not None and table.since < began


def _has_stood(run: LifecycleRun, name: str) -> bool:
    """True if this configuration was deployed successfully before."""
    try:
        return is_recorded(run.catalog, name, run.clock.now())
    except Exception:  # the deploy's runs report a catalog that does not answer
        return False


def list_unmade_tables(unmade: list[Unmade]) -> list[str]:
    """List the names of the tables that scheduled runs will make, in order."""
    return sorted(table.table for table in unmade)
