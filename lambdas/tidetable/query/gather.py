"""Gather events: read key ranges that are not in the order of time, and return their events in that order.

The ranges are read to their end. Only the nearest events (the first in the order of the answer) are kept, up to a limit
of bytes. If there are more events, the ranges are read again for the events that follow. So the memory is bounded and
the order is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter

from tidetable.conditions import ANY, NameConditions
from tidetable.layout.hierarchy import skip_levels
from tidetable.ports import Page, RangeRead
from tidetable.query.index_scans import GatherScan
from tidetable.query.merge import Fetch, Merged, Placed, PlacedColumns
from tidetable.query.ranges import follow_page
from tidetable.values import count_item_bytes

# At most this many bytes of items are kept at once. As objects of Python, items take several times these bytes.
KEPT_BYTES = 16 * 1024 * 1024


def gather_events(
    scan: GatherScan,
    reads: Sequence[RangeRead],
    pages: Sequence[Page],
    fetch: Fetch,
    names: NameConditions,
    *,
    ascending: bool,
    check_time: Callable[[], None],
) -> Iterator[Merged]:
    """Yield the events of a scan in the order of the answer. ``pages`` are the first pages of its ranges.

    ``check_time`` is called before each further round of pages, and raises if there is no time for it.
    """
    after = scan.after
    while True:
        nearest = Nearest(ascending=ascending)
        due, answers = list(reads), list(pages)
        while due:
            for page in answers:
                for entry in _place_items(page, scan, names):
                    if scan.holds(entry[-1], after, ascending=ascending):
                        nearest.add(entry)
            due = [
                RangeRead(follow_page(keys, page), limit)
                for (keys, limit), page in zip(due, answers, strict=True)
                if page.more
            ]
            if due:
                check_time()
                answers = list(fetch(due))
        entries = nearest.list_entries()
        after = entries[-1][-1] if nearest.cut else None
        yield Merged(PlacedColumns.of(entries), after)
        if not nearest.cut:
            return
        check_time()
        pages = fetch(reads)


def _place_items(page: Page, scan: GatherScan, names: NameConditions) -> Iterator[Placed]:
    """Yield the items of a page that meet the query's names, each with its place."""
    levels, attribute, names_of = len(scan.index.levels), scan.index.sk, scan.entry.layout.parse_names
    for item in page.items:
        pk, sk = item["pk"], item["sk"]
        if names == ANY or names.hold(*names_of(pk, sk)[1:]):
            yield pk, sk, item, skip_levels(item[attribute], levels)


class Nearest:
    """The first events in the order of an answer, up to ``KEPT_BYTES``, and always at least one.

    ``cut`` says that there are more events. Until the index has removed an old value, an event may come twice, with
    both values.
    """

    def __init__(self, *, ascending: bool) -> None:
        self._ascending = ascending
        self._entries: dict[tuple[str, str], tuple[Placed, int]] = {}
        self._size = 0
        self._edge: str | None = None
        self.cut = False

    def add(self, entry: Placed) -> None:
        """Keep an event, unless there are enough nearer events."""
        (pk, sk, item, place), edge = entry, self._edge
        if edge is not None and not (place < edge if self._ascending else place > edge):
            return
        key = pk, sk
        known = self._entries.get(key)
        size = count_item_bytes(item)  # type: ignore[arg-type]
        self._entries[key] = entry, size
        self._size += size - (0 if known is None else known[1])
        if self._size > 2 * KEPT_BYTES:
            self._drop_farthest()

    def list_entries(self) -> list[Placed]:
        """Return the events in order."""
        if self._size > KEPT_BYTES:
            self._drop_farthest()
        return self._order_events()

    def _order_events(self) -> list[Placed]:
        return sorted((entry for entry, _ in self._entries.values()), key=itemgetter(-1), reverse=not self._ascending)

    def _drop_farthest(self) -> None:
        """Drop the farthest events until the others fit. ``add`` calls this only at twice the limit, so it is rare."""
        ordered, size, count = self._order_events(), 0, 0
        for entry in ordered:
            size += self._entries[entry[:2]][1]
            if count and size > KEPT_BYTES:
                break
            count += 1
        if count < len(ordered):
            self.cut, self._edge = True, ordered[count][-1]
        for entry in ordered[count:]:
            self._size -= self._entries.pop(entry[:2])[1]
