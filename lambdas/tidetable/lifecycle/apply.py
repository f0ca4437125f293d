"""Carrying out one action at a time; every step may be repeated, so a run cut short is finished by the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tidetable.catalog import Entry, State
from tidetable.errors import TidetableError
from tidetable.lifecycle.actions import (
    Action,
    Archive,
    Close,
    Create,
    Delete,
    Open,
    Reopen,
    Scale,
    SetCapacity,
    SetClass,
    Unscale,
)
from tidetable.lifecycle.plan import table_tags
from tidetable.names import parse_table_name, parts_table
from tidetable.ports import Archiver, Catalog, Clock, Scaling, Table, Tables

_POLL_SECONDS = 1.0
# With less time left than this, an archive is left to a later run.
_ARCHIVE_SECONDS = 20.0
_CHANGE_POLLS = 30


class NotReady(TidetableError):
    """A table is still changing, and the time of this run is up: a later run goes on."""


class NotOurs(TidetableError):
    """A table has our name but not our tags; it is never touched."""


@dataclass(slots=True)
class World:
    """What actions act upon. ``remaining`` tells the seconds that the run may still take."""

    stage: str
    catalog: Catalog
    tables: Tables
    scaling: Scaling
    archiver: Archiver
    clock: Clock
    remaining: Callable[[], float]


def apply(action: Action, world: World, now: datetime) -> None:
    """Carry out an action, waiting for what it needs; errors rise to the caller, which reports them."""
    entry = action.entry
    match action:
        case Create():
            _create(action, world)
        case Open():
            if action.recoverable:
                world.tables.enable_recovery(entry.table)
            world.catalog.move(entry, State.OPEN, expected=(State.CREATING, State.OPEN))
        case SetCapacity() | SetClass() | Scale() | Unscale():
            _tune(action, world)
        case Reopen():
            world.catalog.move(entry, entry.state, expected=(entry.state,), opened=action.opened)
        case Close():
            world.catalog.move(entry, State.CLOSED, expected=(State.CREATING, State.OPEN, State.CLOSED))
        case Archive():
            _archive(entry, world)
        case Delete():
            _delete(action, world, now)


def _tune(action: SetCapacity | SetClass | Scale | Unscale, world: World) -> None:
    """Change what the table can do, if it is ours."""
    entry = action.entry
    if isinstance(action, Unscale):
        _unscale(entry, world)
        return
    table = _owned(entry, world)
    match action:
        case SetCapacity():
            _set_capacity(action, table, world)
        case SetClass():
            if entry.layout.parts:
                # First, as what is still to be done is seen by the period table's class.
                beside = _owned(entry, world, parts_table(entry.table))
                if beside.table_class is not action.table_class:
                    world.tables.set_class(beside.name, action.table_class)
            if table.table_class is not action.table_class:
                world.tables.set_class(entry.table, action.table_class)
        case Scale():
            # Noted first: what is noted is taken back some day, whether it was done or not.
            world.catalog.mark_scaled(entry, scaled=True)
            world.scaling.register(entry.table, [one.name for one in entry.layout.indexes], action.policy)


def _create(action: Create, world: World) -> None:
    """The catalog first: a table that it does not know would be nobody's."""
    entry = action.entry
    if not world.catalog.add(entry):
        entry = _recorded(entry, world)
    for spec in action.specs:
        if not world.tables.create(spec):
            _owned(entry, world, spec.name)
    for spec in action.specs:
        _settled(spec.name, world)
        if action.recoverable:
            world.tables.enable_recovery(spec.name)
    world.catalog.move(entry, State.OPEN, expected=(State.CREATING, State.OPEN))


def _set_capacity(action: SetCapacity, table: Table, world: World) -> None:
    """Change what is different: an earlier run's change may have ended only now, and AWS refuses one that changes nothing."""
    level, held = action.level, (table.write, table.read)
    wanted = level.units(held)
    indexes: dict[str, tuple[int, int]] = {}
    if level.write is not None:
        # A table that leaves on-demand mode shows no units of its indexes, and must be given all of them.
        units = table.index_units or {one.name: (0, 0) for one in action.entry.layout.indexes}
        targets = {name: level.units_of(name, have) for name, have in units.items()}
        indexes = {name: target for name, target in targets.items() if target != units[name]}
    if wanted != held or indexes:
        world.tables.set_capacity(table.name, *wanted, itself=wanted != held, indexes=indexes)


