"""Every stream's tables as they are: one row a period."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from cli.bill import GB, HOURS, STORAGE, table_hour
from tidetable.catalog import Entry, State
from tidetable.config import Stream, TableClass
from tidetable.lifecycle.ladder import Level, age_of
from tidetable.ports import Catalog, Table, Tables

_CONCURRENCY = 16
_STRIP = {
    "creating": (".", "yellow"),
    "open": ("#", "green"),
    "closed": ("=", "blue"),
    "archiving": (">", "yellow"),
    "restoring": (">", "yellow"),
    "archived": ("a", "magenta"),
    "deleted": ("-", "dim"),
    "LOST": ("!", "bold red"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A period's table. ``dollars`` is what it costs a month as it stands; storage by its size of up to six hours ago."""

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

    def document(self) -> dict[str, Any]:
        """The row as JSON."""
        return asdict(self)


def rows(stream: Stream, catalog: Catalog, tables: Tables, now: datetime, *, all_periods: bool) -> list[Row]:
    """The stream's periods, newest first; those that are deleted only if asked for."""
    found = [one for one in catalog.entries(stream.name) if all_periods or one.state is not State.DELETED]
    with ThreadPoolExecutor(_CONCURRENCY) as pool:
        described = pool.map(lambda one: tables.describe(one.table) if one.state is not State.DELETED else None, found)
        made = [_row(entry, table, stream, now) for entry, table in zip(found, described, strict=True)]
    return made[::-1]


def strip(row: Row) -> tuple[str, str]:
    """A period in a stream's line of time: one character, and its colour."""
    ahead = row.state == "open" and row.ahead
    return (".", "cyan") if ahead else _STRIP.get(row.state, ("?", ""))


def _row(entry: Entry, table: Table | None, stream: Stream, now: datetime) -> Row:
    live = table is not None and entry.state is not State.DELETED
    missing = not live and entry.state not in (State.DELETED, State.ARCHIVED)
    return Row(
        stream=entry.stream,
        period=entry.period.label,
        state="LOST" if missing else entry.state.value,
        age=age_of(entry.period, stream, now),
        write=table.write if table is not None else None,
        read=table.read if table is not None else None,
        table_class=table.table_class.value if table is not None else None,
        items=table.item_count if table is not None else None,
        bytes=table.size_bytes if table is not None else None,
        archived_events=entry.archive.events if entry.archive is not None else None,
        dollars=_dollars(table) if table is not None else 0.0,
        ahead=entry.period.start > now + stream.ahead,
    )


def _dollars(table: Table) -> float:
    held = [(table.write, table.read), *table.index_units.values()]
    units = sum(sum(table_hour(Level(write, read, table.table_class, ""))) for write, read in held)
    return units * HOURS + table.size_bytes / GB * STORAGE[TableClass(table.table_class)]
