"""Scans: a scan describes how a query reads one period or one bucket. Each scan is merged separately from all others.

A scan is for a table, an index, packs or an archive. The planner makes scans. This module does not read anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, Literal

import msgspec
from msgspec.structs import replace

from tidetable.catalog import FAULTS, Entry, GapReason
from tidetable.conditions import Condition, NameConditions
from tidetable.events import Item
from tidetable.layout import Layout, escape
from tidetable.layout.period_layout import NEWEST
from tidetable.ports import ArchiveRange, KeyRange, RangeRead, Table
from tidetable.query.merge import compute_share
from tidetable.query.model import Position, Query
from tidetable.times import MOMENT, from_text, to_text

# Nobody has counted the series in a table: this share of its events is assumed for one series.
_SERIES_SHARE = 0.01
Source = tuple[Literal["table", "index", "replica", "archive"], str | None]  # of an answer's events


class Gap(msgspec.Struct, frozen=True):
    """A span of a range that has no table (not yet, or not any more), a damaged pack, or damaged data of an event; or a
    bucket of a rollup that may lack late events.
    """

    start: datetime
    end: datetime
    reason: GapReason

    def document(self) -> dict[str, str]:
        """Show the gap in the form of the API."""
        return {"from": to_text(self.start), "to": to_text(self.end), "reason": self.reason}

    @property
    def losses(self) -> list[str]:
        """A message for the operator if the gap is a fault; empty if the gap is a result of the configuration."""
        return [f"{self.reason} from {self.start} to {self.end}"] if self.reason in FAULTS else []

    @classmethod
    def of_missing(cls, entry: Entry, start: datetime, end: datetime) -> Gap:
        """Make the gap of a period whose table is missing: the overlap of the period with ``[start, end)``."""
        return cls(max(entry.period.start, start), min(entry.period.end, end), GapReason.TABLE_MISSING)

    @classmethod
    def of_lost(cls, entry: Entry, item: Item) -> Gap:
        """Make the gap of an event whose needed data cannot be read: the event's own time."""
        time = from_text(entry.layout.read_names(item)[0])
        return cls(time, time + MOMENT, GapReason.DAMAGED_DATA)


