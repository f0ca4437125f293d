"""The plan: a pure function makes actions from the configuration and the observed tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from tidetable.catalog import FENCED, OPENING, Entry, State
from tidetable.config import Config, Stream
from tidetable.copies.table_copies import DeleteCopy, fit_copies, record_regions
from tidetable.expiry import (
    AGAIN,
    MARKS_AWAITED,
    compute_closing,
    compute_deletion,
    compute_entry_expiry,
    is_closed,
    is_due_at_close,
    is_expired,
)
from tidetable.ladder import RAISED, Level, choose_level, find_next_decrease, is_past
from tidetable.lifecycle.observe import Observed
from tidetable.lifecycle.premake import find_missing_periods, find_opening
from tidetable.names import name_table
from tidetable.period_tables import make_table_tags, passes
from tidetable.ports import Table
from tidetable.table_specs import make_table_spec
from tidetable.times import to_text
from tidetable.upkeep import actions

# A table is made in seconds. If its KMS key is lost meanwhile, DynamoDB gives the table up after an hour (measured).
CREATION_MOST = timedelta(minutes=30)


def plan(config: Config, stage: str, now: datetime, observed: Mapping[str, Observed]) -> list[actions.Action]:
    """Plan the actions at an instant, in their order: create, raise, lower, close, archive, delete."""
    plans = [_StreamPlan(config, stage, config.streams[name], now, view) for name, view in observed.items()]
    planned = [action for stream_plan in plans for action in stream_plan.list_actions()]
    planned.sort(key=lambda action: (action.rank, action.entry.period.start))
    return list(_cap_deletions(planned, config.lifecycle.max_deletes))


def _cap_deletions(planned: Iterable[actions.Action], most: int) -> Iterator[actions.Action]:
    """Limit the deletions to ``most`` per run, the oldest periods first. The other deletions wait for later runs."""
    deletions = 0
    for action in planned:
        deletes = isinstance(action, actions.Delete | DeleteCopy)
        deletions += deletes
        if deletes and deletions > most:
            why = f"its deletion is left to a later run: lifecycle.max_deletes allows {most} in one"
            yield actions.Deferred(action.entry, why)
        else:
            yield action


@dataclass(frozen=True, slots=True)
class _StreamPlan:
    """The plan for the tables of one stream."""

    config: Config
    stage: str
    stream: Stream
    now: datetime
    observed: Observed

    def list_actions(self) -> Iterator[actions.Action]:
        stream, now, observed = self.stream, self.now, self.observed
        configured = observed.removed is None
        missing = find_missing_periods(stream, now, observed.entries, observed.backfills) if configured else []
        for period, opened in missing:
            table = name_table(self.stage, stream.name, period)
            entry = Entry(stream.name, period, table, stream.layout, State.CREATING, now, opened=opened)
            asked = opened is not None and is_closed(period, stream, now)
            why = "a backfill asks for it" if asked else "it meets the writable window or is among the next periods"
            yield self._plan_creation(record_regions(entry, stream), why)
        for entry in observed.entries:
            for reopening in self._plan_reopening(entry):
                yield reopening
                # Below, the period counts as open: it gets the backfill's units, and is not closed or archived.
                if isinstance(reopening, actions.Reopen):
                    entry = replace(entry, state=reopening.state, opened=reopening.opened)
            table_now = observed.tables.get(entry.table)
            if entry.table in observed.unseen:
                yield actions.Unseen(entry, observed.unseen[entry.table])
            elif entry.state is State.CREATING and table_now is None:
                yield self._plan_creation(entry, "its creation was begun but there is no table yet")
            elif entry.live and table_now is None and self._is_given_up(entry):
                # A run ended between the deletion of the table and its record. The table had expired, so it is not
                # lost.
                yield from self._plan_ending(entry, marked=False)
            elif entry.live and table_now is None:
                why = f"the catalog says {entry.state}, but there is no such table; see the runbook"
                yield actions.Lost(entry, why)
            elif entry.live or entry.state is State.ARCHIVED:
                changes = self._plan_changes(entry, table_now)
                yield from fit_copies(changes, entry, stream, table_now, now, makes=configured)

    def _plan_creation(self, entry: Entry, reason: str) -> actions.Create:
        stream, now = self.stream, self.now
        level = choose_level(entry, stream, now, self.config.lifecycle.stagger)
        # A table that is made after its period gets only late events, so it need not be warm.
        young = not is_past(entry.period, stream, now)
        tags = make_table_tags(self.stage, stream.name, entry.period.label)
        spec = make_table_spec(entry, stream, level, tags, young=young)
        return actions.Create(entry, reason, spec, stream.table.point_in_time_recovery)

    def _plan_reopening(self, entry: Entry) -> Iterator[actions.Action]:
        """Plan a backfill's actions for a recorded period. A present period takes events before the window meanwhile."""
        opened = find_opening(entry.period, self.observed.backfills)
        if opened is None:
            return
        if entry.opened == opened and entry.state not in FENCED:
            return
        until = f"a backfill asks for it until {to_text(opened.until)}"
        if entry.writable:
            yield actions.Reopen(entry, until, opened)
        else:
            yield actions.Deferred(entry, f"{until}, but it is {entry.state}: restore it first")

    def _plan_changes(self, entry: Entry, table: Table | None) -> Iterator[actions.Action]:
        """Plan the actions for a period that has its table."""
        stream, now, observed = self.stream, self.now, self.observed
        closes = is_closed(entry.period, stream, now) and entry.state in OPENING and not entry.is_open(now)
        marked = entry.table in observed.marked
        expired = is_expired(entry, stream, now)
        ending = list(self._plan_ending(entry, marked=marked) if expired else self._plan_retaining(entry))
        stuck = _find_stuck(entry, table, now)
        if stuck is not None:
            # Actions that change only the catalog are still planned. A deletion is planned, too: DynamoDB deletes a
            # table in such a state.
            yield stuck
            ending = [action for action in ending if not isinstance(action, actions.Archive)]
        elif table is not None:
            yield from self._plan_settings(entry, table, ends=expired and bool(ending))
        if closes:
            yield _plan_closing(entry, stream)
        yield from ending

    def _plan_settings(self, entry: Entry, table: Table, *, ends: bool) -> Iterator[actions.Action]:
        """Plan the opening of a table, and the changes of its capacity, its class and its scaling."""
        if entry.state is State.CREATING and len(entry.tables) > 1:
            # Only another attempt to create the table beside it shows if that table exists, too.
            yield self._plan_creation(entry, "its creation was begun")
        elif entry.state is State.CREATING and table.status == "ACTIVE":
            recoverable = self.stream.table.point_in_time_recovery
            yield actions.Open(entry, "its table has become active", recoverable)
        level = choose_level(entry, self.stream, self.now, self.config.lifecycle.stagger)
        # A table that is archived or deleted in this run needs no other capacity, except for its export.
        if not ends or level.reason == RAISED:
            yield from _plan_level(entry, table, level, self.now)
        yield from _plan_scaling(entry, level)

    def _plan_ending(self, entry: Entry, *, marked: bool) -> Iterator[actions.Action]:
        """Archive or delete an expired table. Deletion has its own switch (``delete_expired``) and a grace period.

        A table without an archive waits for the rollups whose buckets are ``marked``: only its events can correct them.
        """
        expiry = compute_entry_expiry(entry, self.stream)
        since = f"expired at {to_text(expiry)}"
        policy = self.config.lifecycle
        if self.stream.on_expiry == "delete":
            if policy.delete_expired and marked and self.now < expiry + MARKS_AWAITED:
                until = to_text(expiry + MARKS_AWAITED)
                why = f"its deletion waits until {until} at most: {self.observed.marked[entry.table]}"
                yield actions.Deferred(entry, why)
            elif policy.delete_expired:
                why = f"{since}; its stream says on_expiry = delete"
                why += f"; {self.observed.marked[entry.table]}, for longer than a day" if marked else ""
                yield actions.Delete(entry, why, unarchived=True, marked=marked)
            return
        archived = entry.archive if entry.state is State.ARCHIVED else None
        if archived is None:
            yield actions.Archive(entry, since)
        grace_over = compute_deletion(archived, policy) <= self.now if archived is not None else not policy.delete_grace
        if policy.delete_expired and grace_over:
            yield actions.Delete(entry, f"{since}; once its archive is verified", unarchived=False)

    def _plan_retaining(self, entry: Entry) -> Iterator[actions.Action]:
        """Archive a closed table that answers on until it expires; and its segments again that got a write since then."""
        facts, marked = entry.archive, len(entry.marks.numbers)
        if is_due_at_close(entry, self.stream, self.now):
            yield actions.Archive(entry, "it has closed; its stream says archive_at = close", retain=True)
        elif entry.state is not State.RETAINED or entry.is_retained or facts is None:
            return
        elif not entry.has_all_segments or self.now >= facts.at + AGAIN:
            yield actions.Archive(entry, f"writes came after its archive, into {marked} segments", retain=True)

    def _is_given_up(self, entry: Entry) -> bool:
        """True if the policy says that the entry's table will be deleted without an archive."""
        deletes = self.stream.on_expiry == "delete" and self.config.lifecycle.delete_expired
        return deletes and is_expired(entry, self.stream, self.now)


