"""Keep or delete the tables when the stack is destroyed: each stream's ``removal`` decides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime

from tidetable.catalog import Entry, State
from tidetable.catalog_steps import read_kept_entries
from tidetable.errors import NotOurs, NotReady, RemovalFailed, judge_failure
from tidetable.leases import LIFECYCLE_LEASE, limit_lease_length, name_archive_lease, wait_for_lease
from tidetable.lifecycle.apply import remove_table
from tidetable.period_tables import PeriodTables
from tidetable.run_streams import find_run_streams
from tidetable.upkeep.run import LifecycleRun

# A deletion takes 5 to 8 s (measured). Nearly all of this time is waiting, so many deletions run in parallel.
_AT_ONCE = 32
_WAIT_SECONDS = 5.0
_NAMED = 5


@dataclass(slots=True)
class Removed:
    """The result of a removal: deleted tables, tables that stay because they are not ours, and failures, with reasons."""

    tables: list[str] = field(default_factory=list)
    foreign: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def remove(run: LifecycleRun) -> Removed:
    """Delete the tables of every stream whose ``removal`` is "delete", whatever their state; archives stay.

    It first waits for the end of a run of the lifecycle, which would make tables meanwhile. It attempts every table.
    Then it raises RemovalFailed if any table is left. It may be repeated: a table that does not exist any more is only
    marked as deleted.
    """
    now = run.clock.now()
    with ExitStack() as leases:
        _wait_for_lease(run, LIFECYCLE_LEASE, leases)
        removed = Removed()
        entries = list(_find_entries(run, now))
        with run.pools(_AT_ONCE) as pool:
            list(pool.map(lambda entry: _attempt_removal(entry, run, now, removed), entries))
    if removed.failed:
        first = "; ".join(f"{table}: {why}" for table, why in sorted(removed.failed.items())[:_NAMED])
        raise RemovalFailed(f"{len(removed.failed)} tables could not be deleted; {first}. Delete the stack again")
    return removed


def _find_entries(run: LifecycleRun, now: datetime) -> Iterator[Entry]:
    """Find the entries whose tables must be deleted: archived and restored periods may have tables, too."""
    # For a removed stream, its last recorded policy decides.
    known = find_run_streams(run.config, run.catalog, now)
    if not known.complete:
        raise RemovalFailed(f"{'; '.join(known.troubles)}. Delete the stack again")
    for stream in known.config.streams.values():
        if stream.removal == "delete":
            entries = read_kept_entries(run.catalog, stream.name, run.catalog.read_horizon(stream.name))
            yield from (entry for entry in entries if entry.state is not State.DELETED)


def _attempt_removal(entry: Entry, run: LifecycleRun, now: datetime, removed: Removed) -> None:
    """Attempt to remove one entry's tables. An error is noted, and does not stop the removal of the others."""
    try:
        # Renew the lease: a removal may take longer than a lease lasts.
        run.catalog.acquire(LIFECYCLE_LEASE, run.owner, run.clock.now(), limit_lease_length(run.remaining))
        with ExitStack() as leases:
            if entry.state is State.RESTORING:
                # A restore that is under way would make the table again. The lease of an abandoned restore is free.
                _wait_for_lease(run, name_archive_lease(entry.stream, entry.period.label), leases)
            existed = remove_table(entry, run, PeriodTables(run.stage, run.tables, run.clock, run.remaining))
            # Every state is accepted: an archive or a restore may have changed the state meanwhile, but the table does
            # not exist any more.
            run.catalog.move(entry, State.DELETED, expected=State, deleted_at=now)
    except NotOurs as error:
        removed.foreign[entry.table] = str(error)
    except Exception as error:
        _, removed.failed[entry.table] = judge_failure(error)
    else:
        if existed:
            removed.tables.append(entry.table)


def _wait_for_lease(run: LifecycleRun, lease: str, leases: ExitStack) -> None:
    """Take a lease as soon as it is free; NotReady if it is not free in time."""
    wait = wait_for_lease(run.catalog, lease, run.owner, run.clock, run.remaining, _WAIT_SECONDS)
    if not leases.enter_context(wait):
        raise NotReady(f"{lease} is under way; delete the stack again in a few minutes")
