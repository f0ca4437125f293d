"""Observe the catalog's entries and their tables. An entry or a table that cannot be read is reported, and does not
stop the observation of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from hashlib import sha256

from tidetable.catalog import Backfill, Entry, Horizon, State
from tidetable.catalog_steps import read_kept_entries
from tidetable.config import Config, Stream
from tidetable.copies.table_copies import mark_copies, needs_look
from tidetable.errors import NotReady, describe_error, note_trouble
from tidetable.ladder import choose_level
from tidetable.leases import RUN_SECONDS
from tidetable.lifecycle.marked import find_marked_tables
from tidetable.periods import LONGEST
from tidetable.ports import Catalog, Table, Tables
from tidetable.run_streams import RunStreams, find_run_streams
from tidetable.upkeep.run import CONCURRENCY, LifecycleRun
from tidetable.window import Window

# The number of runs in which every table is described once.
LOOK_EVERY = 12


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed state of a stream: the catalog's entries, oldest first, and the tables that exist, by name.

    A table that needs no change is listed in its last known state. ``unseen`` has the tables that could not be
    described, with the reasons, ``backfills`` has the backfills under way. ``removed`` is the time since which the
    stream is no longer configured. ``marked`` has the expired tables whose events rollups may still need, with the
    reasons. The entries are those of the ``horizon``, of its far periods, of the window and of the backfills.
    """

    entries: Sequence[Entry]
    tables: Mapping[str, Table]
    unseen: Mapping[str, str] = field(default_factory=dict)
    backfills: Sequence[Backfill] = ()
    removed: datetime | None = None
    marked: Mapping[str, str] = field(default_factory=dict)
    horizon: Horizon = field(default_factory=Horizon)

    @property
    def table_names(self) -> set[str]:
        """The names of all tables that exist, with the tables beside period tables and the tables in ``unseen``."""
        existing = {**self.tables, **self.unseen}
        return {name for entry in self.entries if entry.table in existing for name in entry.tables}


@dataclass(slots=True)
class Observation:
    """The observed streams, the ``known`` configuration, and the ``troubles``: why streams were not observed."""

    known: RunStreams
    streams: dict[str, Observed] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)

    @property
    def config(self) -> Config:
        """The configuration with the policies of removed streams."""
        return self.known.config

    def list_tables(self) -> Iterator[tuple[Entry, Table]]:
        """List the period tables that exist, with their entries."""
        for observed in self.streams.values():
            for entry in observed.entries:
                if entry.table in observed.tables:
                    yield entry, observed.tables[entry.table]


def observe(run: LifecycleRun, now: datetime, planned: Sequence[Backfill] = (), only: str | None = None) -> Observation:
    """Observe all streams, or ``only`` one, from the oldest table on. ``planned`` backfills replace requested ones."""
    catalog = run.catalog
    known = find_run_streams(run.config, catalog, now)
    config = known.config
    observation = Observation(known, troubles=known.troubles)
    entries: dict[str, Sequence[Entry]] = {}
    backfills: dict[str, list[Backfill]] = {}
    requests: Sequence[Backfill] = ()
    horizons: Mapping[str, Horizon] | None = None
    with note_trouble("the backfills and horizons could not be read", observation.troubles):
        requests, horizons = [*catalog.list_backfills(), *planned], catalog.list_horizons()
    for name, stream in config.streams.items():
        # Without backfills the plan would close the tables that they have opened.
        if only not in (None, name) or horizons is None:
            continue
        # An error must not end the run: the next tables of the other streams must be made.
        with note_trouble(f"the catalog could not be read for {name}", observation.troubles):
            backfills[name] = [] if name in known.removed else _find_backfills(name, requests, now)
            horizon = horizons.get(name, Horizon())
            entries[name] = read_stream_entries(stream, catalog, horizon, now, backfills[name])
    with run.pools(CONCURRENCY) as pool:
        for name, stream_entries in entries.items():
            existing = [entry for entry in stream_entries if entry.state is not State.DELETED]
            names = [entry.table for entry in existing if _needs_look(entry, config, now)]
            attempts = dict(zip(names, pool.map(partial(_describe_table, run.tables), names), strict=True))
            remembered_tables = {entry.table: _derive_table(entry) for entry in existing if entry.table not in attempts}
            observation.streams[name] = Observed(
                stream_entries,
                {name: table for name, table in (remembered_tables | attempts).items() if isinstance(table, Table)},
                {name: table for name, table in attempts.items() if isinstance(table, str)},
                backfills[name],
                known.removed.get(name),
                # No refresher works for a removed stream.
                {} if name in known.removed else find_marked_tables(existing, config, run, now, observation.troubles),
                (horizons or {}).get(name, Horizon()),
            )
    return observation