def _plan_closing(entry: Entry, stream: Stream) -> actions.Close:
    """Plan the closing of a period; the reason is the end of a backfill or of the window, whichever came later."""
    end = compute_closing(entry.period, stream)
    if entry.opened is not None and entry.opened.until > end:
        return actions.Close(entry, f"it was open for a backfill until {to_text(entry.opened.until)}")
    return actions.Close(entry, f"its events could arrive until {to_text(end)}")


def _find_stuck(entry: Entry, table: Table | None, now: datetime) -> actions.Stuck | None:
    """Find out if every change of a table would wait in vain: its state or its creation does not end."""
    if table is None:
        return None
    if not passes(table.status):
        return actions.Stuck(
            entry, f"table {table.name} is {table.status}; see the runbook, *Tables that cannot be used*"
        )
    if table.status == "CREATING" and now > entry.created_at + CREATION_MOST:
        return actions.Stuck(
            entry, f"table {table.name} is CREATING since {to_text(entry.created_at)}; see the runbook"
        )
    return None


def _plan_scaling(entry: Entry, level: Level) -> Iterator[actions.Action]:
    """Plan auto scaling: it begins when the table gets the units of an open table, and ends when they are lowered."""
    if entry.capacity.scaled and level.scaling is None:
        yield actions.Unscale(entry, level.reason)
    if level.scaling is not None and entry.state is State.OPEN and entry.capacity.policy != level.scaling.text:
        yield actions.Scale(entry, level.reason, level.scaling)


