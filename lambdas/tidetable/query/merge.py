"""Merge the ranges of a scan. The ranges are read in parallel.

Items are returned in order, up to the position that all ranges have reached. Each range is asked for an even share of
the wanted events, and a little more. A page of a hundred events over sixteen suffixes reads eight events of each
suffix, and then a few more of the suffixes that had more than their share.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from math import ceil, sqrt
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from tidetable.events import Item
from tidetable.keys.hierarchy import skip_levels
from tidetable.ports import KeyRange, Page, RangeRead

# A query costs at least half a unit, and reads up to four events of 1 KB for that.
_LEAST = 4
# An item of a scan: its sort key in the order of the scan, then, as in ``Columns``, its partition key, its sort key in
# the table and its content. It is a plain tuple, because zip makes tuples from columns without a call per item.
Placed = tuple[Any, str, str, str | Item]

Fetch = Callable[[Sequence[RangeRead]], Sequence[Page]]


def compute_share(count: int, ranges: int) -> int:
    """Compute how many items to read of each range, if ``count`` wanted items are spread over the ranges at random."""
    mean = count / ranges
    return count if ranges == 1 else min(count, max(_LEAST, ceil(mean + 0.6 * sqrt(mean))))


class _Range(msgspec.Struct):
    """A range that is being read: ``keys`` where reading continues, and the items that wait to be returned.

    ``attribute`` is the name of the attribute with the sort key. A range ``of_series`` belongs to one series among
    several: its sort keys do not name the series. If sort keys begin with ``levels``, the order follows the rest of the
    sort key.
    """

    keys: KeyRange
    attribute: str
    limit: int
    of_series: bool = False
    levels: int = 0
    more: bool = True
    waiting: list[Placed] = msgspec.field(default_factory=list)
    edge: str | None = None

    def take(self, page: Page) -> None:
        self.more = page.more
        pks, sks, contents = page.columns
        after: str | None = None
        if sks:
            keys: Sequence[Any] = sks
            if self.attribute != "sk":
                keys = [item[self.attribute] for item in page.items]
            order = list(map(self._find_place, keys)) if self.of_series or self.levels else keys
            self.waiting += zip(order, pks, sks, contents, strict=True)
            after = keys[-1]
        if page.last is not None:
            # A filter may have dropped the item that was read last, so the page's own last key counts.
            after = page.last[self.attribute]
        if after is not None:
            self.edge = self._find_place(after)
            self.keys = replace(self.keys, after=after)

    def _find_place(self, key: str) -> str:
        """Find the place of a sort key of this range in the order of all ranges."""
        if self.levels:
            return skip_levels(key, self.levels)
        return self._order_across(key) if self.of_series else key

    def _order_across(self, sk: str) -> str:
        """Find the place of a sort key in the order of all series, for a table that is partitioned by series."""
        stamp, _, id = sk.rpartition("#")
        return f"{stamp}#{self.keys.pk.rpartition('#')[0]}#{id}"

    def take_up_to(self, edge: str | None, *, ascending: bool) -> list[Placed]:
        """Remove and return the waiting items up to ``edge``: no other range can still have an item before them."""
        if edge is None:
            ready, self.waiting = self.waiting, []
            return ready
        order = [entry[0] for entry in self.waiting]
        end = bisect_right(order, edge) if ascending else len(order) - bisect_left(order[::-1], edge)
        ready, self.waiting = self.waiting[:end], self.waiting[end:]
        return ready


class Merged(NamedTuple):
    """Items in order, and the sort key up to which all ranges were read; None if all ranges were read to the end."""

    entries: list[Placed]
    edge: str | None


class Demand(msgspec.Struct):
    """The number of events that are still wanted.

    If there is a filter, the share of the events that passes it is unknown.
    """

    count: int
    filtered: bool


def make_first_reads(ranges: Sequence[KeyRange], count: int) -> list[RangeRead]:
    """Make the reads of the first page of each range."""
    return [RangeRead(keys, compute_share(count, len(ranges))) for keys in ranges]


def merge_ranges(
    reads: Sequence[RangeRead],
    pages: Sequence[Page],
    fetch: Fetch,
    demand: Demand,
    *,
    ascending: bool,
    of_series: bool = False,
    next_limit: Callable[[int, int, int], int] | None = None,
) -> Iterator[Merged]:
    """Yield the items of some ranges in order, some at a time.

    ``pages`` are the first pages; more pages are read when needed. ``next_limit`` returns the number of items of a
    range to read next. Its arguments are the limit of the last read, the number of waiting items, and the number of
    ranges to read. Without ``next_limit``, ``demand`` decides the number.
    """
    ranges = [
        _Range(
            keys,
            keys.index.sk if keys.index is not None and not of_series else "sk",
            limit,
            of_series,
            len(keys.index.levels) if keys.index is not None else 0,
        )
        for keys, limit in reads
    ]
    for reading, page in zip(ranges, pages, strict=True):
        reading.take(page)
    while True:
        unread = [reading for reading in ranges if reading.more]
        if all(reading.edge is not None for reading in unread):
            edges = [reading.edge for reading in unread if reading.edge is not None]
            edge = (min(edges) if ascending else max(edges)) if edges else None
            runs = [run for reading in ranges if (run := reading.take_up_to(edge, ascending=ascending))]
            # Python's sort is very fast for runs that are sorted already.
            several = len(runs) != 1
            entries = sorted(chain(*runs), key=itemgetter(0), reverse=not ascending) if several else runs[0]
            yield Merged(entries, edge)
        if not unread:
            return
        # The ranges for which the others wait. The range that had the edge is always among them.
        due = [reading for reading in unread if not reading.waiting]
        waiting = sum(len(reading.waiting) for reading in ranges)
        for reading in due:
            if next_limit is None:
                reading.limit = _choose_next_limit(reading.limit, demand, waiting, len(due))
            else:
                reading.limit = next_limit(reading.limit, waiting, len(due))
        following = fetch([RangeRead(reading.keys, reading.limit) for reading in due])
        for reading, page in zip(due, following, strict=True):
            reading.take(page)


def _choose_next_limit(before: int, demand: Demand, waiting: int, ranges: int) -> int:
    """Choose how many items to read next.

    With a filter, the number doubles each time, because few events may pass the filter.
    """
    return 2 * before if demand.filtered else compute_share(max(demand.count - waiting, _LEAST), ranges)
