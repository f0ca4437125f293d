"""The present state of every stream's tables: a row per period."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from math import ceil
from typing import Any

import msgspec

from tidetable.bill.consumed import ConsumedUnits
from tidetable.bill.prices import GB, HOURS, ON_DEMAND, STORAGE
from tidetable.bill.tables import Bill, price_copies, price_table_hour
from tidetable.catalog import Entry, State
from tidetable.config import Stream
from tidetable.late import find_lowered_tables
from tidetable.lifecycle.expiry import is_closed
from tidetable.lifecycle.ladder import Level, compute_age
from tidetable.ports import Catalog, Pools, Table, Tables
from tidetable.times import to_text

_CONCURRENCY = 16
_MARKS = {
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
    """A period with its table and, if it has one, the table of chunks beside it.

    ``dollars`` is the price for a month, with indexes and copies. Provisioned tables count their present units.
    On-demand tables count the consumed units of the last 30 days: ``taken_write`` and ``taken_read`` (None if unknown).
    Storage counts the size of up to six hours ago. ``late`` is True for an open table that is lowered for late events.
    ``backfill_until`` is the end of the table's backfill, ``removed_since`` the time at which the stream left the
    configuration.
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
        """Return the row as JSON."""
        return asdict(self)

    @property
    def shown_age(self) -> str:
        """The age of the table's step in the ladder, as text: 0 until the table closes, 1 from then on, 2 one period
        later; or late.
        """
        return "late" if self.late else str(self.age)

    @property
    def shown_state(self) -> str:
        """The state and, during a backfill, its end."""
        until = self.backfill_until
        return self.state if until is None else f"{self.state} for a backfill until {until[:16]}Z"


class ObservedPeriod(msgspec.Struct, frozen=True):
    """A period, its existing tables by their names, and its stream's policy."""

    entry: Entry
    stream: Stream
    tables: dict[str, Table]
    removed: datetime | None = None

    @property
    def on_demand(self) -> dict[str, list[str]]:
        """The names of the period's on-demand tables, each with the names of its indexes."""
        indexes = [index.name for index in self.entry.layout.global_indexes]
        on_demand = [name for name, table in self.tables.items() if table.on_demand]
        return {name: indexes if name == self.entry.table else [] for name in on_demand}


def observe_periods(
    stream: Stream,
    catalog: Catalog,
    tables: Tables,
    pools: Pools,
    *,
    all_periods: bool,
    removed: datetime | None = None,
) -> list[ObservedPeriod]:
    """Read the stream's periods, newest first; deleted periods only if ``all_periods``."""
    # All periods before the horizon are deleted. After some years there are very many of them, so they are not read.
    start = None if all_periods else catalog.horizon(stream.name)
    entries = [
        entry for entry in catalog.entries(stream.name, start) if all_periods or entry.state is not State.DELETED
    ]
    return describe_entries(entries, stream, tables.describe, pools, removed)[::-1]


def describe_entries(
    entries: Sequence[Entry],
    stream: Stream,
    describe: Callable[[str], Table | None],
    pools: Pools,
    removed: datetime | None = None,
) -> list[ObservedPeriod]:
    """Return the periods of these entries with their tables, in the same order."""
    names = [name for entry in entries if entry.state is not State.DELETED for name in entry.tables]
    with pools(_CONCURRENCY) as pool:
        described = dict(zip(names, pool.map(describe, names), strict=True))
    existing = {name: table for name, table in described.items() if table is not None}
    return [
        ObservedPeriod(entry, stream, {name: existing[name] for name in entry.tables if name in existing}, removed)
        for entry in entries
    ]


