"""The types of the read side: the query, the position where a page ends, the cost, and the services that reading needs.

Parameters become a ``Query``. The planner makes it a ``Plan`` of scans (``scans.py``). Scans give rows (``rows.py``), which
fill a page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from tidetable.access import FULL, Access
from tidetable.conditions import Condition, NameConditions
from tidetable.config import Stream
from tidetable.events import Item, JsonObject
from tidetable.large.unpack import Unpacker, Wholes, is_partial, measure_outside
from tidetable.layout import Layout
from tidetable.ports import GET_ITEMS, ArchiveReader, CatalogReader, EventStore, EventVersion, Pools, Sketches
from tidetable.query.cursor import Seal
from tidetable.versions.shown import VERSION_COLUMNS, read_version, refuse_versions

if TYPE_CHECKING:
    from tidetable.copies.reader import Copies
    from tidetable.rollup_model.definition import QueryRollups

ALL = "*"
# Seconds of a request that are reserved for merging and encoding.
RESERVE = 3.0
# The number of events or cells that aggregates, listings and rollups read at a time.
AT_ONCE = 5_000


class Position(NamedTuple):
    """A position in the order of events.

    Without series and id, it is only an instant, before all events of its time.
    """

    time: datetime
    series: str = ""
    id: str = ""

    def make_sort_key(self, layout: Layout) -> str:
        """Make the sort key of the position in a layout. An instant sorts before all events of its time."""
        return layout.make_sort_key(*self) if self.id else layout.make_edge(self.time)


class Projection(msgspec.Struct, frozen=True, array_like=True):
    """The data and the versions of an event that an answer shows.

    ``fields`` are paths within ``data``. If there are none, all fields are shown except the ``cold`` fields. With
    ``only_fields``, only ``fields`` are shown, even when ``fields`` is empty.
    """

    fields: tuple[str, ...] = ()
    versions: bool = False
    only_fields: bool = False
    cold: frozenset[str] = frozenset()

    def of(self, stream: Stream) -> Projection:
        """Return the projection with the cold fields of a stream's configuration; ProblemError if the stream keeps no
        versions, and versions are shown.
        """
        if self.versions:
            refuse_versions(stream)
        return msgspec.structs.replace(self, cold=frozenset(stream.cold))

    @property
    def bare(self) -> Projection:
        """Make the projection for a cursor, without the cold fields: the configuration names these."""
        return msgspec.structs.replace(self, cold=frozenset())

    @property
    def _shows_cold(self) -> bool:
        return ALL in self.fields or not self.cold.isdisjoint(self.tops)

    @property
    def tops(self) -> set[str]:
        """The top-level fields of ``data`` that hold ``fields``."""
        return {field.partition(".")[0] for field in self.fields}

    @property
    def needs_whole(self) -> bool:
        """True if an answer needs more of an event than the named fields."""
        return not (self.fields or self.only_fields) or self.versions

    @property
    def version_columns(self) -> Mapping[str, str]:
        """The columns of a version that a table of the answer has, and their types."""
        return VERSION_COLUMNS if self.versions else {}

    def read_version(self, item: Item, layout: Layout) -> EventVersion | None:
        """Read the version of an item, if versions are shown and the item has one."""
        return read_version(item) if self.versions and layout.versioned else None

    def list_repeats(self, other: Projection) -> dict[str, bool]:
        """List the parameters by name, with True for each parameter that is the same for another projection."""
        return {"fields": self.fields == other.fields, "versions": self.versions == other.versions}

    def shows_field(self, name: str) -> bool:
        """True if the answer may show a top-level field of data."""
        if ALL in self.fields:
            return True
        return name in self.fields if self.fields else name not in self.cold

    def is_partial(self, item: Item) -> bool:
        """True if an item lacks data that the answer shows."""
        return is_partial(item, cold=self._shows_cold)

    def measure_outside(self, item: Item) -> int:
        """Return the bytes of the item's shown JSON data that is kept outside of the item."""
        return measure_outside(item, cold=self._shows_cold)

    def complete_items(self, items: Sequence[Item], table: str, unpacker: Unpacker) -> Wholes:
        """Complete the items of one table by the data that the answer shows."""
        return unpacker.complete_items(items, table, cold=self._shows_cold)

    def show_data(self, data: JsonObject) -> JsonObject:
        """Return the part of an event's data that is shown."""
        if ALL in self.fields:
            return data
        if self.fields:
            return _pick_fields(data, self.fields)
        if self.cold.isdisjoint(data):
            return data
        return {name: value for name, value in data.items() if name not in self.cold}


