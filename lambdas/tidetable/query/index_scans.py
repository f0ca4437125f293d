"""Scans of an index of a period."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import ClassVar

from msgspec.structs import asdict, replace

from tidetable.conditions import NameConditions
from tidetable.events import Item
from tidetable.layout import WHOLE, Index, unescape
from tidetable.layout.hierarchy import skip_levels
from tidetable.ports import KeyRange, RangeRead
from tidetable.query.model import Position, Query
from tidetable.query.scans import LiveScan
from tidetable.times import from_text

# Events that are gathered are read to their end. AWS: a page of a query ends at 1 MB, whatever its limit.
GATHERED = 10_000


class IndexScan(LiveScan, frozen=True, kw_only=True):
    """The scan of an index of a period.

    In an index that is sorted by levels, each of the ``heads`` is a separate range in every partition.
    """

    index: Index
    heads: Sequence[str] = ("",)

    @property
    def count(self) -> int:
        return len(self.partitions) * len(self.suffixes) * len(self.heads)

    @property
    def ranges(self) -> Sequence[KeyRange]:
        ranges = super().ranges
        if not self.index.levels:
            return ranges
        return [self._narrow_to_head(keys, head) for keys in ranges for head in self.heads]

    def _narrow_to_head(self, keys: KeyRange, head: str) -> KeyRange:
        """Narrow a range of times to a head: its sort keys begin with the head and continue with the time."""
        after = None if keys.after is None else f"{head}{keys.after}"
        return replace(keys, low=f"{head}{keys.low}", high=f"{head}{keys.high}", after=after)

    @property
    def is_guess(self) -> bool:
        """True if the number of its events is a guess: nobody has counted the share of a value."""
        return self.index.partition_by != WHOLE or bool(self.index.levels)

    def find_position(self, sort_key: str, series: str | None) -> Position:  # noqa: ARG002 - other scans need it
        """Compute an event's position from its sort key in the index. This key always names the series."""
        time, name, id = sort_key.split("#")
        return Position(from_text(time), unescape(name), unescape(id))

    def find_names_left(self, query: Query) -> NameConditions:
        """Return all conditions on names: the key ranges of an index do not imply any of them."""
        return query.names

    def add_data(self, items: Sequence[Item]) -> Sequence[Item]:
        """Give items of the index the data that the index holds. Items of the table are returned unchanged."""
        if self.index.project is None:
            return items
        copy = self.index.copy
        return [
            {**item, "data": item.get(copy, {})} if item.keys().isdisjoint(("data", "z", "out")) else item
            for item in items
        ]

    def estimate_share(self) -> float:
        """Estimate the share of the events of the index.

        Nobody has counted the values of an index. All of its events may have one value: this upper bound is assumed.
        """
        return super().estimate_share() if self.index.local else len(self.suffixes) / self.index.shards

    def has_item(self, item: Item) -> bool:  # noqa: ARG002 - other scans need it
        """True if an item of its ranges is in the scan."""
        return True


class GatherScan(IndexScan, frozen=True, kw_only=True):
    """The ranges of an index whose sort keys begin with ``heads``. Events of such a range are not in the order of time.

    Each page reads all of the ranges. The place of an event is the rest of its sort key, and places are in the order of
    time. The scan has the events with ``first <= place < last``. ``after`` is the place of the query's position.
    """

    first: str
    last: str
    after: str | None
    in_order: ClassVar[bool] = False

    @classmethod
    def of(cls, scan: IndexScan, first: str, last: str, after: str | None) -> GatherScan:
        """Make the gathering scan of the same index, partitions and heads."""
        return cls(**asdict(scan), first=first, last=last, after=after)

    def _narrow_to_head(self, keys: KeyRange, head: str) -> KeyRange:
        return replace(keys, prefix=head)

    def make_first_reads(self, count: int) -> list[RangeRead]:  # noqa: ARG002 - other scans need it
        """Make the reads of the first page of each range: all are read to their end."""
        return [RangeRead(keys, GATHERED) for keys in self.ranges]

    def find_share_of_time(self, now: datetime) -> float:
        """Find the share of the whole bucket or period: all of its events are read."""
        layout, period = self.entry.layout, self.entry.period
        passed = min(period.end, now) - period.start
        whole = timedelta(seconds=layout.bucket) if self.index.local and layout.bucket else passed
        return min(whole / passed, 1.0) if passed > timedelta(0) else 1.0

    def has_item(self, item: Item) -> bool:
        """True if an item of its ranges is in the scan."""
        return self.holds(skip_levels(item[self.index.sk], len(self.index.levels)), self.after, ascending=True)

    def holds(self, place: str, after: str | None, *, ascending: bool) -> bool:
        """True if an event at ``place`` belongs to the scan and comes after the place ``after``."""
        if not self.first <= place < self.last:
            return False
        return after is None or (place > after if ascending else place < after)
