"""The tables of a period. This module proves that they are ours, and waits for their changes.

The lifecycle, the removal of a stage and a restore follow these rules. Every step may be repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from msgspec.structs import replace

from tidetable.catalog import Entry, State
from tidetable.copies.states import describe_changing_copies, list_own_copies, refuse_changing
from tidetable.errors import NotOurs, NotReady, TableMissing, TableRefused, TableUnusable, repeat_later
from tidetable.names import parse_table_name
from tidetable.ports import Clock, Table, Tables, TableSpec
from tidetable.remaining import Remaining

POLL_SECONDS = 1.0
# Measured on the service: backups become available 3 to 6 s after a table is ACTIVE.
RECOVERY_POLL_SECONDS = 2.0
# The seconds that a run waits for one change of one table. A plain table takes 2 to 6 s, a table with indexes 14 to 22
# s. A later run finishes a change that takes longer, so that it does not delay other tables.
WAIT_SECONDS = 60.0
# AWS: "DescribeTable uses an eventually consistent query", so that a new table may not be found for "a few seconds", and its
# tags come later still (hashicorp/terraform-provider-aws#39326). So a new table without its tags may still be ours.
SEEN_SECONDS = 10.0
TAGGED = timedelta(minutes=1)
# States in which a run that ended a moment ago may have made a table that nobody can see yet.
_BEGUN = frozenset({State.CREATING, State.RESTORING})
# DynamoDB's words for a change that ends without help. Every other word except ACTIVE lasts until an operator acts, for
# example INACCESSIBLE_ENCRYPTION_CREDENTIALS (the key is lost or disabled) and ARCHIVED (that lasted 7 days).
_PASSING = frozenset({"CREATING", "UPDATING", "DELETING"})


def make_table_tags(stage: str, stream: str, label: str) -> dict[str, str]:
    """Make the tags that prove that a table is ours."""
    return {"project": "tidetable", "tidetable:stage": stage, "tidetable:stream": stream, "tidetable:period": label}


def specify_tables(entry: Entry, spec: TableSpec) -> list[TableSpec]:
    """Specify all tables of an entry; ``spec`` is its own table's.

    The table beside it is on demand, so only requests cost, and has no ladder.
    """
    beside = replace(
        spec, write=None, read=None, indexes=(), index_units={}, warm=None, most=None, stream="none", sorted=False
    )
    return [spec, *(replace(beside, name=name) for name in entry.tables if name != spec.name)]


def list_names(entry: Entry) -> list[str]:
    """List the names of an entry's tables, the period table last: as long as it exists, a deletion is not finished."""
    return list(reversed(entry.tables))


def passes(status: str) -> bool:
    """True if a table in this state is ACTIVE, or becomes ACTIVE or disappears without help."""
    return status == "ACTIVE" or status in _PASSING


def pause(seconds: float, why: str, clock: Clock, remaining: Remaining) -> None:
    """Wait before a table is looked at again; NotReady, which says ``why``, if too little time is left."""
    if remaining() < seconds:
        raise NotReady(why)
    clock.sleep(seconds)


