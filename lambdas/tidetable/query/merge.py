"""Merges the ranges of a scan. They are read side by side, and items are handed on in order up to where all were read.

Each page has its even share of the events that are still wanted, and a little more: a page of a hundred over sixteen suffixes
reads eight of each, and then a few more of those that had more than their share.
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

# A query costs half a unit at the least, which is four events of 1 KB.
_LEAST = 4
# An item among those of its scan: its sort key there, then as in ``Columns`` its partition key, its sort key in the table and
# its content. It is a plain tuple, because zip makes those from columns without a call for each.
Placed = tuple[Any, str, str, str | Item]

Fetch = Callable[[Sequence[RangeRead]], Sequence[Page]]


def share(count: int, ranges: int) -> int:
    """How many items to read of each range, if ``count`` wanted items are spread over the ranges by chance."""
    mean = count / ranges
    return count if ranges == 1 else min(count, max(_LEAST, ceil(mean + 0.6 * sqrt(mean))))


class _Range(msgspec.Struct):
    """A range that is being read: the items that wait to be handed on, and where it goes on.

    ``attribute`` holds the sort key. A range ``of_series`` is of one series among several, whose sort keys do not name it. The
    order of a range is what follows so many ``levels`` in its sort keys.
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
            # A filter may have left out what was read last.
            after = page.last[self.attribute]
        if after is not None:
            self.edge = self._find_place(after)
            self.keys = replace(self.keys, after=after)

    def _find_place(self, key: str) -> str:
        """A sort key of the range as it is in the order of all ranges."""
        if self.levels:
            return skip_levels(key, self.levels)
        return self._order_across(key) if self.of_series else key

    def _order_across(self, sk: str) -> str:
        """A sort key of a table that is partitioned by series as it is in the order of all series."""
        stamp, _, id = sk.rpartition("#")
        return f"{stamp}#{self.keys.pk.rpartition('#')[0]}#{id}"

    def take_up_to(self, edge: str | None, *, ascending: bool) -> list[Placed]:
        """The items that may be handed on, because no other range can have an item before them."""
        if edge is None:
            ready, self.waiting = self.waiting, []
            return ready
        order = [entry[0] for entry in self.waiting]
        end = bisect_right(order, edge) if ascending else len(order) - bisect_left(order[::-1], edge)
        ready, self.waiting = self.waiting[:end], self.waiting[end:]
        return ready


class Merged(NamedTuple):
    """Items in order, and the sort key up to which everything was read; None if that is the end."""

    entries: list[Placed]
    edge: str | None


class Demand(msgspec.Struct):
    """How many events are still wanted, and whether a filter lets only an unknown share of them through."""

    count: int
    filtered: bool


def make_first_reads(ranges: Sequence[KeyRange], count: int) -> list[RangeRead]:
    """The reads of the first page of each range."""
    return [RangeRead(keys, share(count, len(ranges))) for keys in ranges]


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
    """The items of some ranges in order, some at a time, from their first pages on; more is read only when those are used up.

    ``next_limit`` says how many items to read next of a range: by how many were read last, how many wait, and how many ranges are
    read. Without it that follows from ``demand``.
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
            yield Merged(_sort_runs(ranges, edge, ascending=ascending), edge)
        if not unread:
            return
        # The ranges that the others wait for: at least the range whose edge it was.
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
    """How many items to read beyond those that wait. With a filter twice as many each time, because few events may pass it."""
    return 2 * before if demand.filtered else share(max(demand.count - waiting, _LEAST), ranges)


def _sort_runs(ranges: Sequence[_Range], edge: str | None, *, ascending: bool) -> list[Placed]:
    runs = [run for reading in ranges if (run := reading.take_up_to(edge, ascending=ascending))]
    if len(runs) == 1:
        return runs[0]
    # Sorting sorted runs is what Python's sort is best at.
    return sorted(chain.from_iterable(runs), key=itemgetter(0), reverse=not ascending)
