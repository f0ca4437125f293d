"""The use case of a backfill: past and present periods are opened for the import of history.

They close again automatically.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from msgspec.structs import replace

from tidetable.catalog import Backfill
from tidetable.catalog_steps import list_open_backfills
from tidetable.config import Config
from tidetable.config.bounds import MAX_OPEN_TABLES, MAX_UNITS
from tidetable.config.demand import SHORTEST, list_demands
from tidetable.errors import BadBackfill
from tidetable.large.table_names import count_tables
from tidetable.leases import LIFECYCLE_LEASE, hold_lease
from tidetable.lifecycle.premake import find_opening
from tidetable.lifecycle.reconcile import reconcile
from tidetable.lifecycle.report import RunReport
from tidetable.periods import LONGEST
from tidetable.ports import Catalog
from tidetable.times import to_text
from tidetable.upkeep.run import LifecycleRun

LONGEST_OPEN = timedelta(days=30)


def open_backfill(
    backfill: Backfill,
    run: LifecycleRun,
    *,
    dry_run: bool = False,
    rebuilt: bool = False,
) -> RunReport:
    """Record the request and make the tables that it needs, in a run for its stream alone.

    BadBackfill says why the request is refused. A stream may have several backfills. A request with the same span and a
    later ``until`` prolongs the backfill of this span. If one run cannot make all tables, the next runs go on. The
    stream's rollups are opened, too; the next run makes their tables. A rollup is opened without its stream only for a
    rebuild (``rebuilt``).
    """
    policy = run.config.streams.get(backfill.stream)
    if policy is not None and policy.source and not rebuilt:
        raise BadBackfill(
            f"{policy.name} is a rollup of {policy.source} and takes no events: open a backfill of {policy.source}, which opens"
            f" its rollups, too; or compute it anew: tidetable rollup {policy.source} --rebuild"
        )
    requests = [replace(backfill, stream=name) for name in _list_with_rollups(backfill.stream, run.config)]
    problems = [problem for request in requests for problem in _find_problems(request, run)]
    problems = problems or list(_find_quota_problems(requests, run))
    if problems:
        # A stream and its rollups may have the same problem.
        raise BadBackfill("; ".join(dict.fromkeys(problems)))
    if dry_run:
        return reconcile(run, dry_run=True, planned=[backfill], only=backfill.stream)
    # This must not happen during a run of the lifecycle: the run would not know the request, and might close its periods.
    with _keep_runs_out(run):
        # The rollups' requests come first: when the stream takes events, the refresher may clear the marks of its
        # rollups.
        for request in reversed(requests):
            run.catalog.put_backfill(request)
    return reconcile(run, only=backfill.stream)


def end_backfills(
    stream: str,
    run: LifecycleRun,
    *,
    span: tuple[datetime, datetime] | None = None,
    dry_run: bool = False,
) -> list[Backfill]:
    """Take back the backfill of a ``span`` of time, or every backfill of a stream. Return the backfills that were open.

    The backfills of the stream's rollups are taken back with them. The periods close now, unless another backfill holds
    them open. BadBackfill if no backfill of that span is open.
    """
    if stream not in run.config.streams:
        raise BadBackfill(_describe_unknown(stream, run.config))
    now = run.clock.now()
    if dry_run:
        ending = _find_ending(stream, run.catalog, span, now)
        return [backfill for backfill in ending if backfill.is_open(now)]
    # This must not happen during a run of the lifecycle: the run may be making tables for the backfills that are taken
    # back here.
    with _keep_runs_out(run):
        ending = _find_ending(stream, run.catalog, span, now)
        if not ending:
            return []
        spans = {(backfill.start, backfill.end) for backfill in ending}
        # The stream's own backfills come last: if this is interrupted, the next call finds them and finishes.
        for name in reversed(_list_with_rollups(stream, run.config)):
            requests = run.catalog.backfills(name)
            _take_back(name, [backfill for backfill in requests if (backfill.start, backfill.end) in spans], run, now)
    return [backfill for backfill in ending if backfill.is_open(now)]


def _take_back(stream: str, ending: Sequence[Backfill], run: LifecycleRun, now: datetime) -> None:
    if not ending:
        return
    other_backfills = [backfill for backfill in list_open_backfills(run.catalog, stream, now) if backfill not in ending]
    start, end = min(backfill.start for backfill in ending), max(backfill.end for backfill in ending)
    # The requests are dropped last: if this is interrupted, the next call finds them and finishes.
    for entry in run.catalog.entries(stream, start, end, consistent=True):
        if entry.is_open(now) and entry.opened is not None:
            opened = find_opening(entry.period, other_backfills) or entry.opened._replace(until=now)
            if opened != entry.opened:
                run.catalog.move(entry, entry.state, expected=(entry.state,), opened=opened)
    for backfill in ending:
        run.catalog.drop_backfill(backfill)


@contextmanager
def _keep_runs_out(run: LifecycleRun) -> Iterator[None]:
    """Hold the lease of the lifecycle during the block; BadBackfill if a run has it."""
    now, length = run.clock.now(), timedelta(seconds=run.remaining())
    with hold_lease(run.catalog, LIFECYCLE_LEASE, run.owner, now, length) as free:
        if not free:
            raise BadBackfill("a run of the lifecycle is under way; try again in a moment")
        yield


def _list_with_rollups(stream: str, config: Config) -> list[str]:
    return [stream, *(name for name, policy in config.streams.items() if policy.source == stream)]


def _find_ending(
    stream: str, catalog: Catalog, span: tuple[datetime, datetime] | None, now: datetime
) -> list[Backfill]:
    """Find the backfills to take back: all of them, even ended ones, or the open backfill of exactly that span."""
    if span is None:
        return list(catalog.backfills(stream))
    present = list_open_backfills(catalog, stream, now)
    ending = [backfill for backfill in present if (backfill.start, backfill.end) == span]
    if not ending:
        start, end = map(to_text, span)
        spans = ", ".join(f"{to_text(backfill.start)} {to_text(backfill.end)}" for backfill in present)
        raise BadBackfill(f"no backfill of {stream} from {start} to {end} is open; open: {spans or 'none'}")
    return ending


def _find_problems(backfill: Backfill, run: LifecycleRun) -> Iterator[str]:
    now, opened = run.clock.now(), backfill.opened
    policy = run.config.streams.get(backfill.stream)
    if policy is None:
        yield _describe_unknown(backfill.stream, run.config)
        return
    if not backfill.start < backfill.end:
        yield f"from ({to_text(backfill.start)}) must be before to ({to_text(backfill.end)})"
        return
    if backfill.end > now:
        yield f"to ({to_text(backfill.end)}) is in the future: a backfill imports events of the past"
    if not now < opened.until <= now + LONGEST_OPEN:
        yield f"it must close within {LONGEST_OPEN.days} days, and not have closed already"
    if (opened.write is None) is not (opened.read is None):
        yield "give both write and read units, or neither for on-demand tables"
    for units in (opened.write, opened.read):
        if units is not None and not 1 <= units <= MAX_UNITS:
            yield f"{units} is not within 1 to {MAX_UNITS} units per second"
    # Events never make tables, and a typing error in a date must not make many.
    if (backfill.end - backfill.start) / LONGEST[policy.period] > MAX_OPEN_TABLES:
        yield f"that would open more than {MAX_OPEN_TABLES} tables; import the history in pieces"
        return
    gone_labels = [
        entry.period.label
        for entry in run.catalog.entries(backfill.stream, backfill.start, backfill.end, consistent=True)
        if not entry.writable and entry.period.start < backfill.end
    ]
    if gone_labels:
        names = f"{', '.join(gone_labels[:5])}{' and others' if len(gone_labels) > 5 else ''} of {backfill.stream}"
        yield f"{names} are archived or gone: restore them first"


def _find_quota_problems(requests: Sequence[Backfill], run: LifecycleRun) -> Iterator[str]:
    """Check that backfills leave enough of the quota of tables: at the quota, the next period's table cannot be made."""
    now, config = run.clock.now(), run.config
    spans = {(request.stream, request.start, request.end) for request in requests}
    for name in config.streams:
        spans |= {(name, other.start, other.end) for other in list_open_backfills(run.catalog, name, now)}
    opened = 0
    for name, start, end in spans:
        stream = config.streams[name]
        opened += (-(-(end - start) // SHORTEST[stream.period]) + 1) * count_tables(stream.layout)
    always, quota = sum(need.tables for need in list_demands(config)), config.lifecycle.table_quota
    if opened + always > quota:
        yield (
            f"with the backfills that are open it needs up to {opened} tables, and the configuration {always}: together more than"
            f" lifecycle.table_quota = {quota}; end a backfill first, or import the history in pieces"
        )


def _describe_unknown(stream: str, config: Config) -> str:
    return f"there is no stream {stream!r}; there are {', '.join(config.streams)}"
