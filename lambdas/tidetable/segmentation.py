"""The segments of a table's archive, as the catalog knows them, and the marks of writes that change them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from tidetable.events import Item
from tidetable.layout import Layout
from tidetable.periods import Period
from tidetable.times import TEXT_LENGTH, divide_time, from_text


class Segmentation(msgspec.Struct, frozen=True):
    """How a table is divided into the segments of its archive, and when they were begun.

    There are ``count`` segments. If ``slices`` is not 0, they are ranges of the period's time of equal length, each of
    which is read in so many slices; else they are segments of a scan. ``whole`` is the instant when all segments were
    begun, and ``made`` when the last ones were: in epoch milliseconds, with 13 digits. The last ones were ``again``, or all
    if this is empty.
    """

    count: int
    slices: int
    whole: str
    made: str
    again: tuple[int, ...] = ()

    @property
    def numbers(self) -> Sequence[int]:
        """The numbers of the segments that were begun last."""
        return self.again or range(self.count)

    def find_changed(self, items: Iterable[Item], layout: Layout, period: Period) -> set[int]:
        """Find the segments that writes of these items change.

        Nobody knows in which segment of a scan an item is. If there are several, the number of no segment, ``count``,
        says that all of them must be archived again.
        """
        if not self.slices:
            return {0 if self.count == 1 else self.count}
        edges, changed = divide_time(period.start, period.end, self.count), set[int]()
        for item in items:
            newest = layout.find_place(item["sk"])[:TEXT_LENGTH]
            # The events of a pack may lie in several segments.
            first, last = (bisect_right(edges, from_text(time)) - 1 for time in (item.get("oldest", newest), newest))
            changed.update(range(first, last + 1))
        return changed


class SegmentMarks(NamedTuple):
    """The numbers of the segments that got a write since they were begun, and how many such writes there ever were."""

    numbers: tuple[int, ...] = ()
    writes: int = 0
