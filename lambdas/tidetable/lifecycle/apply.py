"""Carry out one action. Every step may be repeated, so the next run can finish an interrupted action."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tidetable.catalog import Entry, State
from tidetable.errors import NotReady, TableUnusable
from tidetable.lifecycle import actions
from tidetable.names import name_chunks_table
from tidetable.period_tables import (
    POLL_SECONDS,
    WAIT_SECONDS,
    PeriodTables,
    describe_changing_copies,
    list_names,
)
from tidetable.ports import Archiver, Catalog, Clock, Pools, Scaling, Table, Tables
from tidetable.remaining import Remaining, limit_time

# If fewer seconds than this are left, a later run makes the archive.
_ARCHIVE_SECONDS = 20.0
_CHANGE_POLLS = 30
_USABLE_COPIES = frozenset({"ACTIVE", "UPDATING"})
# While one policy replaces another, the catalog has this word in place of a policy's text. No policy has this text.
_CHANGING = "changing"


@dataclass(slots=True)
class World:
    """The ports that actions use.

    ``remaining`` returns the seconds that are left for the run, ``patience`` the seconds that the run may still wait
    for tables.
    """

    stage: str
    catalog: Catalog
    tables: Tables
    scaling: Scaling
    archiver: Archiver
    clock: Clock
    pools: Pools
    remaining: Remaining
    patience: Remaining | None = None

    def period_tables(self) -> PeriodTables:
        """Return the tables for one action.

        The action waits at most a minute for them, so that one slow table does not delay the others.
        """
        remaining = limit_time(WAIT_SECONDS, self.clock, self.patience or self.remaining)
        return PeriodTables(self.stage, self.tables, self.clock, remaining)


def apply(action: actions.Action, world: World, now: datetime) -> None:
    """Carry out an action, and wait for the tables that it needs.

    Errors are raised to the caller, which reports them.
    """
    entry = action.entry
    match action:
        case actions.Create():
            _create(action, world)
        case actions.Open():
            if action.recoverable:
                world.period_tables().make_recoverable(entry.table)
            world.catalog.move(entry, State.OPEN, expected=(State.CREATING, State.OPEN))
        case actions.SetCapacity() | actions.SetClass() | actions.Scale() | actions.Unscale():
            _tune(action, world)
        case actions.Copy() | actions.DeleteCopy():
            _change_copies(action, world)
        case actions.Reopen():
            world.catalog.move(entry, action.state, expected=(entry.state,), opened=action.opened)
        case actions.Close():
            world.catalog.move(entry, State.CLOSED, expected=(State.CREATING, State.OPEN, State.CLOSED))
        case actions.Archive():
            _archive(entry, world)
        case actions.Delete():
            _delete(action, world, now)


def _tune(action: actions.SetCapacity | actions.SetClass | actions.Scale | actions.Unscale, world: World) -> None:
    """Change the capacity, the class or the scaling of the entry's table, if the table is ours."""
    entry = action.entry
    if isinstance(action, actions.Unscale):
        _unscale(entry, world)
        return
    tables = world.period_tables()
    table = tables.find_owned(entry)
    if table.seen is not None and not isinstance(action, actions.Scale):
        # The change is recorded first. Otherwise, if the former level is chosen again before the next look at the
        # table, the recorded units would suit this level, and the table would keep the other units until its turn.
        world.catalog.note(entry, table.seen._replace(changing=True))
    match action:
        case actions.SetCapacity():
            _set_capacity(action, table, world)
        case actions.SetClass():
            if entry.layout.parts:
                # The table beside it comes first: while the period table has the old class, runs repeat this.
                parts_table = tables.find_owned(entry, name_chunks_table(entry.table))
                if parts_table.table_class is not action.table_class:
                    world.tables.set_class(parts_table.name, action.table_class)
            if table.table_class is not action.table_class:
                world.tables.set_class(entry.table, action.table_class)
        case actions.Scale():
            # The registration is recorded before it is made: a recorded registration is taken back later, even if it
            # was never made. The mark of a change stays until the change is confirmed: a run that continues must take
            # the former policy back.
            world.catalog.mark_scaled(entry, scaled=True, policy=_CHANGING if entry.scaling else "")
            indexes = [index.name for index in entry.layout.global_indexes]
            if entry.scaling not in ("", action.policy.text):
                # Targets that the new policy does not name must go. So must the targets that the service has mirrored
                # to the Regions of copies: they keep the old policy, and two policies would change the units that all
                # copies share.
                world.scaling.deregister(entry.table, indexes, entry.replicas)
            world.scaling.register(entry.table, indexes, action.policy)
            # The confirmation comes last. Until then every run registers again; a repeated registration changes
            # nothing.
            world.catalog.mark_scaled(entry, scaled=True, policy=action.policy.text)


def _create(action: actions.Create, world: World) -> None:
    """Record the period, then make its tables and open it: without an entry nobody would know whose table it is."""
    entry, tables = action.entry, world.period_tables()
    if not world.catalog.add(entry):
        entry = _read_recorded(entry, world)
    for spec in action.specs:
        if not world.tables.create(spec):
            tables.find_owned(entry, spec.name)
    for spec in action.specs:
        tables.settled(spec.name)
        if action.recoverable:
            tables.make_recoverable(spec.name)
    world.catalog.move(entry, State.OPEN, expected=(State.CREATING, State.OPEN))


