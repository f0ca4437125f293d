"""The copies of the tables of periods: when to make or delete them, and when a table's other changes must wait.

Every step may be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from tidetable.catalog import CopyFacts, Entry, State
from tidetable.catalog_steps import read_kept_entries
from tidetable.config import Config, Stream
from tidetable.copies.states import describe_changing_copies, list_own_copies, refuse_changing
from tidetable.errors import NotReady, TableUnusable
from tidetable.expiry import is_expired
from tidetable.ladder import choose_level
from tidetable.period_tables import list_names, passes
from tidetable.ports import Catalog, Table, Tables
from tidetable.times import to_text
from tidetable.upkeep import actions
from tidetable.upkeep.actions import Action, Finding
from tidetable.upkeep.run import LifecycleRun

# Measured: a copy that was begun is listed about 7 s later, in one case 149 s later. A deleted copy keeps its name for
# about 35 s after it is no longer listed. After this time "not listed" means "not made". Runs are five minutes apart.
LISTED = timedelta(minutes=4)
# A copy of an empty table takes a minute, a copy of a table with items takes 11 minutes or more. If a copy was begun
# and is not listed after this time, DynamoDB has given up every attempt.
COPIED_MOST = timedelta(hours=2)
ACTIVE = "ACTIVE"


@dataclass(frozen=True)
class Copy(Action, name="copy", rank=7):
    """Begin a copy in another Region. The table beside the period table is copied first."""

    region: str


@dataclass(frozen=True)
class DeleteCopy(Action, name="delete-copy", rank=11):
    """Begin the deletion of one copy of a table that is to be deleted. The conditions of ``Delete`` apply."""

    unarchived: bool


class CopyTrouble(Finding, name="copy-trouble", rank=16, outcome="failed"):
    """A copy in another Region is missing or unusable. An operator must act; the work on other tables goes on."""


def record_regions(entry: Entry, stream: Stream) -> Entry:
    """Return the entry of a new period with the Regions of its copies. They never change."""
    return replace(entry, copies=CopyFacts(stream.replicas))


def needs_look(entry: Entry, stream: Stream, now: datetime) -> bool:
    """True if each run must look at the entry's table, because its copies are made or deleted now."""
    return entry.copied and (lacks_copies(entry, stream) or is_ending(entry, stream, now))


def mark_copies(catalog: Catalog, tables: Tables, entry: Entry, stream: Stream, table: Table, now: datetime) -> None:
    """Record which copies are ACTIVE, if that has changed. A new copy gets the tags of its table first.

    NotReady if a new copy or its tags cannot be seen yet.
    """
    copies = find_copies_to_mark(entry, stream, table, now)
    new = [region for region in copies if region not in entry.copies.active]
    # DynamoDB does not copy tags.
    for name in list_names(entry) if new else ():
        tags = tables.tags(name)
        if not tags:
            raise NotReady(f"the tags of {name} cannot be seen yet")
        for region in new:
            tables.tag_copy(name, region, tags)
    if copies != entry.copies.active:
        catalog.mark_copies(entry, copies)


def find_lost_copies(config: Config, catalog: Catalog) -> Iterator[str]:
    """List the Regions in which tables have copies that the functions could no longer delete.

    AWS does not delete a table that has copies. So such tables would stay, and cost money, in all of their Regions.
    """
    if config.has_had_copies:
        return
    copied = [
        entry
        for record in catalog.list_policies()
        for entry in read_kept_entries(catalog, record.stream, catalog.read_horizon(record.stream))
        if entry.copies.active
    ]
    if copied:
        regions = sorted({region for entry in copied for region in entry.copies.active})
        yield (
            f"{len(copied)} tables have copies in {', '.join(regions)}, and the configuration names no Region any more: write"
            f" former_regions = {json.dumps(regions)} under [storage] until these tables are deleted"
        )


def has_copies_made(entry: Entry, stream: Stream, now: datetime) -> bool:
    """True if the entry's table gets copies: it has not expired, and was not restored."""
    return entry.writable and entry.keep_until is None and not is_expired(entry, stream, now)


def lacks_copies(entry: Entry, stream: Stream) -> bool:
    """True if a copy that the entry's table should have is missing in the catalog."""
    wanted = set(entry.copies.replicas) & set(stream.replicas)
    return entry.live and entry.keep_until is None and not wanted <= set(entry.copies.active)


