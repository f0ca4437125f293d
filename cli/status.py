"""Every stream's tables as they are: one row a period."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from cli.bill import GB, HOURS, ON_DEMAND, STORAGE, table_hour
from cli.metrics import Taken
from tidetable.catalog import Entry, State
from tidetable.config import Stream
from tidetable.late import lowered_tables
from tidetable.lifecycle.expiry import is_closed
from tidetable.lifecycle.ladder import Level, age_of
from tidetable.ports import Catalog, Pools, Table, Tables
from tidetable.times import to_text

_CONCURRENCY = 16
_STRIP = {
    "creating": (".", "yellow"),
    "open": ("#", "green"),
    "late": ("+", "green"),
    "closed": ("=", "blue"),
    "archiving": (">", "yellow"),
    "restoring": (">", "yellow"),
    "archived": ("a", "magenta"),
    "deleted": ("-", "dim"),
    "LOST": ("!", "bold red"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A period's table, and the table beside it if it has that.

    ``dollars`` is its price for a month: provisioned units as they stand, units on demand as they were ``taken_write`` and
    ``taken_read`` in the last 30 days (None if that is not known), storage by its size of up to six hours ago; indexes count
    each time. ``late`` tells that the table is open and lowered for late events. ``backfill_until`` is the end of the backfill
    that it is open for, ``removed_since`` the time at which its stream left the configuration.
    """

    stream: str
    period: str
    state: str
    age: int
    write: int | None
    read: int | None
    table_class: str | None
    items: int | None
    bytes: int | None
    archived_events: int | None
    dollars: float
    ahead: bool = False
    taken_write: float | None = None
    taken_read: float | None = None
    late: bool = False
    backfill_until: str | None = None
    removed_since: str | None = None

    def document(self) -> dict[str, Any]:
        """The row as JSON."""
        return asdict(self)

    @property
    def shown_age(self) -> str:
        """The age of the ladder's step: whole periods since the table closed, or late."""
        return "late" if self.late else str(self.age)

    @property
    def shown_state(self) -> str:
        """The state, and until when it is open for a backfill."""
        until = self.backfill_until
        return self.state if until is None else f"{self.state} for a backfill until {until[:16]}Z"


@dataclass(frozen=True, slots=True)
class Seen:
    """A period, the tables of it that exist, by their names, and its stream's policy."""

    entry: Entry
    stream: Stream
    tables: dict[str, Table]
    removed: datetime | None = None

    @property
    def on_demand(self) -> dict[str, list[str]]:
        """The names of its on-demand tables, each with those of its indexes."""
        indexes = [one.name for one in self.entry.layout.indexes]
        return {name: indexes if name == self.entry.table else [] for name, one in self.tables.items() if one.on_demand}


def look(
    stream: Stream,
    catalog: Catalog,
    tables: Tables,
    pools: Pools,
    *,
    all_periods: bool,
    removed: datetime | None = None,
) -> list[Seen]:
    """The stream's periods, newest first; deleted periods only if ``all_periods``."""
    # Before the horizon there are only deleted periods, in a long life very many.
    start = None if all_periods else catalog.horizon(stream.name)
    found = [one for one in catalog.entries(stream.name, start) if all_periods or one.state is not State.DELETED]
    names = [name for one in found if one.state is not State.DELETED for name in one.tables]
    with pools(_CONCURRENCY) as pool:
        described = dict(zip(names, pool.map(tables.describe, names), strict=True))
    there = {name: table for name, table in described.items() if table is not None}
    return [
        Seen(one, stream, {name: there[name] for name in one.tables if name in there}, removed) for one in found[::-1]
    ]


def row_of(seen: Seen, now: datetime, taken: Mapping[tuple[str, str], Taken] | None) -> Row:
    """The period as it is shown; ``taken`` is None if nobody knows what tables took."""
    entry, stream = seen.entry, seen.stream
    table = seen.tables.get(entry.table)
    missing = table is None and entry.state not in (State.DELETED, State.ARCHIVED)
    units = (
        [taken.get((name, one), Taken()) for name, names in seen.on_demand.items() for one in ("", *names)]
        if taken
        else []
    )
    known = taken is not None and bool(seen.on_demand)
    return Row(
        stream=entry.stream,
        period=entry.period.label,
        state="LOST" if missing else entry.state.value,
        age=age_of(entry.period, stream, now),
        write=table.write if table is not None else None,
        read=table.read if table is not None else None,
        table_class=table.table_class.value if table is not None else None,
        items=table.item_count if table is not None else None,
        bytes=sum(_bytes(one) for one in seen.tables.values()) if table is not None else None,
        archived_events=entry.archive.events if entry.archive is not None else None,
        dollars=sum(_dollars(one, name, seen, taken or {}) for name, one in seen.tables.items()),
        ahead=entry.period.start > now + stream.ahead,
        late=entry.table in lowered_tables(stream, [entry], now) and not is_closed(entry.period, stream, now),
        taken_write=sum(one.write for one in units) if known else None,
        taken_read=sum(one.read for one in units) if known else None,
        backfill_until=to_text(entry.opened.until) if entry.opened is not None and entry.is_open(now) else None,
        removed_since=to_text(seen.removed) if seen.removed is not None else None,
    )


def strip(row: Row) -> tuple[str, str]:
    """A period in a stream's line of time: one character, and its colour."""
    if row.state == "open" and row.ahead:
        return ".", "cyan"
    return _STRIP.get("late" if row.state == "open" and row.late else row.state, ("?", ""))


def _bytes(table: Table) -> int:
    """What is stored: DynamoDB counts each index apart from its table."""
    return table.size_bytes + sum(size for _, size in table.index_sizes.values())


def _dollars(table: Table, name: str, seen: Seen, taken: Mapping[tuple[str, str], Taken]) -> float:
    storage = _bytes(table) / GB * STORAGE[table.table_class]
    if table.on_demand:
        write, read = ON_DEMAND[table.table_class]
        units = [taken.get((name, one), Taken()) for one in ("", *seen.on_demand[name])]
        return storage + sum(one.write * write + one.read * read for one in units) / 1e6
    held = [(table.write, table.read), *table.index_units.values()]
    return storage + sum(sum(table_hour(Level(write, read, table.table_class, ""))) for write, read in held) * HOURS
