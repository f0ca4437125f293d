"""The types of the read side, in the order of a query's way: the query, the scans that answer it, and the cost.

Parameters become a ``Query``. The planner makes it a ``Plan`` of scans. Scans give rows (``rows.py``), which fill a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from tidetable.catalog import Entry
from tidetable.conditions import ANY, Condition, Names
from tidetable.config import Stream
from tidetable.events import Item
from tidetable.keys import Index, escape, unescape
from tidetable.keys.layout import NEWEST
from tidetable.large.whole import Unpacker
from tidetable.ports import ArchiveRange, ArchiveReader, CatalogReader, EventStore, KeyRange, Page, Pools, Sketches
from tidetable.query.cursor import Seal
from tidetable.rollups.definition import Rolled
from tidetable.times import from_text
from tidetable.values import item_bytes

ALL = "*"
# Seconds kept for merging and encoding.
RESERVE = 3.0
Source = Literal["table", "index", "replica", "archive"]  # of an answer's events
Remaining = Callable[[], float]  # how many seconds are left for the request


class Position(NamedTuple):
    """A position in the order of events. Without series and id it is the bare instant: before every event of that time."""

    time: datetime
    series: str = ""
    id: str = ""


class Projection(msgspec.Struct, frozen=True, array_like=True):
    """The data and the versions of an event that an answer shows.

    ``fields`` are paths within ``data``; without them all fields are shown but the ``cold`` ones. ``only_fields``: show nothing
    of ``data`` but ``fields``, even when ``fields`` is empty.
    """

    fields: tuple[str, ...] = ()
    versions: bool = False
    only_fields: bool = False
    cold: frozenset[str] = frozenset()

    @classmethod
    def of(cls, stream: Stream, fields: tuple[str, ...], *, versions: bool) -> Projection:
        """The projection of an answer about a stream."""
        return cls(fields, versions, cold=frozenset(stream.cold))

    @property
    def as_stored(self) -> bool:
        """Whether a plain event is shown exactly as it is stored: then its data need not become Python values."""
        return not (self.fields or self.cold or self.versions)

    @property
    def wants_cold(self) -> bool:
        """Whether the answer shows a cold field."""
        return ALL in self.fields or not self.cold.isdisjoint(self.tops)

    @property
    def tops(self) -> set[str]:
        """The top-level fields of ``data`` that hold ``fields``."""
        return {field.partition(".")[0] for field in self.fields}


EVERYTHING = Projection()


class Query(msgspec.Struct, frozen=True, array_like=True, tag="events"):
    """Events of a stream in ``[start, end)`` whose series and ids meet ``names``, newest first unless ``ascending``.

    ``after`` is where an earlier page ended; events meet all ``conditions``. ``projection`` says what of the events is shown,
    ``consistent`` that everything acknowledged before is among them, ``low_priority`` that a read replica may answer.
    """

    stream: str
    start: datetime
    end: datetime
    names: Names
    ascending: bool
    limit: int
    after: Position | None = None
    conditions: tuple[Condition, ...] = ()
    projection: Projection = EVERYTHING
    consistent: bool = False
    low_priority: bool = False

    @property
    def series(self) -> str | None:
        """The series, if the query is of one alone."""
        return self.names.series[0] if len(self.names.series) == 1 else None

    def cursor(self, position: Position) -> Query:
        """The query as a cursor holds it, with the position where its page ended."""
        # The configuration says which fields are cold, and each request how long its page is.
        bare = msgspec.structs.replace(self.projection, cold=frozenset())
        return msgspec.structs.replace(self, limit=0, after=position, projection=bare)


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of the range for which there is no table, yet or any more, or in which a pack is damaged."""

    start: datetime
    end: datetime
    reason: str

    @classmethod
    def of_missing(cls, entry: Entry, start: datetime, end: datetime) -> Gap:
        """The gap of a period whose table is missing, as far as a range meets it."""
        return cls(max(entry.period.start, start), min(entry.period.end, end), "table missing")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scan:
    """Events of one period between ``start`` and ``end``, apart from every other scan's, so that each scan is merged alone.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScan(_Scan):
    """A period's table, or its read replica: one key range per suffix and logical partition, all shaped like ``keys``.

    Where the partitions are several series each range begins at a position of its own: these are ``series_ranges``.
    """

    keys: KeyRange
    partitions: Sequence[str] = ()
    suffixes: Sequence[int] = ()
    series_ranges: Sequence[KeyRange] = ()

    @property
    def source(self) -> Source:
        return "table" if self.keys.index is None else "replica"

    @property
    def index_name(self) -> str | None:
        return None if self.keys.index is None else self.keys.index.name

    @property
    def count(self) -> int:
        """How many ranges there are."""
        return len(self.series_ranges) or len(self.partitions) * len(self.suffixes)

    @property
    def ranges(self) -> list[KeyRange]:
        """The key ranges, made anew."""
        return list(self.series_ranges) or _ranges_of(self.keys, self.partitions, self.suffixes)

    def names_left(self, query: Query) -> Names:
        """The conditions on names that the key ranges do not imply."""
        return query.names._replace(series=()) if self.entry.layout.partition_by == "series" else query.names


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexScan(_Scan):
    """An index of a period: one key range per suffix and logical partition, all shaped like ``keys``.

    ``fetches`` says that the query shows, or checks, more of an event than the index holds.
    """

    index: Index
    keys: KeyRange
    partitions: Sequence[str]
    suffixes: Sequence[int]
    fetches: bool = False

    @property
    def source(self) -> Source:
        return "index"

    @property
    def index_name(self) -> str | None:
        return self.index.name

    @property
    def count(self) -> int:
        """How many ranges there are."""
        return len(self.partitions) * len(self.suffixes)

    @property
    def ranges(self) -> list[KeyRange]:
        """The key ranges, made anew."""
        return _ranges_of(self.keys, self.partitions, self.suffixes)

    def position_of(self, sort_key: str, series: str | None) -> Position:  # noqa: ARG002 - other scans need it
        """The position of an event from its sort key in the index, which says its series in any case."""
        time, name, id = sort_key.split("#")
        return Position(from_text(time), unescape(name), unescape(id))

    def names_left(self, query: Query) -> Names:
        """The conditions on names, of which the key ranges imply none."""
        return query.names

    def with_data(self, item: Item) -> Item:
        """An item of the index with its data, as far as the index holds it; an item of the table as it is."""
        if self.index.project is None or not item.keys().isdisjoint(("data", "z", "out")):
            return item
        return {**item, "data": item.get(self.index.copy, {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveScan(_Scan):
    """A period's archive, whose reader applies every condition itself."""

    keys: ArchiveRange

    @property
    def source(self) -> Source:
        return "archive"

    @property
    def index_name(self) -> str | None:
        return None

    @property
    def count(self) -> int:
        return 0

    def names_left(self, query: Query) -> Names:  # noqa: ARG002 - the other scans need it
        """No condition on names: the archive's reader answers them all."""
        return ANY


