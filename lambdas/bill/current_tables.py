"""The present state of every stream's tables: a row per period."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from math import ceil

import msgspec

from bill.amounts import Bill
from bill.consumed import Consumed, ConsumedUnits
from bill.copied import price_copies
from bill.extras import CommittedUnits
from bill.prices import HOURS, ON_DEMAND, PROVISIONED
from tidetable.catalog import Entry, State
from tidetable.catalog_steps import read_entries_in
from tidetable.config import Stream, TableClass
from tidetable.expiry import is_closed
from tidetable.ladder import compute_age
from tidetable.late import is_lowered
from tidetable.ports import Catalog, Pools, Table, Tables
from tidetable.times import to_text

_CONCURRENCY = 16
# The most periods of a page. 16 DescribeTables at a time take two seconds.
MAX_PERIODS = 1_000
_MARKS = {
    "creating": (".", "yellow"),
    "open": ("#", "green"),
    "late": ("+", "green"),
    "closed": ("=", "blue"),
    "retained": ("=", "magenta"),
    "archiving": (">", "yellow"),
    "restoring": (">", "yellow"),
    "archived": ("a", "magenta"),
    "deleted": ("-", "dim"),
    "LOST": ("!", "bold red"),
}


@dataclass(frozen=True, slots=True)
class PeriodRow:
    """A period with its table and, if it has one, the table beside it.

    ``dollars`` is the price for a month, with indexes and copies. Provisioned tables count their present units.
    On-demand tables count the consumed units of the last 30 days: ``taken_write`` and ``taken_read`` (None if unknown).
    Storage counts the size of up to six hours ago. ``late`` is True for an open table that is lowered for late events.
    ``backfill_until`` is the end of the table's backfill, ``removed_since`` the time at which the stream left the
    configuration. ``untyped`` counts by declared column the values that the column of the archive does not hold.
    """

    stream: str
    period: str
    state: str
    age: int
    write: int | None = None
    read: int | None = None
    table_class: str | None = None
    items: int | None = None
    bytes: int | None = None
    archived_events: int | None = None
    dollars: float = 0.0
    ahead: bool = False
    taken_write: float | None = None
    taken_read: float | None = None
    late: bool = False
    backfill_until: str | None = None
    removed_since: str | None = None
    untyped: Mapping[str, int] = field(default_factory=dict)

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
    def main(self) -> Table | None:
        """The period's own table, without the table beside it; None if it does not exist."""
        return self.tables.get(self.entry.table)

    @property
    def resources(self) -> dict[str, list[str]]:
        """The names of the tables, each with the names of its indexes that have units of their own."""
        indexes = [index.name for index in self.entry.layout.global_indexes]
        return {name: indexes if name == self.entry.table else [] for name in self.tables}

    @property
    def on_demand(self) -> dict[str, list[str]]:
        """The resources that are on demand."""
        return {name: indexes for name, indexes in self.resources.items() if self.tables[name].on_demand}


def observe_periods(
    stream: Stream,
    catalog: Catalog,
    tables: Tables,
    pools: Pools,
    *,
    all_periods: bool,
    removed: datetime | None = None,
    before: datetime | None = None,
) -> tuple[list[ObservedPeriod], datetime | None]:
    """Read a page of the stream's periods, newest first; deleted periods only if ``all_periods``.

    The page has periods that begin before ``before``. Also return the same instant for the next page; None at the end.
    """
    periods = (
        catalog.walk(stream.name, None, before, at_once=500) if all_periods else _walk_kept(stream, catalog, before)
    )
    shown = (
        entry
        for entry in periods
        if (all_periods or entry.state is not State.DELETED) and (before is None or entry.period.start < before)
    )
    entries = list(islice(shown, MAX_PERIODS + 1))
    following = entries[MAX_PERIODS - 1].period.start if len(entries) > MAX_PERIODS else None
    return describe_entries(entries[:MAX_PERIODS], stream, tables.describe, pools, removed), following


def _walk_kept(stream: Stream, catalog: Catalog, before: datetime | None) -> Iterator[Entry]:
    """Yield the entries from the horizon on, and then those of far periods, newest first.

    After some years there are very many deleted periods before the horizon, so they are not read.
    """
    horizon = catalog.read_horizon(stream.name)
    if horizon.at is None or before is None or horizon.at < before:
        yield from catalog.walk(stream.name, horizon.at, before, at_once=500)
    far = [
        (period.start, period.start) for period in horizon.far if horizon.at is not None and period.end <= horizon.at
    ]
    yield from reversed(read_entries_in(catalog, stream.name, far, consistent=False))


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


