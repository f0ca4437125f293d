"""Carry out one action. Every step may be repeated, so the next run can finish an interrupted action."""

from __future__ import annotations

from datetime import datetime

from tidetable.catalog import Entry, State
from tidetable.catalog_steps import read_entry
from tidetable.copies.states import list_mirrors
from tidetable.copies.table_copies import Copy, DeleteCopy, begin_copy
from tidetable.errors import NotReady
from tidetable.period_tables import PeriodTables, list_names
from tidetable.ports import Table
from tidetable.remaining import limit_time
from tidetable.upkeep import actions
from tidetable.upkeep.run import RANK_SECONDS, LifecycleRun

# If fewer seconds than this are left, a later run makes the archive.
_ARCHIVE_SECONDS = 20.0
_CHANGE_SECONDS = 30.0
# While one policy replaces another, the catalog has this word in place of a policy's text. No policy has this text.
_CHANGING = "changing"


def apply(action: actions.Action, run: LifecycleRun, now: datetime) -> None:
    """Carry out an action, and wait for the tables that it needs. The caller reports the errors."""
    entry = action.entry
    match action:
        case actions.Create():
            finish_creation(action, begin_creation(action, run), run)
        case actions.Open():
            _open_period(action, run)
        case actions.SetCapacity() | actions.SetClass() | actions.Scale() | actions.Unscale():
            _change_settings(action, run)
        case Copy():
            begin_copy(action, run)
        case DeleteCopy():
            _delete_copy(action, run)
        case actions.Reopen():
            run.catalog.move(entry, action.state, expected=(entry.state,), opened=action.opened)
        case actions.Close():
            run.catalog.move(entry, State.CLOSED, expected=(State.CREATING, State.OPEN, State.CLOSED))
        case actions.Archive():
            _archive_period(entry, run, retain=action.retain)
        case actions.Delete():
            _delete_tables(action, run, now)


def _change_settings(
    action: actions.SetCapacity | actions.SetClass | actions.Scale | actions.Unscale, run: LifecycleRun
) -> None:
    """Change the capacity, the class or the scaling of the entry's table, if the table is ours."""
    entry = action.entry
    if isinstance(action, actions.Unscale):
        _remove_scaling(entry, run)
        return
    tables = run.make_period_tables()
    table = tables.find_owned(entry)
    if table.seen is not None and not isinstance(action, actions.Scale):
        # The change is recorded first. Otherwise, if the former level is chosen again before the next look at the
        # table, the recorded units would suit this level, and the table would keep the other units until its turn.
        run.catalog.note(entry, table.seen._replace(changing=True))
    match action:
        case actions.SetCapacity():
            _set_capacity(action, table, run)
        case actions.SetClass():
            # The period table is the last: while it has the old class, runs repeat this.
            for name in list_names(entry):
                each = table if name == entry.table else tables.find_owned(entry, name)
                if each.table_class is not action.table_class:
                    run.tables.set_class(name, action.table_class)
        case actions.Scale():
            # The registration is recorded before it is made: a recorded registration is taken back later, even if it
            # was never made. The mark of a change stays until the change is confirmed: a run that continues must take
            # the former policy back.
            run.catalog.mark_scaled(entry, scaled=True, policy=_CHANGING if entry.capacity.policy else "")
            if entry.capacity.policy not in ("", action.policy.text):
                # Targets that the new policy does not name must go. So must the targets that the service has mirrored
                # to the Regions of copies: they keep the old policy, and two policies would change the units that all
                # copies share.
                _deregister(entry, run)
            run.scaling.register(entry.table, [index.name for index in entry.layout.global_indexes], action.policy)
            # The confirmation comes last. Until then every run registers again; a repeated registration changes
            # nothing.
            run.catalog.mark_scaled(entry, scaled=True, policy=action.policy.text)


def begin_creation(action: actions.Create, run: LifecycleRun) -> Entry:
    """Record the period, then begin to make its tables: without an entry nobody would know whose table it is.

    Return the recorded entry.
    """
    entry = action.entry
    if not run.catalog.add(entry):
        entry = read_entry(run.catalog, entry.stream, entry.period) or entry
    # While too many tables are under way, the tables of this rank wait together.
    run.make_period_tables(RANK_SECONDS).begin(entry, action.spec)
    return entry


