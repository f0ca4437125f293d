"""The data of a stream's bill: its entries and tables, within the limits of one answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, islice

from bill.consumed import Meters
from bill.current_tables import ObservedPeriod, describe_entries
from tidetable.catalog import Entry, State
from tidetable.config import Stream
from tidetable.ports import Catalog, Pools, Table, Tables
from tidetable.remaining import Remaining
from tidetable.run_streams import RunStreams

# The greatest number of tables in one answer. A DescribeTable takes 20 ms and a function describes 16 tables at once,
# so an answer takes 2 to 5 seconds.
MAX_TABLES = 1_000
# One answer reads at most this many of the catalog's entries, which take about 270 read units.
MAX_ENTRIES = 5_000
# Seconds that are reserved for CloudWatch and for the answer.
_RESERVE = 8.0


@dataclass(frozen=True)
class BillSources:
    """The sources of the figures. ``remaining`` returns the seconds that are left for the answer."""

    catalog: Catalog
    tables: Tables
    meters: Meters
    pools: Pools
    region: str
    remaining: Remaining


@dataclass
class Account:
    """The data that was read of one stream. ``left_out`` counts its periods whose tables were not described.

    ``next`` is the instant before which the periods of the next page begin; None if there are none.
    """

    stream: Stream
    entries: Sequence[Entry]
    removed: datetime | None
    left_out: int
    next: datetime | None
    periods: Sequence[ObservedPeriod] = ()

    @property
    def regions(self) -> set[str]:
        """The other Regions in which the tables have copies."""
        return {region for period in self.periods for region in period.entry.copies.active}


def read_account(known: RunStreams, sources: BillSources, name: str, before: datetime | None, share: int) -> Account:
    """Read entries and tables of a stream, the newest first, within its share of the limits of an answer.

    If the stream is priced alone, ``share`` is 1, and its page ends before the first period that is not counted.
    """
    walk = (
        entry
        for entry in sources.catalog.walk(name, None, before, at_once=500)
        if before is None or entry.period.start < before
    )
    most = max(MAX_ENTRIES // share, 1)
    entries = list(islice(walk, most + 1))
    shown: Sequence[Entry] = entries[:most]
    if share == 1:
        shown = _take_described(shown, MAX_TABLES)
    present = [entry for entry in shown if entry.state is not State.DELETED]
    described = _take_described(present, MAX_TABLES // share)
    following = shown[-1].period.start if len(shown) < len(entries) else None
    stream, left_out = known.config.streams[name], len(present) - len(described)
    account = Account(stream, shown[::-1], known.removed.get(name), left_out, following)
    account.periods = describe_entries(described, stream, _make_describer(sources, account), sources.pools)
    return account


def _take_described(entries: Sequence[Entry], most: int) -> Sequence[Entry]:
    """Take the first entries that have at most so many tables, and at least one entry."""
    tables = accumulate(0 if entry.state is State.DELETED else len(entry.tables) for entry in entries)
    return entries[: max(sum(count <= most for count in tables), 1)]


def _make_describer(sources: BillSources, account: Account) -> Callable[[str], Table | None]:
    """Return a function that describes a table; if little time is left, it returns None instead."""

    def describe(name: str) -> Table | None:
        if sources.remaining() < _RESERVE:
            account.left_out += 1
            return None
        return sources.tables.describe(name)

    return describe
