"""Merge the ranges of a scan. The ranges are read in parallel.

Items are returned in order, up to the position that all ranges have reached. Each range is asked for an even share of
the wanted events, and a little more. A page of a hundred events over sixteen suffixes reads eight events of each
suffix, and then a few more of the suffixes that had more than their share.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from math import ceil, sqrt
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from tidetable.events import Item
from tidetable.layout.hierarchy import skip_levels
from tidetable.ports import Page, RangeRead
from tidetable.query.ranges import RangeProgress

# A query costs at least half a unit, and reads up to four events of 1 KB for that.
LEAST_READ = 4
# An item of a scan: its partition key, its sort key in the table and its content, as in ``ItemColumns``, and its place.
Placed = tuple[str, str, str | Item, Any]

Fetch = Callable[[Sequence[RangeRead]], Sequence[Page]]


def compute_share(count: int, ranges: int) -> int:
    """Compute how many items to read of each range, if ``count`` wanted items are spread over the ranges at random."""
    mean = count / ranges
    return count if ranges == 1 else min(count, max(LEAST_READ, ceil(mean + 0.6 * sqrt(mean))))


class PlacedColumns(NamedTuple):
    """Items of a scan in order, as columns: those of ``ItemColumns``, and the items' places in the order of the scan.

    There are no ``places`` if the sort keys are in this order. Whole columns are cut, joined and sorted, because a tuple
    for each item takes twice the time of all that.
    """

    pks: Sequence[str] = ()
    sks: Sequence[str] = ()
    contents: Sequence[str | Item] = ()
    places: Sequence[Any] = ()

    @property
    def order(self) -> Sequence[Any]:
        """What the items are in the order of."""
        return self.places or self.sks

    @classmethod
    def of(cls, entries: Iterable[Placed]) -> PlacedColumns:
        """Make the columns of some items."""
        return cls(*map(list, zip(*entries, strict=True)))

    def cut(self, start: int, end: int | None = None) -> PlacedColumns:
        """Return some of the items."""
        return PlacedColumns._make([column[start:end] for column in self])

    def where(self, chosen: Sequence[bool]) -> PlacedColumns:
        """Return the chosen items."""
        return PlacedColumns._make([list(compress(column, chosen)) for column in self])


class _Range(RangeProgress):
    """A range that is being read, and the items that wait to be returned. Its edge is in the order of the scan.

    A range ``of_series`` belongs to one series among several: its sort keys do not name the series. If the sort keys of
    an index begin with levels, the order follows the rest of the sort key.
    """

    of_series: bool = False
    waiting: PlacedColumns = PlacedColumns()

    def take(self, page: Page) -> None:
        self.advance(page)
        index = self.keys.index
        attribute = "sk" if index is None else index.sk
        has_places = self.of_series or (index is not None and bool(index.levels))
        pks, sks, contents = page.columns
        if sks:
            places: Sequence[Any] = () if attribute == "sk" else [item[attribute] for item in page.items]
            if has_places:
                places = list(map(self._find_place, places or sks))
            added = PlacedColumns(pks, sks, contents, places)
            self.waiting = join_runs([self.waiting, added]) if self.waiting.sks else added
        if has_places and page.last is not None:
            self.edge = self._find_place(self.edge)

    def _find_place(self, key: str) -> str:
        """Find the place of a sort key in the order of all ranges, if the sort keys themselves are not in this order."""
        if self.of_series:
            time, _, id = key.rpartition("#")
            return f"{time}#{self.keys.pk.rpartition('#')[0]}#{id}"
        index = self.keys.index
        return key if index is None else skip_levels(key, len(index.levels))

    def take_up_to(self, edge: str | None, *, ascending: bool) -> PlacedColumns:
        """Remove and return the waiting items up to ``edge``: no other range can still have an item before them."""
        if edge is None:
            ready, self.waiting = self.waiting, PlacedColumns()
            return ready
        order = self.waiting.order
        end = bisect_right(order, edge) if ascending else len(order) - bisect_left(order[::-1], edge)
        ready, self.waiting = self.waiting.cut(0, end), self.waiting.cut(end)
        return ready


def join_runs(runs: Sequence[PlacedColumns]) -> PlacedColumns:
    """Put the items of some runs one after the other."""
    columns: tuple[list[Any], ...] = [], [], [], []
    for run in runs:
        for column, added in zip(columns, run, strict=True):
            column.extend(added)
    return PlacedColumns(*columns)


def sort_runs(runs: Sequence[PlacedColumns], *, ascending: bool) -> PlacedColumns:
    """Put the items of some runs, of which each is in order, in order."""
    if len(runs) < 2:
        return runs[0] if runs else PlacedColumns()
    joined = join_runs(runs)
    # Python's sort is very fast for runs that are sorted already.
    pick = itemgetter(*sorted(range(len(joined.sks)), key=joined.order.__getitem__, reverse=not ascending))
    return PlacedColumns(*[pick(column) for column in joined if column])


def choose_waited(ranges: Sequence[_Range], choose_limit: Callable[[int, int, int], int]) -> Sequence[_Range]:
    """Choose the ranges for which the others wait. The range that had the edge is always among them.

    ``choose_limit`` returns the number of items of a range to read next. Its arguments are the limit of the last read,
    the number of waiting items, and the number of ranges to read.
    """
    due = [reading for reading in ranges if reading.more and not reading.waiting.sks]
    waiting = sum(len(reading.waiting.sks) for reading in ranges)
    for reading in due:
        reading.limit = choose_limit(reading.limit, waiting, len(due))
    return due


class Merged(NamedTuple):
    """Items in order, and the sort key up to which all ranges were read; None if all ranges were read to the end."""

    placed: PlacedColumns
    edge: str | None


class Demand(msgspec.Struct):
    """The number of events that are still wanted.

    If there is a filter, the share of the events that passes it is unknown.
    """

    count: int
    filtered: bool

    def choose_due(self, ranges: Sequence[_Range]) -> Sequence[_Range]:
        """Choose the ranges to read further, and how far: if the wanted events are spread over the ranges at random,
        those whose items will be used up.

        With a filter, only those for which the others wait: nobody knows how far the wanted events reach. Their limits
        double each time, because few events may pass the filter.
        """
        if self.filtered:
            return choose_waited(ranges, lambda before, _, __: 2 * before)
        count = len(ranges)
        due = [reading for reading in ranges if reading.more and len(reading.waiting.sks) * count <= self.count]
        # If one range has most of the events, it must give what the others lack.
        lacking = compute_share(
            max(self.count - sum(len(reading.waiting.sks) for reading in ranges), LEAST_READ), len(due)
        )
        for reading in due:
            share = compute_share(max(self.count - len(reading.waiting.sks) * count, LEAST_READ), count)
            reading.limit = max(share, lacking)
        return due


def merge_ranges(
    reads: Sequence[RangeRead],
    pages: Sequence[Page],
    fetch: Fetch,
    choose_due: Callable[[Sequence[_Range]], Sequence[_Range]],
    *,
    ascending: bool,
    of_series: bool = False,
) -> Iterator[Merged]:
    """Yield the items of some ranges in order, some at a time.

    ``pages`` are the first pages; more pages are read when needed. ``choose_due`` returns the ranges to read further,
    after setting their limits; those for which the others wait must be among them.
    """
    ranges = [_Range(*read, of_series=of_series) for read in reads]
    for reading, page in zip(ranges, pages, strict=True):
        reading.take(page)
    while True:
        unread = [reading for reading in ranges if reading.more]
        edges = [reading.edge for reading in unread if reading.edge is not None]
        if len(edges) == len(unread):
            edge = (min(edges) if ascending else max(edges)) if edges else None
            runs = [run for reading in ranges if (run := reading.take_up_to(edge, ascending=ascending)).sks]
            yield Merged(sort_runs(runs, ascending=ascending), edge)
        if not unread:
            return
        due = choose_due(ranges)
        following = fetch([reading.next_read for reading in due])
        for reading, page in zip(due, following, strict=True):
            reading.take(page)