@dataclass(frozen=True, slots=True)
class PeriodTables:
    """The control plane for the tables of periods. ``remaining`` returns the seconds for which it may still wait."""

    stage: str
    tables: Tables
    clock: Clock
    remaining: Remaining

    def create(self, entry: Entry, spec: TableSpec) -> None:
        """Make the entry's tables that do not exist, and wait until all are active; ``spec`` is its own table's.

        NotOurs, NotReady and TableUnusable as in ``find_owned``.
        """
        self.begin(entry, spec)
        self.finish(entry)

    def begin(self, entry: Entry, spec: TableSpec) -> None:
        """Begin to make the entry's tables that do not exist; ``spec`` is its own table's. NotOurs as in ``find_owned``."""
        for each in specify_tables(entry, spec):
            if not self._begin(each):
                self.find_owned(entry, each.name)

    def _begin(self, spec: TableSpec) -> bool:
        """Begin to make a table. If AWS refuses it because too many are under way, try again as long as there is time."""
        while True:
            try:
                return self.tables.create(spec)
            except TableRefused as refused:
                if not refused.crowded or self.remaining() < POLL_SECONDS:
                    raise
                self.clock.sleep(POLL_SECONDS)

    def finish(self, entry: Entry) -> None:
        """Wait until all tables of an entry are active."""
        for name in entry.tables:
            self.settled(name)

    def find_owned(self, entry: Entry, name: str = "") -> Table:
        """Return the table when it is active and proven to be ours; ``name`` is the period table, or the table
        beside it.

        NotOurs if the table belongs to somebody else; NotReady and TableUnusable as in ``settled``.
        """
        table = self.settled(name or entry.table)
        self.prove(entry, table)
        return table

    def prove(self, entry: Entry, table: Table) -> None:
        """Prove that a table is ours by its name, by the catalog's entry and by every tag; NotOurs otherwise.

        It waits for the tags of a new table: NotReady if the time is not enough.
        """
        name = table.name
        parse_table_name(self.stage, entry.table)
        if name not in list_names(entry):
            raise NotOurs(
                f"table {name} is not a table of period {entry.period.label} of {entry.stream}; it is left alone"
            )
        expected = make_table_tags(self.stage, entry.stream, entry.period.label)
        while True:
            tags = self._read_tags(table)
            if all(tags.get(key) == value for key, value in expected.items()):
                return
            if not self._is_new(table):
                raise NotOurs(f"table {name} exists but is not tagged as ours; it is left alone")
            self._pause(f"table {name} is new and its tags cannot be seen yet")

    def _read_tags(self, table: Table) -> Mapping[str, str]:
        """Read the table's tags; no tags if the table is new and cannot be found yet."""
        try:
            return self.tables.tags(table.name)
        except TableMissing:
            if not self._is_new(table):
                raise
            return {}

    def _is_new(self, table: Table) -> bool:
        """True if the table is so new that DynamoDB may not show all of its description yet."""
        return table.created is not None and self.clock.now() < table.created + TAGGED

    def settled(self, name: str) -> Table:
        """Wait until the table is ACTIVE, and return it: a table that is changing refuses the next change.

        NotReady if the time is not enough, TableUnusable at once if its state does not end without an operator.
        """
        while True:
            table = self.tables.describe(name)
            if table is not None and table.status == "ACTIVE":
                return table
            if table is not None and not passes(table.status):
                raise TableUnusable(name, table.status)
            self._pause(f"table {name} is {table.status if table is not None else 'not there yet'}")

    def wait_while_changing(self, name: str, why: str) -> None:
        """Wait until the table is ACTIVE or does not exist; NotReady, which says ``why``, if the time is not enough."""
        while (table := self.tables.describe(name)) is not None and table.status != "ACTIVE":
            self._pause(why)

    def make_recoverable(self, name: str) -> None:
        """Turn point-in-time recovery on, as soon as DynamoDB allows it for a new table."""
        while True:
            try:
                self.tables.enable_recovery(name)
            except TableRefused as refused:
                if not refused.transient or self.remaining() < RECOVERY_POLL_SECONDS:
                    raise
                self.clock.sleep(RECOVERY_POLL_SECONDS)
            else:
                return

    def delete_copy(self, entry: Entry) -> None:
        """Begin the deletion of one of the entry's copies; NotReady while another copy is being made or deleted."""
        for name in list_names(entry):
            table = self.tables.describe(name)
            if table is not None and list_own_copies(entry, table):
                self.prove(entry, table)
                refuse_changing(table)
                self.tables.delete_copy(name, list_own_copies(entry, table)[0])
                return

    def delete(self, entry: Entry) -> bool:
        """Delete the entry's tables that exist and are ours, and wait until they do not exist any more.

        Return False if no table existed. The copies of each table are deleted first, one after another.

        A table whose key is lost can be deleted, too. Deletion protection is turned off first: the configuration that
        turned it on has also decided on the deletion.
        """
        existed = [self._delete(entry, name) for name in list_names(entry)]
        return any(existed)

    def _delete(self, entry: Entry, name: str) -> bool:
        table = self._find(entry, name)
        exists = table is not None
        while table is not None:
            if table.status not in _PASSING:
                try:
                    # A description may lag behind: the table is changing, or its protection was changed just now.
                    with repeat_later():
                        self._begin_deletion(entry, table)
                except TableMissing:
                    break
            self._pause(f"table {name} is not deleted yet")
            table = self.tables.describe(name)
        return exists

    def _find(self, entry: Entry, name: str) -> Table | None:
        """Find the table; None if there is no table. Wait for a table that may be new."""
        since = self.clock.now()
        while (table := self.tables.describe(name)) is None:
            if entry.state not in _BEGUN or (self.clock.now() - since).total_seconds() >= SEEN_SECONDS:
                return None
            self._pause(f"table {name} may have been made a moment ago")
        return table

    def _begin_deletion(self, entry: Entry, table: Table) -> None:
        self.prove(entry, table)
        if describe_changing_copies(table):
            return
        copies = list_own_copies(entry, table)
        if copies:
            self.tables.delete_copy(table.name, copies[0])
        elif table.protected:
            self.tables.set_protection(table.name, protected=False)
        else:
            self.tables.delete(table.name)

    def _pause(self, why: str) -> None:
        pause(POLL_SECONDS, why, self.clock, self.remaining)