class _Scan(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one period between ``start`` and ``end``.

    ``conditions`` are the conditions that the key ranges do not imply. If DynamoDB's filter can see a field, it applies
    the conditions on that field. ``hydrate.py`` applies the other conditions. The scan of an index ``fetches`` if the
    query shows or checks fields that the index does not hold.
    """

    entry: Entry
    start: datetime
    end: datetime
    conditions: tuple[Condition, ...] = ()
    fetches: bool = False
    # Pages are in the order of time, and each continues after the page before. Otherwise each page reads the whole scan.
    in_order: ClassVar[bool] = True

    def list_filters(self, query: Query | None) -> list[str]:  # noqa: ARG002 - other scans need it
        """List the parameters that filter events after reading, so that some events are read in vain.

        A ranking has no ``query``.
        """
        return [f"where.{condition.field}" for condition in self.conditions]

    def is_filtered(self, query: Query) -> bool:
        """True if some events are perhaps read in vain."""
        return bool(self.list_filters(query))

    def find_share_of_time(self, now: datetime) -> float:
        """Find the scan's share of the time of its period that has events: of the present period, what has passed."""
        period = self.entry.period
        passed = min(period.end, now) - period.start
        return max(0.0, (min(self.end, now) - self.start) / passed) if passed > timedelta(0) else 1.0

    def find_position(self, sort_key: str, series: str | None) -> Position:
        """Compute an event's position from its sort key in the table.

        ``series`` is the query's series, if it names only one.
        """
        if "#" not in sort_key.removeprefix(NEWEST):
            return Position(from_text(sort_key.removeprefix(NEWEST)))
        layout = self.entry.layout.find_ordering_layout(series)
        time, series, id = layout.parse_names(f"{escape(series or '')}#0", sort_key)
        return Position(from_text(time), series, id)


class LiveScan(_Scan, frozen=True, kw_only=True):
    """A scan with one key range per suffix and logical partition, all shaped like ``keys``.

    If it ``unpacks``, its items hold several events. Then pages are read completely: DynamoDB cannot see these events.
    """

    keys: KeyRange
    partitions: Sequence[str] = ()
    suffixes: Sequence[int] = ()
    unpacks: ClassVar[bool] = False

    @property
    def source(self) -> Source:
        """Where the events come from, and the name of the index; None if it is not an index."""
        index = self.keys.index
        return ("table", None) if index is None else ("replica" if index.replica else "index", index.name)

    @property
    def table(self) -> str | None:
        """The table that is read; None for an archive."""
        return self.entry.table

    @property
    def count(self) -> int:
        """The number of ranges."""
        return len(self.partitions) * len(self.suffixes)

    @property
    def ranges(self) -> Sequence[KeyRange]:
        """The key ranges. Each call makes them again."""
        return [replace(self.keys, pk=f"{name}#{suffix}") for name in self.partitions for suffix in self.suffixes]

    def make_first_reads(self, count: int) -> list[RangeRead]:
        """Make the reads of the first page of each range, if ``count`` events are wanted."""
        limit = compute_share(count, self.count) if self.count else 0
        return [RangeRead(keys, limit) for keys in self.ranges]

    def list_filters(self, query: Query | None) -> list[str]:
        """List also the conditions on names that the key ranges do not imply."""
        times = [] if self.keys.times is None else ["time"]
        names = () if query is None else self.find_names_left(query).parameters
        return [*times, *names, *super().list_filters(query)]

    def estimate_events(self, table: Table | None, now: datetime) -> tuple[float, float | None]:
        """Estimate the number of its events and the bytes of one event; None if DynamoDB has not counted them yet."""
        count, size = (0.0, 0.0) if table is None or not table.item_count else self.measure_events(table)
        return (count * self.find_share_of_time(now) * self.estimate_share(), size) if count else (0.0, None)

    def estimate_share(self) -> float:
        """Estimate the share of the events of its table or index, apart from its share of the time.

        Nobody has counted the events of a series, and the only upper bound would be the whole table.
        """
        layout = self.entry.layout
        if layout.partition_by == "series":
            return min(max(self.count_partitions(), 1) * _SERIES_SHARE, 1.0)
        return len(self.suffixes) / layout.shards

    def count_partitions(self) -> int:
        """Count the logical partitions."""
        return len(self.partitions)

    def measure_events(self, table: Table) -> tuple[float, float]:
        """Return the number of events in all that the scan is a part of, and the bytes of one; zeros if unknown."""
        # DynamoDB counts an index separately from its table.
        count, size = table.index_sizes.get(self.source[1] or "", (table.item_count, table.size_bytes))
        return (count, size / count) if count else (0.0, 0.0)

    def estimate_parts(self, each: float, total: float, size: float, item_bytes: float, first: int) -> list[float]:  # noqa: ARG002 - as above
        """Divide the ``each`` events of a range that are wanted, of ``total``, into the requests that read them."""
        return [each]

    @property
    def is_guess(self) -> bool:
        """True if the number of its events is a guess: nobody has counted the share of a series."""
        return self.entry.layout.partition_by == "series"

    def find_names_left(self, query: Query) -> NameConditions:
        """Find the conditions on names that the key ranges do not imply."""
        return query.names._replace(series=()) if self.entry.layout.partition_by == "series" else query.names

    def add_data(self, items: Sequence[Item]) -> Sequence[Item]:
        """Return the items with their data."""
        return items


class TableScan(LiveScan, frozen=True, kw_only=True):
    """The scan of a period's table, or of its read replica.

    If the partitions are several series, each range begins at its own position: these ranges are ``series_ranges``.
    """

    series_ranges: Sequence[KeyRange] = ()

    @property
    def count(self) -> int:
        return len(self.series_ranges) or len(self.partitions) * len(self.suffixes)

    @property
    def ranges(self) -> Sequence[KeyRange]:
        return self.series_ranges or super().ranges

    def count_partitions(self) -> int:
        """Count the series."""
        return len({keys.pk.rpartition("#")[0] for keys in self.series_ranges}) or super().count_partitions()


class ArchiveScan(_Scan, frozen=True, kw_only=True):
    """The scan of a period's archive. The archive's reader applies all conditions, also the conditions on names."""

    keys: ArchiveRange
    source: ClassVar[Source] = "archive", None
    table: ClassVar[str | None] = None
    count: ClassVar[int] = 0
    unpacks: ClassVar[bool] = False
    is_guess: ClassVar[bool] = False

    def is_filtered(self, query: Query) -> bool:  # noqa: ARG002 - other scans need it
        """True if the reader leaves out events."""
        return bool(self.keys.conditions or any(self.keys.names))

    def estimate_events(self, table: Table | None, now: datetime) -> tuple[float, float | None]:  # noqa: ARG002 - as above
        """Estimate the number of its events. Their bytes cost nothing."""
        facts = self.entry.archive
        return 0.0 if facts is None else facts.events * min(self.find_share_of_time(now), 1.0), 0.0

    def estimate_parts(self, *_: float) -> list[float]:
        """Return no requests that cost read units."""
        return []

    def make_first_reads(self, count: int) -> list[RangeRead]:  # noqa: ARG002 - other scans need it
        """Return no reads: an archive has no key ranges."""
        return []


Scan = LiveScan | ArchiveScan


def find_visible_gaps(gaps: Iterable[Gap], now: datetime) -> list[Gap]:
    """Return the gaps of an answer, oldest first, without the gaps of future periods."""
    return sorted((gap for gap in gaps if gap.start <= now), key=lambda gap: gap.start)


class Plan(msgspec.Struct, frozen=True):
    """The scans in the order of the answer, each made when it is needed, and the gaps that no scan covers."""

    scans: Iterable[Scan]
    gaps: Sequence[Gap]


def slice_range(
    query: Query, layout: Layout, start: datetime, end: datetime
) -> Iterator[tuple[Sequence[str], datetime, datetime]]:
    """Slice a range by the buckets, in the answer's order, each slice after its logical partitions.

    Slices before the query's position are left out. A layout by series gives the whole range, and the partitions of the
    query's series.
    """
    if layout.partition_by == "series":
        if is_ahead(query, start, end):
            yield [escape(series) for series in query.names.series], start, end
        return
    size, first = timedelta(seconds=layout.bucket), layout.find_bucket(start)
    count = -(-(end - first) // size)
    for number in range(count) if query.ascending else range(count - 1, -1, -1):
        bucket = first + number * size
        begin, stop = max(start, bucket), min(end, bucket + size)
        if query.after is None or is_ahead(query, begin, stop):
            yield [to_text(bucket)], begin, stop


def is_ahead(query: Query, start: datetime, end: datetime) -> bool:
    """True if ``[start, end)`` may hold an event after the query's position."""
    if query.after is None:
        return True
    if query.ascending:
        return query.after.time < end
    return start < query.after.time or (bool(query.after.id) and start == query.after.time)


def find_edges(query: Query, layout: Layout, start: datetime, end: datetime) -> tuple[str, str, str | None]:
    """Find the bounds of sort keys, and the position's sort key if it lies between them.

    A sort key is a time, ``#`` and more. So bounds that are only times include the start and exclude the end.
    """
    low, high = layout.make_edge(start), layout.make_edge(end)
    after = None if query.after is None else query.after.make_sort_key(layout)
    return low, high, after if after is not None and low <= after <= high else None
