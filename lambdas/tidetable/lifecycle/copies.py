"""The rules for copies in other Regions: when to make or delete them, and when a table's other changes must wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from tidetable.catalog import Entry, State
from tidetable.config import Stream
from tidetable.expiry import is_expired
from tidetable.ladder import choose_level
from tidetable.lifecycle import actions
from tidetable.period_tables import describe_changing_copies, list_own_copies, passes
from tidetable.ports import Table
from tidetable.times import to_text

# Measured: a copy that was begun is listed about 7 s later, in one case 149 s later. A deleted copy keeps its name for
# about 35 s after it is no longer listed. After this time "not listed" means "not made". Runs are five minutes apart.
LISTED = timedelta(minutes=4)
# A copy of an empty table takes a minute, a copy of a table with items takes 11 minutes or more. If a copy was begun
# and is not listed after this time, DynamoDB has given up every attempt.
COPIED_MOST = timedelta(hours=2)
ACTIVE = "ACTIVE"


def has_copies_made(entry: Entry, stream: Stream, now: datetime) -> bool:
    """True if the entry's table gets copies: it has not expired, and its period was never archived."""
    has_first_table = entry.writable and entry.archive is None
    return has_first_table and not is_expired(entry, stream, now)


def lacks_copies(entry: Entry, stream: Stream) -> bool:
    """True if a copy that the entry's table should have is missing in the catalog."""
    wanted = set(entry.replicas) & set(stream.replicas)
    return entry.live and entry.archive is None and not wanted <= set(entry.copies)


def is_ending(entry: Entry, stream: Stream, now: datetime) -> bool:
    """True if the entry's table will now be archived or deleted, or waits for its deletion."""
    return entry.state is State.ARCHIVED or is_expired(entry, stream, now)


def find_copies_to_mark(entry: Entry, stream: Stream, table: Table, now: datetime) -> tuple[str, ...]:
    """Find the Regions with an ACTIVE copy, for the catalog. None is added for a table that is to be deleted."""
    active = [region for region in entry.replicas if table.copies.get(region) == ACTIVE]
    ending = is_ending(entry, stream, now)
    return tuple(region for region in active if not ending or region in entry.copies)


def fit_copies(
    planned: Iterable[actions.Action],
    entry: Entry,
    stream: Stream,
    table: Table | None,
    now: datetime,
    *,
    makes: bool,
) -> Iterator[actions.Action]:
    """Fit a table's actions to its copies, and add the actions for the copies. Without ``makes`` no copy is begun."""
    planned = list(planned)
    if table is None or not (entry.replicas or table.copies):
        yield from planned
        return
    changing = describe_changing_copies(table)
    for action in planned:
        if isinstance(action, actions.SetCapacity | actions.SetClass | actions.Delete) and changing:
            yield actions.Deferred(entry, f"{action.name} waits for a copy: {changing}")
        elif isinstance(action, actions.Delete) and list_own_copies(entry, table):
            regions = ", ".join(list_own_copies(entry, table))
            yield actions.DeleteCopy(entry, f"{action.reason}; its copies go first: {regions}", action.unarchived)
        else:
            yield action
    missing = _find_missing(entry, stream, table) if makes and has_copies_made(entry, stream, now) else []
    yield from _find_troubles(entry, table, missing, now)
    changed = any(isinstance(action, actions.SetCapacity | actions.SetClass | actions.Stuck) for action in planned)
    if missing and not changing and not changed:
        yield from _plan_copy(entry, stream, table, missing, now)


def _plan_copy(
    entry: Entry, stream: Stream, table: Table, missing: Sequence[str], now: datetime
) -> Iterator[actions.Action]:
    """Plan the next missing copy. The Region whose copy was begun last comes after the other Regions."""
    if table.status != ACTIVE or entry.state is State.CREATING:
        return
    if not table.on_demand:
        scaling = choose_level(entry, stream, now).scaling
        if scaling is None or entry.scaling != scaling.text:
            # AWS: the table's writes must be scaled before it gets a copy. This run begins the scaling.
            return
    last, begun_at = entry.copying or ("", None)
    if begun_at is not None and now < begun_at + LISTED:
        yield actions.Deferred(entry, f"its copy in {last} was begun at {to_text(begun_at)}, and may not be listed yet")
        return
    region = min(missing, key=lambda region: region == last)
    yield actions.Copy(entry, f"replicas names {region}", region)


def _find_troubles(entry: Entry, table: Table, missing: Sequence[str], now: datetime) -> Iterator[actions.CopyTrouble]:
    for region in list_own_copies(entry, table):
        status = table.copies[region]
        if not passes(status):
            why = f"the copy of {table.name} in {region} is {status}; see the runbook, *Copies in other Regions*"
            yield actions.CopyTrouble(entry, why)
    begun_region = entry.copying[0] if entry.copying else ""
    if begun_region in missing and now >= entry.created_at + COPIED_MOST and not describe_changing_copies(table):
        why = f"table {table.name} has no copy in {begun_region} since {to_text(entry.created_at)}"
        yield actions.CopyTrouble(entry, f"{why}; see the runbook, *Copies in other Regions*")


def _find_missing(entry: Entry, stream: Stream, table: Table) -> list[str]:
    """Find the Regions where a copy is missing, without Regions that the configuration no longer names."""
    return [region for region in entry.replicas if region in stream.replicas and region not in table.copies]