@dataclass(frozen=True, slots=True, kw_only=True)
class PackScan(_Scan):
    """A period's table of packs: one key range per suffix and logical partition, all shaped like ``keys``, which bounds packs.

    ``low <= place < high`` bounds the events in them, whose places say the series where the partitions are several series. No
    suffix can be left out: a pack's follows from all of its events.
    """

    keys: KeyRange
    partitions: Sequence[str]
    low: str
    high: str

    @property
    def source(self) -> Source:
        return "table"

    @property
    def index_name(self) -> str | None:
        return None

    @property
    def span(self) -> int:
        """The longest time between the events of a pack, in seconds."""
        assert self.entry.layout.pack is not None  # noqa: S101 - the planner makes this scan of no other layout
        return self.entry.layout.pack.span

    @property
    def count(self) -> int:
        """How many ranges there are."""
        return len(self.partitions) * self.entry.layout.shards

    @property
    def ranges(self) -> list[KeyRange]:
        """The key ranges, made anew."""
        return _ranges_of(self.keys, self.partitions, range(self.entry.layout.shards))

    def names_left(self, query: Query) -> Names:
        """The conditions on names that the key ranges do not imply."""
        return query.names._replace(series=()) if self.entry.layout.partition_by == "series" else query.names


LiveScan = TableScan | IndexScan | PackScan
Scan = LiveScan | ArchiveScan


def _ranges_of(keys: KeyRange, partitions: Iterable[str], suffixes: Sequence[int]) -> list[KeyRange]:
    return [replace(keys, pk=f"{partition}#{suffix}") for partition in partitions for suffix in suffixes]


def list_filters(scan: Scan, query: Query) -> list[str]:
    """The filters applied after reading: the parameters for which this scan may read in vain."""
    return [*scan.names_left(query).parameters, *(f"where.{condition.field}" for condition in scan.conditions)]


@dataclass(frozen=True, slots=True)
class Plan:
    """The scans in the order of the answer, each made when it is its turn, and the gaps that no scan covers."""

    scans: Iterable[Scan]
    gaps: Sequence[Gap]


@dataclass(slots=True)
class Cost:
    """What reading took: read units, requests, and how many events were read, shown or not."""

    units: float = 0.0
    requests: int = 0
    read: int = 0

    def add_page(self, page: Page | None) -> None:
        """Count a request for a page of a table or an index; there is no page if the table is missing."""
        self.requests += 1
        if page is not None:
            self.units += page.units
            self.read += page.read

    def add(self, other: Cost) -> None:
        """Count what other reads took."""
        self.units += other.units
        self.requests += other.requests
        self.read += other.read

    def add_items(self, items: Sequence[Item]) -> None:
        """Count the read units of items that were fetched by their keys."""
        # AWS: half a unit for each 4 KB of each item.
        self.units += sum(-(-item_bytes(item) // 4096) / 2 for item in items)


@dataclass(slots=True)
class Reader:
    """What queries need."""

    catalog: CatalogReader
    store: EventStore
    archive: ArchiveReader
    unpacker: Unpacker
    seal: Seal
    sketches: Sketches
    pools: Pools
    rolled: Rolled | None = None