def is_ending(entry: Entry, stream: Stream, now: datetime) -> bool:
    """True if the entry's table will now be archived or deleted, or waits for its deletion."""
    return entry.state is State.ARCHIVED or is_expired(entry, stream, now)


def find_copies_to_mark(entry: Entry, stream: Stream, table: Table, now: datetime) -> tuple[str, ...]:
    """Find the Regions with an ACTIVE copy, for the catalog. None is added for a table that is to be deleted."""
    active = [region for region in entry.copies.replicas if table.copies.get(region) == ACTIVE]
    ending = is_ending(entry, stream, now)
    return tuple(region for region in active if not ending or region in entry.copies.active)


def fit_copies(
    planned: Iterable[Action], entry: Entry, stream: Stream, table: Table | None, now: datetime, *, makes: bool
) -> Iterator[Action]:
    """Fit a table's actions to its copies, and add the actions for the copies. Without ``makes`` no copy is begun."""
    planned = list(planned)
    if table is None or not (entry.copied or table.copies):
        yield from planned
        return
    changing = describe_changing_copies(table)
    for action in planned:
        if isinstance(action, actions.SetCapacity | actions.SetClass | actions.Delete) and changing:
            yield actions.Deferred(entry, f"{action.name} waits for a copy: {changing}")
        elif isinstance(action, actions.Delete) and list_own_copies(entry, table):
            regions = ", ".join(list_own_copies(entry, table))
            yield DeleteCopy(entry, f"{action.reason}; its copies go first: {regions}", action.unarchived)
        else:
            yield action
    missing = _find_missing(entry, stream, table) if makes and has_copies_made(entry, stream, now) else []
    yield from _find_troubles(entry, table, missing, now)
    changed = any(isinstance(action, actions.SetCapacity | actions.SetClass | actions.Stuck) for action in planned)
    if missing and not changing and not changed:
        yield from _plan_copy(entry, stream, table, missing, now)


def _plan_copy(entry: Entry, stream: Stream, table: Table, missing: Sequence[str], now: datetime) -> Iterator[Action]:
    """Plan the next missing copy. The Region whose copy was begun last comes after the other Regions."""
    if table.status != ACTIVE or entry.state is State.CREATING:
        return
    if not table.on_demand:
        scaling = choose_level(entry, stream, now).scaling
        if scaling is None or entry.capacity.policy != scaling.text:
            # AWS: the table's writes must be scaled before it gets a copy. This run begins the scaling.
            return
    last, begun_at = entry.copies.begun or ("", None)
    if begun_at is not None and now < begun_at + LISTED:
        yield actions.Deferred(entry, f"its copy in {last} was begun at {to_text(begun_at)}, and may not be listed yet")
        return
    region = min(missing, key=lambda region: region == last)
    yield Copy(entry, f"replicas names {region}", region)


def _find_troubles(entry: Entry, table: Table, missing: Sequence[str], now: datetime) -> Iterator[CopyTrouble]:
    runbook = "see the runbook, *Copies in other Regions*"
    for region in list_own_copies(entry, table):
        if not passes(table.copies[region]):
            yield CopyTrouble(entry, f"the copy of {table.name} in {region} is {table.copies[region]}; {runbook}")
    begun_region = entry.copies.begun[0] if entry.copies.begun else ""
    if begun_region in missing and now >= entry.created_at + COPIED_MOST and not describe_changing_copies(table):
        why = f"table {table.name} has no copy in {begun_region} since {to_text(entry.created_at)}"
        yield CopyTrouble(entry, f"{why}; {runbook}")


def _find_missing(entry: Entry, stream: Stream, table: Table) -> list[str]:
    """Find the Regions where a copy is missing, without Regions that the configuration no longer names."""
    return [region for region in entry.copies.replicas if region in stream.replicas and region not in table.copies]


def begin_copy(action: Copy, run: LifecycleRun) -> None:
    """Begin the next copy that is missing in the Region. The table beside the period table is copied first."""
    entry, region, tables = action.entry, action.region, run.make_period_tables()
    for name in list_names(entry):
        table = tables.find_owned(entry, name)
        status = table.copies.get(region)
        refuse_changing(table)
        if status is None:
            # The mark comes first: a copy that was begun is not listed for some seconds, and must not be begun again
            # meanwhile.
            run.catalog.mark_copying(entry, region, run.clock.now())
            run.tables.create_copy(name, region)
            return
        if not passes(status):
            raise TableUnusable(name, f"{status} in {region}")
