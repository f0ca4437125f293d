"""Scans: what is read of one period for a query, apart from every other scan, so that each is merged alone.

A scan is of a table, an index, packs or an archive. The planner makes them; nothing here reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import ClassVar, Literal

import msgspec
from msgspec.structs import asdict, replace

from tidetable.catalog import Entry
from tidetable.conditions import ANY, Condition, Names
from tidetable.events import Item
from tidetable.keys import Index, escape, unescape
from tidetable.keys.layout import NEWEST
from tidetable.keys.pack import find_key_range
from tidetable.ports import ArchiveRange, KeyRange
from tidetable.query.model import Position, Query
from tidetable.times import MOMENT, from_text

# The reasons of gaps that are faults: somebody deleted a table, or damaged an item. Other gaps follow from the configuration.
MISSING, DAMAGED, LOST = "table missing", "damaged pack", "damaged data"
Source = Literal["table", "index", "replica", "archive"]  # of an answer's events


class Gap(msgspec.Struct, frozen=True):
    """A span of the range that has no table, not yet or not any more, or in which a pack or the data of an event is damaged."""

    start: datetime
    end: datetime
    reason: str

    @property
    def losses(self) -> list[str]:
        """What the operator must look at, if the gap does not follow from the configuration."""
        return [f"{self.reason} from {self.start} to {self.end}"] if self.reason in (MISSING, DAMAGED, LOST) else []

    @classmethod
    def of_missing(cls, entry: Entry, start: datetime, end: datetime) -> Gap:
        """The gap of a period whose table is missing, as far as a range meets it."""
        return cls(max(entry.period.start, start), min(entry.period.end, end), MISSING)

    @classmethod
    def of_lost(cls, entry: Entry, item: Item) -> Gap:
        """The gap of an event whose data is needed and cannot be read: its own time."""
        time = from_text(entry.layout.names_of(item)[0])
        return cls(time, time + MOMENT, LOST)


class _Scan(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one period between ``start`` and ``end``.

    ``conditions`` are not implied by the key ranges: DynamoDB's filter applies those that it can see, hydrating the rest.
    """

    entry: Entry
    start: datetime
    end: datetime
    conditions: tuple[Condition, ...] = ()

    def position_of(self, sort_key: str, series: str | None) -> Position:
        """The position of an event from its sort key in the table; ``series`` is the query's, if it is of one alone."""
        if "#" not in sort_key.removeprefix(NEWEST):
            return Position(from_text(sort_key.removeprefix(NEWEST)))
        time, series, id = self.entry.layout.across(series).names(f"{escape(series or '')}#0", sort_key)
        return Position(from_text(time), series, id)


class _KeyScan(_Scan, frozen=True, kw_only=True):
    """A scan with one key range per suffix and logical partition, all shaped like ``keys``."""

    keys: KeyRange
    partitions: Sequence[str] = ()
    suffixes: Sequence[int] = ()

    @property
    def source(self) -> Source:
        return "table" if self.keys.index is None else "replica" if self.keys.index.replica else "index"

    @property
    def index_name(self) -> str | None:
        return None if self.keys.index is None else self.keys.index.name

    @property
    def count(self) -> int:
        """How many ranges there are."""
        return len(self.partitions) * len(self.suffixes)

    @property
    def ranges(self) -> Sequence[KeyRange]:
        """The key ranges, made anew."""
        return _make_ranges(self.keys, self.partitions, self.suffixes)

    def find_names_left(self, query: Query) -> Names:
        """The conditions on names that the key ranges do not imply."""
        return query.names._replace(series=()) if self.entry.layout.partition_by == "series" else query.names


class TableScan(_KeyScan, frozen=True, kw_only=True):
    """A period's table, or its read replica.

    Where the partitions are several series each range begins at a position of its own: these are ``series_ranges``.
    """

    series_ranges: Sequence[KeyRange] = ()

    @property
    def count(self) -> int:
        return len(self.series_ranges) or len(self.partitions) * len(self.suffixes)

    @property
    def ranges(self) -> Sequence[KeyRange]:
        return self.series_ranges or _make_ranges(self.keys, self.partitions, self.suffixes)