def _unscale(entry: Entry, world: World) -> None:
    world.scaling.deregister(entry.table, [one.name for one in entry.layout.indexes])
    world.catalog.mark_scaled(entry, scaled=False)


def _await_units(entry: Entry, world: World) -> None:
    """A table that was made faster for its export in this run is so in seconds; the archiver's time costs more than this wait."""
    for _ in range(_CHANGE_POLLS):
        table = world.tables.describe(entry.table)
        if table is None or table.status == "ACTIVE":
            return
        if world.remaining() < _ARCHIVE_SECONDS:
            break
        world.clock.sleep(_POLL_SECONDS)
    raise NotReady(f"table {entry.table} is being made faster for its export; a later run archives it")


def _archive(entry: Entry, world: World) -> None:
    _await_units(entry, world)
    within = world.remaining()
    if within < _ARCHIVE_SECONDS:
        raise NotReady("the time of this run is up; a later one archives it")
    # Raised capacity counts from when it is there.
    _settled(entry.table, world)
    world.archiver.archive(entry.stream, entry.period.label, within=within)


def _delete(action: Delete, world: World, now: datetime) -> None:
    """Delete what the catalog, read anew, says may go; then leave the tombstone."""
    entry = _recorded(action.entry, world)
    if entry.state is not State.ARCHIVED and not action.unarchived:
        raise NotReady(f"period {entry.period.label} is {entry.state}, not archived")
    remove_table(entry, world)
    world.catalog.move(entry, State.DELETED, expected=(entry.state,), deleted_at=now)


def remove_table(entry: Entry, world: World) -> None:
    """Delete the entry's tables if they are there and ours, and wait until they are gone."""
    if entry.scaled:
        _unscale(entry, world)
    # The period table last: as long as it is there, this is seen to be unfinished.
    names = [parts_table(entry.table), entry.table] if entry.layout.parts else [entry.table]
    for name in names:
        table = world.tables.describe(name)
        if table is None:
            continue
        if table.status != "DELETING":
            # Whoever turned protection on by configuration has decided on expiry there, too.
            if _owned(entry, world, name).protected:
                world.tables.set_protection(name, protected=False)
                _settled(name, world)
            world.tables.delete(name)
        _gone(name, world)


def _recorded(entry: Entry, world: World) -> Entry:
    entries = world.catalog.entries(entry.stream, entry.period.start, entry.period.start, consistent=True)
    return next(one for one in entries if one.period == entry.period)


def _owned(entry: Entry, world: World, name: str = "") -> Table:
    """The table, active and proven ours: by its name, by the catalog (which gave the entry) and by its tags.

    ``name`` is the entry's own, or that of the table beside it.
    """
    parse_table_name(world.stage, entry.table)
    name = name or entry.table
    table = _settled(name, world)
    tags = world.tables.tags(name)
    wanted = table_tags(world.stage, entry.stream, entry.period.label)
    if any(tags.get(name) != value for name, value in wanted.items()):
        raise NotOurs(f"table {name} exists but is not tagged as ours; it is left alone")
    return table


def _settled(name: str, world: World) -> Table:
    """The table once it is ACTIVE: one that is changing refuses the next change."""
    while True:
        table = world.tables.describe(name)
        if table is not None and table.status == "ACTIVE":
            return table
        if world.remaining() < _POLL_SECONDS:
            raise NotReady(f"table {name} is {table.status if table is not None else 'not there yet'}")
        world.clock.sleep(_POLL_SECONDS)


def _gone(name: str, world: World) -> None:
    while world.tables.describe(name) is not None:
        if world.remaining() < _POLL_SECONDS:
            raise NotReady(f"table {name} is still being deleted")
        world.clock.sleep(_POLL_SECONDS)
