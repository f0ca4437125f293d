"""A stage stands after its stack was created completely for the first time.

Until then its tables can be deleted again, and nothing is protected.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from tidetable.catalog import Entry, State
from tidetable.errors import repeat_later
from tidetable.lifecycle.apply import remove_table
from tidetable.period_tables import POLL_SECONDS, pause
from tidetable.upkeep.run import LifecycleRun

_AT_ONCE = 8
# The catalog is made a little before the tables, and its time is from another machine's clock.
_CLOCKS_APART = timedelta(minutes=1)
# The states of tables in a stage that fails before it stands. A table in any other state has a history.
_YOUNG = frozenset({State.CREATING, State.OPEN, State.CLOSED})


def take_back(run: LifecycleRun) -> list[str]:
    """Delete the tables of a stage that never stood. Return their names.

    Without a catalog nobody would know which stage the tables belong to. Nothing happens to a stage that stands or once
    stood, for example a destroyed stage that is made again with its old catalog. A table that is older than the catalog
    was made by another deployment and may hold events, so it stays. The call may be repeated.
    """
    if run.catalog.is_deployed():
        return []
    catalog = run.tables.describe(run.catalog_table)
    if catalog is None or catalog.created is None:
        return []
    entries = list[Entry]()
    for name in run.config.streams:
        # The oldest entry of a stage with a history shows the history.
        for entry in run.catalog.walk(name, ascending=True, consistent=True):
            if entry.state not in _YOUNG:
                return []
            entries.append(entry)
    since = catalog.created - _CLOCKS_APART
    young = [entry for entry in entries if _is_young(entry, run, since)]
    with run.pools(_AT_ONCE) as pool:
        attempts = [pool.submit(_take_back, entry, run) for entry in young]
    # Every table has been attempted. If several tables could not be deleted, the error of the first table is raised.
    return [attempt.result() for attempt in attempts]


def finish_stage(run: LifecycleRun, *, protected: bool) -> None:
    """Turn the catalog's deletion protection on or off, and then record that the stage stands. May be repeated.

    If the first call fails, the stage does not stand, and its catalog has no protection: so its tables can be deleted
    again.
    """
    first = not run.catalog.is_deployed()
    try:
        protect(run, protected=protected)
        run.catalog.mark_deployed()
    except Exception:
        if first and protected:
            protect(run, protected=False)
        raise


def mark_updated(run: LifecycleRun) -> None:
    """Record that a stage stands whose stack is updated. May be repeated.

    CloudFormation updates a resource only after it made it, so the stage may have events, also if a version made it that
    did not record this. Without the mark, the deletion of the stack after an update that got stuck would delete every
    table. If a first deployment failed and kept its resources, its tables stay as well.
    """
    if not run.catalog.is_deployed():
        run.catalog.mark_deployed()


def protect(run: LifecycleRun, *, protected: bool) -> None:
    """Turn the catalog's deletion protection on or off, as soon as no other change is under way."""
    while True:
        table = run.tables.describe(run.catalog_table)
        if table is not None and table.status == "ACTIVE":
            if table.protected is protected:
                return
            # Protection cannot change twice within 15 seconds.
            with repeat_later():
                run.tables.set_protection(run.catalog_table, protected=protected)
        why = f"table {run.catalog_table} is {table.status if table is not None else 'not there'}"
        pause(POLL_SECONDS, why, run.clock, run.remaining)


def _is_young(entry: Entry, run: LifecycleRun, since: datetime) -> bool:
    tables = [table for table in map(run.tables.describe, entry.tables) if table is not None]
    return all(table.created is not None and table.created >= since for table in tables)


def _take_back(entry: Entry, run: LifecycleRun) -> str:
    remove_table(entry, run)
    # Afterwards the entry goes, too: an entry without its table would count as a lost table.
    run.catalog.forget(entry)
    return entry.table