class IndexScan(_KeyScan, frozen=True, kw_only=True):
    """An index of a period. ``fetches`` says that the query shows, or checks, more of an event than the index holds.

    Of an index that is sorted by levels each of the ``heads`` is a range of its own in every partition.
    """

    index: Index
    fetches: bool = False
    heads: Sequence[str] = ("",)

    @property
    def count(self) -> int:
        return len(self.partitions) * len(self.suffixes) * len(self.heads)

    @property
    def ranges(self) -> Sequence[KeyRange]:
        ranges = _make_ranges(self.keys, self.partitions, self.suffixes)
        return ranges if not self.index.levels else [_within(keys, head) for keys in ranges for head in self.heads]

    def position_of(self, sort_key: str, series: str | None) -> Position:  # noqa: ARG002 - other scans need it
        """The position of an event from its sort key in the index, which says its series in any case."""
        time, name, id = sort_key.split("#")
        return Position(from_text(time), unescape(name), unescape(id))

    def find_names_left(self, query: Query) -> Names:
        """The conditions on names, of which the key ranges imply none."""
        return query.names

    def with_data(self, item: Item) -> Item:
        """An item of the index with its data, as far as the index holds it; an item of the table as it is."""
        if self.index.project is None or not item.keys().isdisjoint(("data", "z", "out")):
            return item
        return {**item, "data": item.get(self.index.copy, {})}


class GatherScan(IndexScan, frozen=True, kw_only=True):
    """The ranges of an index that begin with its ``heads``, in which events are not in the order of time.

    All of them are read for each page. ``first <= place < last`` bounds the events by the rest of their sort keys, which are in
    that order; ``after`` is the query's place.
    """

    first: str
    last: str
    after: str | None

    @classmethod
    def of(cls, scan: IndexScan, first: str, last: str, after: str | None) -> GatherScan:
        """The scan of the same ranges as far as they begin with the heads."""
        return cls(**asdict(scan), first=first, last=last, after=after)

    @property
    def ranges(self) -> Sequence[KeyRange]:
        ranges = _make_ranges(self.keys, self.partitions, self.suffixes)
        return [replace(keys, prefix=head) for keys in ranges for head in self.heads]

    def holds(self, place: str, after: str | None, *, ascending: bool) -> bool:
        """True if an event of that place is one of the scan's, and lies after another place."""
        if not self.first <= place < self.last:
            return False
        return after is None or (place > after if ascending else place < after)


class PackScan(_KeyScan, frozen=True, kw_only=True):
    """A period's table of packs, whose ``keys`` bound packs.

    ``low <= place < high`` bounds the events in them, whose places say the series where the partitions are several series. No
    suffix can be left out: a pack's follows from all of its events.
    """

    low: str
    high: str

    @classmethod
    def of(
        cls, entry: Entry, start: datetime, end: datetime, partitions: Sequence[str], *, low: str = "", high: str = ""
    ) -> PackScan:
        """The scan of the packs that may hold an event of ``[start, end)``; without bounds of places, of all of those."""
        keys = KeyRange(entry.table, "", *find_key_range(start, end, find_span(entry)))
        low, high = low or entry.layout.edge(start), high or entry.layout.edge(end)
        suffixes = range(entry.layout.shards)
        return cls(
            entry=entry, start=start, end=end, keys=keys, partitions=partitions, suffixes=suffixes, low=low, high=high
        )


class ArchiveScan(_Scan, frozen=True, kw_only=True):
    """A period's archive, whose reader applies every condition itself, also those on names."""

    keys: ArchiveRange
    source: ClassVar[Source] = "archive"
    index_name: ClassVar[str | None] = None
    count: ClassVar[int] = 0


LiveScan = TableScan | IndexScan | PackScan
Scan = LiveScan | ArchiveScan


def _make_ranges(keys: KeyRange, partitions: Sequence[str], suffixes: Sequence[int]) -> list[KeyRange]:
    return [replace(keys, pk=f"{partition}#{suffix}") for partition in partitions for suffix in suffixes]


def _within(keys: KeyRange, head: str) -> KeyRange:
    """A range of times within a head: its sort keys begin with that, and go on as by time."""
    after = None if keys.after is None else f"{head}{keys.after}"
    return replace(keys, low=f"{head}{keys.low}", high=f"{head}{keys.high}", after=after)


def find_span(entry: Entry) -> int:
    """The longest time between the events of a pack of a period whose layout has packs, in seconds."""
    assert entry.layout.pack is not None  # noqa: S101 - the planner makes scans of packs for no other layout
    return entry.layout.pack.span


def list_filters(scan: Scan, query: Query | None) -> list[str]:
    """The filters applied after reading: the parameters for which this scan may read in vain. A ranking has no ``query``."""
    times = [] if isinstance(scan, ArchiveScan) or scan.keys.times is None else ["time"]
    names = ANY if isinstance(scan, ArchiveScan) or query is None else scan.find_names_left(query)
    return [*times, *names.parameters, *(f"where.{condition.field}" for condition in scan.conditions)]


def find_visible_gaps(gaps: Iterable[Gap], now: datetime) -> list[Gap]:
    """The gaps of an answer, oldest first, without those of future periods."""
    return sorted((gap for gap in gaps if gap.start <= now), key=lambda gap: gap.start)


class Plan(msgspec.Struct, frozen=True):
    """The scans in the order of the answer, each made when it is its turn, and the gaps that no scan covers."""

    scans: Iterable[Scan]
    gaps: Sequence[Gap]