def _set_capacity(action: actions.SetCapacity, table: Table, world: World) -> None:
    """Change only units that differ: an earlier run's change may have ended by now, and AWS refuses unchanged units."""
    level, current = action.level, (table.write, table.read)
    target = level.units(current)
    indexes: dict[str, tuple[int, int]] = {}
    if level.write is not None:
        # A table that leaves on-demand mode shows no units of its indexes, and must be given all of them.
        units = table.index_units or {index.name: (0, 0) for index in action.entry.layout.global_indexes}
        targets = {name: level.choose_index_units(name, have) for name, have in units.items()}
        indexes = {name: target for name, target in targets.items() if target != units[name]}
    if target != current or indexes:
        world.tables.set_capacity(
            table.name, *target, itself=target != current, indexes=indexes, most=None if table.on_demand else level.most
        )
    elif level.caps(table):
        world.tables.set_maxima(table.name, level.most, [index.name for index in action.entry.layout.global_indexes])


def _change_copies(action: actions.Copy | actions.DeleteCopy, world: World) -> None:
    if isinstance(action, actions.Copy):
        _begin_copy(action, world)
    else:
        _delete_copy(action, world)


def _begin_copy(action: actions.Copy, world: World) -> None:
    """Begin the next copy that is missing in the Region. The table beside the period table is copied first."""
    entry, region, tables = action.entry, action.region, world.period_tables()
    for name in list_names(entry):
        table = tables.find_owned(entry, name)
        status = table.copies.get(region)
        if describe_changing_copies(table):
            raise NotReady(f"a copy of {name} is changing: {describe_changing_copies(table)}")
        if status is not None and status not in _USABLE_COPIES:
            raise TableUnusable(name, f"{status} in {region}")
        if status is not None:
            continue
        # The mark comes first: a copy that was begun is not listed for some seconds, and must not be begun again
        # meanwhile.
        world.catalog.mark_copying(entry, region, world.clock.now())
        world.tables.create_copy(name, region)
        return


def _delete_copy(action: actions.DeleteCopy, world: World) -> None:
    """Delete a copy if the catalog, read anew, says that its table may be deleted.

    The catalog forgets all copies of the table first, so that nobody reads them any more.
    """
    entry = _find_deletable(action.entry, world, unarchived=action.unarchived)
    _forget_copies(entry, world)
    if entry.scaled:
        _unscale(entry, world)
    world.period_tables().delete_copy(entry)


def _forget_copies(entry: Entry, world: World) -> None:
    if entry.copies:
        world.catalog.mark_copies(entry, ())


def _unscale(entry: Entry, world: World) -> None:
    world.scaling.deregister(entry.table, [index.name for index in entry.layout.global_indexes], entry.replicas)
    world.catalog.mark_scaled(entry, scaled=False)


def _await_units(entry: Entry, world: World) -> None:
    """Wait for a table that this run has made faster for its export.

    That takes seconds. The wait costs less here than in the archiver.
    """
    for _ in range(_CHANGE_POLLS):
        table = world.tables.describe(entry.table)
        if table is None or table.status == "ACTIVE":
            return
        if world.remaining() < _ARCHIVE_SECONDS:
            break
        world.clock.sleep(POLL_SECONDS)
    raise NotReady(f"table {entry.table} is being made faster for its export; a later run archives it")


def _archive(entry: Entry, world: World) -> None:
    _await_units(entry, world)
    within = world.remaining()
    if within < _ARCHIVE_SECONDS:
        raise NotReady("the time of this run is up; a later one archives it")
    world.archiver.archive(entry.stream, entry.period.label, within=within)


def _delete(action: actions.Delete, world: World, now: datetime) -> None:
    """Delete the entry's tables if the catalog, read anew, says that they may be deleted. Then record the tombstone."""
    entry = _find_deletable(action.entry, world, unarchived=action.unarchived)
    remove_table(entry, world)
    world.catalog.move(entry, State.DELETED, expected=(entry.state,), deleted_at=now)


def _find_deletable(planned: Entry, world: World, *, unarchived: bool) -> Entry:
    """Return the present entry; NotReady if its table must not be deleted."""
    entry = _read_recorded(planned, world)
    if entry.state is not State.ARCHIVED and not unarchived:
        raise NotReady(f"period {entry.period.label} is {entry.state}, not archived")
    return entry


def remove_table(entry: Entry, world: World, tables: PeriodTables | None = None) -> bool:
    """Delete the entry's tables if they are ours, and wait until they do not exist any more.

    Return False if there was no table. ``tables`` limits the wait; by default it is the same as for any action.
    """
    _forget_copies(entry, world)
    if entry.scaled:
        _unscale(entry, world)
    return (tables or world.period_tables()).delete(entry)


def _read_recorded(entry: Entry, world: World) -> Entry:
    entries = world.catalog.entries(entry.stream, entry.period.start, entry.period.start, consistent=True)
    return next(recorded for recorded in entries if recorded.period == entry.period)