def make_row(period: ObservedPeriod, now: datetime, consumed: Mapping[tuple[str, str], ConsumedUnits] | None) -> Row:
    """Return the row of a period; ``consumed`` is None if the consumed units are unknown."""
    entry, stream = period.entry, period.stream
    table = period.tables.get(entry.table)
    missing = table is None and entry.state not in (State.DELETED, State.ARCHIVED)
    units = (
        [
            consumed.get((name, index), ConsumedUnits())
            for name, names in period.on_demand.items()
            for index in ("", *names)
        ]
        if consumed
        else []
    )
    known = consumed is not None and bool(period.on_demand)
    return Row(
        stream=entry.stream,
        period=entry.period.label,
        state="LOST" if missing else entry.state.value,
        age=compute_age(entry.period, stream, now),
        write=table.write if table is not None else None,
        read=table.read if table is not None else None,
        table_class=table.table_class.value if table is not None else None,
        items=table.item_count if table is not None else None,
        bytes=sum(_count_bytes(stored) for stored in period.tables.values()) if table is not None else None,
        archived_events=entry.archive.events if entry.archive is not None else None,
        dollars=compute_bill(period, consumed or {}).total,
        ahead=entry.period.start > now + stream.ahead,
        late=entry.table in find_lowered_tables(stream, [entry], now) and not is_closed(entry.period, stream, now),
        taken_write=sum(resource.write for resource in units) if known else None,
        taken_read=sum(resource.read for resource in units) if known else None,
        backfill_until=to_text(entry.opened.until) if entry.opened is not None and entry.is_open(now) else None,
        removed_since=to_text(period.removed) if period.removed is not None else None,
    )


def mark_period(row: Row) -> tuple[str, str]:
    """Return a period's mark in a stream's timeline: a character and its colour."""
    if row.state == "open" and row.ahead:
        return ".", "cyan"
    return _MARKS.get("late" if row.state == "open" and row.late else row.state, ("?", ""))


def _count_bytes(table: Table) -> int:
    """Compute the stored bytes of a table and its indexes, which DynamoDB counts separately."""
    return table.size_bytes + sum(size for _, size in table.index_sizes.values())


def compute_bill(period: ObservedPeriod, consumed: Mapping[tuple[str, str], ConsumedUnits]) -> Bill:
    """Return the monthly bill of a period's tables: storage, and provisioned units or, on demand, consumed units.

    A copy has the units, the class, the size and the writes of its table. The number of queries to a copy is not known
    here.
    """
    whole = Bill()
    for name, table in period.tables.items():
        own = _compute_table_bill(table, name, period, consumed)
        copied = replace(own, table_reads=0.0, index_reads=0.0) if table.on_demand else own
        written = consumed.get((name, ""), ConsumedUnits()).write
        whole += own + price_copies(copied, len(period.entry.copies), written * _estimate_bytes_per_unit(table))
    return whole


def _estimate_bytes_per_unit(table: Table) -> float:
    """Return the average bytes per write unit; 1,024 if DynamoDB has not counted the table yet."""
    if not table.item_count or not table.size_bytes:
        return 1024.0
    item = table.size_bytes / table.item_count
    return item / ceil(item / 1024)


def _compute_table_bill(
    table: Table, name: str, period: ObservedPeriod, consumed: Mapping[tuple[str, str], ConsumedUnits]
) -> Bill:
    gb_month = STORAGE[table.table_class] / GB
    storage = table.size_bytes * gb_month, sum(size for _, size in table.index_sizes.values()) * gb_month
    if table.on_demand:
        write, read = (price / 1e6 for price in ON_DEMAND[table.table_class])
        own = consumed.get((name, ""), ConsumedUnits())
        indexes = [consumed.get((name, index), ConsumedUnits()) for index in period.on_demand[name]]
        index_writes, index_reads = sum(index.write for index in indexes), sum(index.read for index in indexes)
        return Bill(
            own.write * write, own.read * read, storage[0], index_writes * write, index_reads * read, storage[1]
        )
    writes, reads = price_table_hour(Level(table.write, table.read, table.table_class, ""))
    hours = [price_table_hour(Level(*units, table.table_class, "")) for units in table.index_units.values()]
    index_writes, index_reads = sum(units[0] for units in hours), sum(units[1] for units in hours)
    return Bill(writes * HOURS, reads * HOURS, storage[0], index_writes * HOURS, index_reads * HOURS, storage[1])