def _plan_level(entry: Entry, table: Table, level: Level, now: datetime) -> Iterator[actions.Action]:
    """Plan the changes of capacity and of class as two actions: UpdateTable changes one of them at a time."""
    # If the table had the right settings when it was last seen, somebody has changed it by hand.
    put_back = entry.capacity.seen is not None and level.suits(entry.capacity.seen)
    why = f"changed by hand, put back; {level.reason}" if put_back else level.reason
    changes = [((table.write, table.read), level.units((table.write, table.read)))]
    if level.write is not None:
        changes += [(current, level.choose_index_units(name, current)) for name, current in table.index_units.items()]
    changes = [(current, target) for current, target in changes if current != target]
    if changes:
        lowers = any(
            before is not None and after is not None and after < before
            for current, target in changes
            for before, after in zip(current, target, strict=True)
        )
        until = find_next_decrease(table, now) if lowers else None
        units = _describe_units(level)
        if until is not None:
            used = f"{table.decreases_today} decreases used today"
            yield actions.Deferred(entry, f"capacity {units} deferred until {to_text(until)}: {used}")
        else:
            yield actions.SetCapacity(entry, f"{_describe_units(table)} to {units}; {why}", level, lowers)
    elif level.caps(table):
        yield actions.SetCapacity(entry, f"maxima {level.most or 'none'}; {why}", level)
    if level.choose_class(table.table_class) is not table.table_class:
        yield actions.SetClass(entry, f"{table.table_class} to {level.table_class}; {why}", level.table_class)


def _describe_units(level: Level | Table) -> str:
    return "on-demand" if level.write is None else f"{level.write}/{level.read}"