def finish_creation(action: actions.Create, entry: Entry, run: LifecycleRun) -> None:
    """Wait for the tables of a recorded period, and open it."""
    tables = run.make_period_tables()
    tables.finish(entry)
    for name in entry.tables if action.recoverable else ():
        tables.make_recoverable(name)
    run.catalog.move(entry, State.OPEN, expected=(State.CREATING, State.OPEN))


def _open_period(action: actions.Open, run: LifecycleRun) -> None:
    if action.recoverable:
        run.make_period_tables().make_recoverable(action.entry.table)
    run.catalog.move(action.entry, State.OPEN, expected=(State.CREATING, State.OPEN))


def _set_capacity(action: actions.SetCapacity, table: Table, run: LifecycleRun) -> None:
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
        run.tables.set_capacity(
            table.name, *target, itself=target != current, indexes=indexes, most=None if table.on_demand else level.most
        )
    elif level.caps(table):
        run.tables.set_maxima(table.name, level.most, [index.name for index in action.entry.layout.global_indexes])


def _delete_copy(action: DeleteCopy, run: LifecycleRun) -> None:
    """Delete a copy if the catalog, read anew, allows it. The catalog forgets it first, so that nobody reads it."""
    entry = _find_deletable(action, run)
    _prepare_removal(entry, run)
    run.make_period_tables().delete_copy(entry)


def _prepare_removal(entry: Entry, run: LifecycleRun) -> None:
    """Let the catalog forget the copies of the entry's table, and take the table from Application Auto Scaling."""
    if entry.copies.active:
        run.catalog.mark_copies(entry, ())
    if entry.capacity.scaled:
        _remove_scaling(entry, run)


def _remove_scaling(entry: Entry, run: LifecycleRun) -> None:
    _deregister(entry, run)
    run.catalog.mark_scaled(entry, scaled=False)


def _deregister(entry: Entry, run: LifecycleRun) -> None:
    run.scaling.deregister(entry.table, [index.name for index in entry.layout.global_indexes], list_mirrors(entry))


def _await_units(entry: Entry, run: LifecycleRun) -> None:
    """Wait for a table that this run has made faster for its export: the wait costs less here than in the archiver."""
    spare = limit_time(_CHANGE_SECONDS, run.clock, lambda: run.remaining() - _ARCHIVE_SECONDS)
    tables = PeriodTables(run.stage, run.tables, run.clock, spare)
    tables.wait_while_changing(
        entry.table, f"table {entry.table} is being made faster for its export; a later run archives it"
    )


def _archive_period(entry: Entry, run: LifecycleRun, *, retain: bool) -> None:
    _await_units(entry, run)
    within = run.remaining()
    if within < _ARCHIVE_SECONDS:
        raise NotReady("the time of this run is up; a later one archives it")
    run.archiver.archive(entry.stream, entry.period.label, within=within, retain=retain)


def _delete_tables(action: actions.Delete, run: LifecycleRun, now: datetime) -> None:
    """Delete the entry's tables if the catalog, read anew, says that they may be deleted. Then record the tombstone."""
    entry = _find_deletable(action, run)
    remove_table(entry, run)
    run.catalog.move(entry, State.DELETED, expected=(entry.state,), deleted_at=now)


def _find_deletable(action: actions.Delete | DeleteCopy, run: LifecycleRun) -> Entry:
    """Return the present entry; NotReady if its table must not be deleted."""
    entry = read_entry(run.catalog, action.entry.stream, action.entry.period)
    if entry is None or (entry.state is not State.ARCHIVED and not action.unarchived):
        state = entry.state if entry is not None else "unknown"
        raise NotReady(f"period {action.entry.period.label} is {state}, not archived")
    return entry


def remove_table(entry: Entry, run: LifecycleRun, tables: PeriodTables | None = None) -> bool:
    """Delete the entry's tables if they are ours, and wait for it. False if none existed. ``tables`` limits the wait."""
    _prepare_removal(entry, run)
    return (tables or run.make_period_tables()).delete(entry)