def make_row(period: ObservedPeriod, now: datetime, consumed: Consumed | None) -> PeriodRow:
    """Return the row of a period; ``consumed`` is None if the consumed units are unknown."""
    entry, stream, table = period.entry, period.stream, period.main
    missing = table is None and entry.state not in (State.DELETED, State.ARCHIVED)
    closed = is_closed(entry.period, stream, now)
    row = PeriodRow(
        stream=entry.stream,
        period=entry.period.label,
        state="LOST" if missing else entry.state.value,
        age=compute_age(entry.period, stream, now),
        archived_events=entry.archive.events if entry.archive is not None else None,
        untyped=entry.archive.untyped if entry.archive is not None else {},
        dollars=compute_bill(period, consumed or {}).total,
        ahead=entry.period.start > now + stream.ahead,
        late=is_lowered(entry.period, stream, now) and not closed and not entry.is_open(now),
        backfill_until=to_text(entry.opened.until) if entry.opened is not None and entry.is_open(now) else None,
        removed_since=to_text(period.removed) if period.removed is not None else None,
    )
    if table is not None:
        row = replace(
            row,
            write=table.write,
            read=table.read,
            table_class=table.table_class.value,
            items=table.item_count,
            bytes=sum(stored.size_bytes + stored.index_bytes for stored in period.tables.values()),
        )
    if consumed is not None and period.on_demand:
        taken = [_sum_units(consumed, name, ["", *indexes]) for name, indexes in period.on_demand.items()]
        row = replace(
            row, taken_write=sum(units.write for units in taken), taken_read=sum(units.read for units in taken)
        )
    return row


def _sum_units(consumed: Consumed, table: str, indexes: Sequence[str]) -> ConsumedUnits:
    """Sum the consumed units of a table's indexes; the index "" is the table itself."""
    units = [consumed.get((table, index), ConsumedUnits()) for index in indexes]
    return ConsumedUnits(sum(unit.write for unit in units), sum(unit.read for unit in units))


def mark_period(row: PeriodRow) -> tuple[str, str]:
    """Return a period's mark in a stream's timeline: a character and its colour."""
    if row.state == "open" and row.ahead:
        return ".", "cyan"
    return _MARKS.get("late" if row.state == "open" and row.late else row.state, ("?", ""))


def compute_bill(period: ObservedPeriod, consumed: Consumed) -> Bill:
    """Return the monthly bill of a period's tables: storage, and provisioned units or, on demand, consumed units.

    A copy has the units, the class, the size and the writes of its table.
    """
    whole = Bill()
    for name, table in period.tables.items():
        own = _price_table(table, consumed, name, period.resources[name])
        copied = own.whole.drop_reads() if table.on_demand else own.whole
        sent = _sum_units(consumed, name, [""]).write * _estimate_bytes_per_unit(table)
        whole += own + price_copies(copied, len(period.entry.copies.active), sent)
    return whole


def count_dimensions(period: ObservedPeriod) -> int:
    """Count the dimensions of a table and its indexes that auto scaling follows, in each Region."""
    policy, entry = period.stream.capacity.autoscaling, period.entry
    if policy is None or not entry.capacity.scaled:
        return 0
    return len(policy.sides) * (1 + len(entry.layout.global_indexes)) * (1 + len(entry.copies.active))


def measure_units(period: ObservedPeriod, consumed: Consumed) -> CommittedUnits:
    """Measure a period's units on which there are discounts, in the stage's own Region."""
    total = CommittedUnits()
    for name, table in period.tables.items():
        bill = _price_table(table, consumed, name, period.resources[name])
        dollars = sum((cost.writes + cost.reads for cost in (bill.tables, bill.indexes)), 0.0)
        if table.on_demand:
            total += CommittedUnits(on_demand=dollars)
        else:
            standard = table.table_class is TableClass.STANDARD
            write, read = (own + of_indexes for own, of_indexes in zip(*_find_provisioned(table), strict=True))
            total += CommittedUnits(0.0, dollars, write * standard * (not period.entry.copies.active), read * standard)
    return total


def _find_provisioned(table: Table) -> tuple[tuple[int, int], tuple[int, int]]:
    """Find the provisioned write and read units of a table, and of its indexes together."""
    own = table.index_units.values()
    return (table.write or 0, table.read or 0), (sum(write for write, _ in own), sum(read for _, read in own))


def _price_table(table: Table, consumed: Consumed, name: str, indexes: Sequence[str]) -> Bill:
    if table.on_demand:
        rates, own = ON_DEMAND[table.table_class], _sum_units(consumed, name, [""])
        of_indexes = _sum_units(consumed, name, indexes)
        return Bill(rates.price(*own, table.size_bytes), rates.price(*of_indexes, table.index_bytes))
    rates, (units, index_units) = PROVISIONED[table.table_class], _find_provisioned(table)
    return Bill(rates.price(*units, table.size_bytes, HOURS), rates.price(*index_units, table.index_bytes, HOURS))


def _estimate_bytes_per_unit(table: Table) -> float:
    """Return the average bytes per write unit; 1,024 if DynamoDB has not counted the table yet."""
    if not table.item_count or not table.size_bytes:
        return 1024.0
    item = table.size_bytes / table.item_count
    return item / ceil(item / 1024)
