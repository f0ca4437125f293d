"""Keep or delete the tables when the stack is destroyed: each stream's ``removal`` decides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tidetable.catalog import Entry, State
from tidetable.config import Config
from tidetable.errors import NotOurs, NotReady, RemovalFailed, judge_failure
from tidetable.leases import hold_lease, name_archive_lease
from tidetable.lifecycle.apply import World, remove_table
from tidetable.lifecycle.known import find_known_streams
from tidetable.lifecycle.reconcile import LEASE, LEASE_MOST
from tidetable.period_tables import PeriodTables

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


def remove(config: Config, world: World, now: datetime, owner: str) -> Removed:
    """Delete the tables of every stream whose ``removal`` is "delete", whatever their state; archives stay.

    It first waits for the end of a run of the lifecycle, which would make tables meanwhile. It attempts every table.
    Then it raises RemovalFailed if any table is left. It may be repeated: a table that does not exist any more is only
    marked as deleted.
    """
    with ExitStack() as leases:
        _wait_for_lease(world, LEASE, owner, leases)
        removed = Removed()
        entries = list(_find_entries(config, world, now))
        with world.pools(_AT_ONCE) as pool:
            list(pool.map(lambda entry: _attempt(entry, world, now, owner, removed), entries))
    if removed.failed:
        first = "; ".join(f"{table}: {why}" for table, why in sorted(removed.failed.items())[:_NAMED])
        raise RemovalFailed(f"{len(removed.failed)} tables could not be deleted; {first}. Delete the stack again")
    return removed


def _find_entries(config: Config, world: World, now: datetime) -> Iterator[Entry]:
    """Find the entries whose tables must be deleted.

    Archived periods still have their tables for some time, and restored periods have tables again.
    """
    # For a removed stream, its last recorded policy decides.
    known = find_known_streams(config, world.catalog, now)
    if not known.complete:
        raise RemovalFailed(f"{'; '.join(known.troubles)}. Delete the stack again")
    for stream in known.config.streams.values():
        if stream.removal == "delete":
            entries = world.catalog.entries(stream.name, consistent=True)
            yield from (entry for entry in entries if entry.state is not State.DELETED)


def _attempt(entry: Entry, world: World, now: datetime, owner: str, removed: Removed) -> None:
    """Attempt to remove one entry's tables. An error is noted, and does not stop the removal of the others."""
    try:
        if _remove(entry, world, now, owner):
            removed.tables.append(entry.table)
    except NotOurs as error:
        removed.foreign[entry.table] = str(error)
    except Exception as error:
        _, removed.failed[entry.table] = judge_failure(error)


def _remove(entry: Entry, world: World, now: datetime, owner: str) -> bool:
    # Renew the lease: a removal may take longer than a lease lasts.
    world.catalog.acquire(LEASE, owner, world.clock.now(), _choose_lease_length(world))
    with ExitStack() as leases:
        if entry.state is State.RESTORING:
            # A restore that is under way would make the table again. The lease of an abandoned restore is free.
            _wait_for_lease(world, name_archive_lease(entry.stream, entry.period.label), owner, leases)
        existed = remove_table(entry, world, PeriodTables(world.stage, world.tables, world.clock, world.remaining))
        # Every state is accepted: an archive or a restore may have changed the state meanwhile, but the table does not
        # exist any more.
        world.catalog.move(entry, State.DELETED, expected=State, deleted_at=now)
    return existed


def _wait_for_lease(world: World, lease: str, owner: str, leases: ExitStack) -> None:
    """Take a lease as soon as it is free; NotReady if it is not free in time. The lease of a dead run expires."""
    while True:
        if leases.enter_context(
            hold_lease(world.catalog, lease, owner, world.clock.now(), _choose_lease_length(world))
        ):
            return
        if world.remaining() < 2 * _WAIT_SECONDS:
            raise NotReady(f"{lease} is under way; delete the stack again in a few minutes")
        world.clock.sleep(_WAIT_SECONDS)


def _choose_lease_length(world: World) -> timedelta:
    """Choose the length of a lease: at most the time of this removal, so that a dead removal does not block the next
    removal.
    """
    return min(timedelta(seconds=max(world.remaining(), 0)), LEASE_MOST)