def _find_backfills(stream: str, requests: Iterable[Backfill], now: datetime) -> list[Backfill]:
    """Find the open backfills of a stream, oldest first. Of two with the same start and end, the last holds."""
    own = {(backfill.start, backfill.end): backfill for backfill in requests if backfill.stream == stream}
    return [backfill for _, backfill in sorted(own.items()) if backfill.is_open(now)]


def remember_tables(catalog: Catalog, observation: Observation) -> None:
    """Record the units and the class of each table that this run has described, if the catalog has other values."""
    for entry, table in observation.list_tables():
        if table.seen is not None and table.seen != entry.capacity.seen:
            what = f"the state of {entry.table} could not be recorded for {entry.stream}"
            # If this fails, a later run looks at the table again.
            with note_trouble(what, observation.troubles):
                catalog.note(entry, table.seen)


def remember_copies(catalog: Catalog, tables: Tables, observation: Observation, now: datetime) -> None:
    """Record in the catalog which copies in other Regions can be read, if that has changed.

    Call it before the actions: a copy that an action removes must not be marked again.
    """
    for entry, table in observation.list_tables():
        what = f"the copies of {entry.table} could not be tagged and marked for {entry.stream}"
        # If a new copy or its tags cannot be seen yet, the next run goes on.
        with note_trouble(what, observation.troubles), suppress(NotReady):
            mark_copies(catalog, tables, entry, observation.config.streams[entry.stream], table, now)


def remember_horizons(catalog: Catalog, observation: Observation, now: datetime) -> None:
    """Move each stream's horizon behind the last deleted period before its window, and note as far the periods before it
    that are not deleted.

    Periods that are recorded or restored meanwhile are noted as far by those who do it, or lie behind the horizon: their
    end was not over, and no table expires within ``SETTLE`` after the end of its window.
    """
    for name, observed in observation.streams.items():
        at, far = observed.horizon
        oldest = Window.of(observation.config.streams[name], now).oldest
        gone = [entry for entry in observed.entries if entry.state is State.DELETED]
        ends = [entry.period.end for entry in gone if entry.period.end <= oldest]
        with note_trouble(f"the horizon of {name} could not be noted", observation.troubles):
            for entry in gone:
                # A former version has deleted its table.
                if entry.period in far:
                    catalog.move(entry, State.DELETED, expected=(State.DELETED,))
            if ends and (at is None or at < ends[-1]):
                for entry in observed.entries:
                    if entry.state is not State.DELETED and entry.period.start < ends[-1] and entry.period not in far:
                        catalog.note_far(entry)
                catalog.set_horizon(name, ends[-1])


def read_stream_entries(
    stream: Stream, catalog: Catalog, horizon: Horizon, now: datetime, backfills: Sequence[Backfill]
) -> Sequence[Entry]:
    """Read the entries of a stream from its horizon on and of its far periods, or all entries if its horizon is unknown.

    Entries of deleted tables stay in the catalog for ever. They are read where the window and the backfills are: no new
    period may overlap them.
    """
    window, longest = Window.of(stream, now), LONGEST[stream.period]
    spans = [(backfill.start - longest, backfill.end + longest) for backfill in backfills]
    return read_kept_entries(catalog, stream.name, horizon, [(window.oldest, window.newest), *spans])


def _needs_look(entry: Entry, config: Config, now: datetime) -> bool:
    """True if the run describes a table: the table is being made, should change, was changed, or has its turn.

    A table has its turn once in ``LOOK_EVERY`` runs, so a change or a deletion by hand is found within an hour.
    """
    if entry.capacity.seen is None or entry.capacity.seen.changing or entry.state is State.CREATING:
        return True
    stream = config.streams[entry.stream]
    if needs_look(entry, stream, now):
        return True
    level = choose_level(entry, stream, now, config.lifecycle.stagger)
    if entry.state is not State.RESTORING and not level.suits(entry.capacity.seen):
        return True
    turn = int(sha256(entry.table.encode()).hexdigest(), 16) % LOOK_EVERY
    return turn == int(now.timestamp()) // RUN_SECONDS % LOOK_EVERY


def _derive_table(entry: Entry) -> Table | None:
    if entry.capacity.seen is None:
        return None
    write, read, table_class, indexes, _ = entry.capacity.seen
    units, copies = dict(indexes), dict.fromkeys(entry.copies.active, "ACTIVE")
    return Table(entry.table, "ACTIVE", write, read, table_class, index_units=units, shows_maxima=False, copies=copies)


def _describe_table(tables: Tables, name: str) -> Table | str | None:
    try:
        return tables.describe(name)
    except Exception as error:  # whatever the error is, it does not show that the table is missing
        return describe_error(error)