def _pick_fields(data: JsonObject, fields: Sequence[str]) -> JsonObject:
    """Return some fields of data, at their own paths."""
    shown: JsonObject = {}
    for path in fields:
        *outer, last = [path] if path in data else path.split(".")
        source: Any = data
        for name in outer:
            source = source.get(name) if isinstance(source, dict) else None
        if isinstance(source, dict) and last in source:
            target = shown
            for name in outer:
                target = target.setdefault(name, {})
            target[last] = source[last]
    return shown


# A plain event is shown exactly as it is stored: its data need not become Python values.
EVERYTHING = Projection()


class Query(msgspec.Struct, frozen=True, array_like=True, tag="events"):
    """Events of a stream in ``[start, end)`` whose series and ids meet ``names``, newest first unless ``ascending``.

    The events meet all ``conditions``. ``after`` is the position where an earlier page ended. ``projection`` says which
    of their data is shown. With ``consistent`` the answer has every event that was acknowledged before the query. With
    ``low_priority`` a read replica may answer. ``tz`` is the zone of the times in the answer; empty for UTC.
    """

    stream: str
    start: datetime
    end: datetime
    names: NameConditions
    ascending: bool
    limit: int
    after: Position | None = None
    conditions: tuple[Condition, ...] = ()
    projection: Projection = EVERYTHING
    consistent: bool = False
    low_priority: bool = False
    tz: str = ""

    @property
    def series(self) -> str | None:
        """The series, if the query names exactly one."""
        return self.names.series[0] if len(self.names.series) == 1 else None

    def make_cursor(self, position: Position) -> Query:
        """Make the query for a cursor, with the position where its page ended."""
        # The limit is not kept: each request has its own limit.
        return msgspec.structs.replace(self, limit=0, after=position, projection=self.projection.bare)


class Selection(Protocol):
    """The selection of a query of any route: the events of a range that meet its names and its conditions."""

    @property
    def stream(self) -> str: ...

    @property
    def start(self) -> datetime: ...

    @property
    def end(self) -> datetime: ...

    @property
    def names(self) -> NameConditions: ...

    @property
    def conditions(self) -> tuple[Condition, ...]: ...

    @property
    def consistent(self) -> bool: ...

    @property
    def tz(self) -> str: ...


class RangeSelection(Selection, Protocol):
    """The selection of events of a range of time, and their form in the answer."""

    @property
    def ascending(self) -> bool: ...

    @property
    def projection(self) -> Projection: ...

    @property
    def low_priority(self) -> bool: ...


class QueryBased:
    """A question about the events of a query: it has the stream and the selection of its ``query``."""

    __slots__ = ()
    query: Query

    @property
    def stream(self) -> str:
        return self.query.stream

    @property
    def start(self) -> datetime:
        return self.query.start

    @property
    def end(self) -> datetime:
        return self.query.end

    @property
    def names(self) -> NameConditions:
        return self.query.names

    @property
    def conditions(self) -> tuple[Condition, ...]:
        return self.query.conditions

    @property
    def consistent(self) -> bool:
        return self.query.consistent

    @property
    def tz(self) -> str:
        return self.query.tz


class Cost(msgspec.Struct):
    """The cost of reading: read units, requests, and the number of events that were read, even if they are not shown."""

    units: float = 0.0
    requests: int = 0
    read: int = 0

    def add_fetch(self, sizes: Sequence[int], *, consistent: bool, most: int = GET_ITEMS) -> None:
        """Add the cost of fetching items by their keys, ``most`` per request. A missing item has the size 0."""
        self.requests += -(-len(sizes) // most)
        # AWS: each 4 KB of each item costs half a unit, or a whole unit if the read is strongly consistent. A missing
        # item costs as much as the smallest item.
        self.units += sum(max(-(-size // 4096), 1) for size in sizes) / (1 if consistent else 2)


class Reader(msgspec.Struct):
    """The services that queries need, and the rights of the caller.

    ``copies`` is for a reader in another Region; None in the Region of the stage.
    """

    catalog: CatalogReader
    store: EventStore
    archive: ArchiveReader
    unpacker: Unpacker
    seal: Seal
    sketches: Sketches
    pools: Pools
    rolled: QueryRollups | None = None
    copies: Copies | None = None
    access: Access = FULL
