"""The scan of a table of packs, and the gap that a damaged pack leaves in it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import ceil
from typing import ClassVar

from msgspec.structs import replace

from tidetable.catalog import Entry, GapReason
from tidetable.events import Item
from tidetable.forms.choose import choose_form
from tidetable.ports import KeyRange, RangeRead, Table
from tidetable.query.access_path import AccessPath
from tidetable.query.merge import compute_share
from tidetable.query.model import Query
from tidetable.query.scans import Gap, LiveScan
from tidetable.times import MOMENT, TEXT_LENGTH, from_text

# Before the first page, nobody knows how many events a pack holds. By default a request has at most 1,000 events, so a
# pack has at most 1,000, too. At least two packs are needed to settle the events of the first pack.
_EVENTS_PER_PACK, LEAST_PACKS = 1_000, 2
# A compressed event takes 10 to 50 bytes (docs/decisions/0050).
_PACKED_BYTES = 25.0


class PackScan(LiveScan, frozen=True, kw_only=True):
    """The scan of a period's table of packs. ``keys`` are the bounds of packs.

    The scan has the events in these packs with ``low <= place < high``. If the partitions are several series, places
    name the series. The layout says which suffixes can hold events of the wanted series. Of packs of several series,
    only the events of ``series`` are opened; of all series if it is empty.
    """

    low: str
    high: str
    series: Sequence[str] = ()
    unpacks: ClassVar[bool] = True

    @classmethod
    def of(
        cls,
        entry: Entry,
        start: datetime,
        end: datetime,
        partitions: Sequence[str],
        series: Sequence[str] = (),
        *,
        series_prefix: str = "",
        low: str = "",
        high: str = "",
    ) -> PackScan:
        """Make the scan of the packs that may hold events of these series in ``[start, end)``; no series means: of any
        that begins with the prefix.

        Without ``low`` and ``high`` the scan has all of these events.
        """
        keys = KeyRange(entry.table, "", *choose_form(entry.layout).find_key_range(start, end))
        low, high = low or entry.layout.make_edge(start), high or entry.layout.make_edge(end)
        suffixes = entry.layout.list_suffixes(series, (), series_prefix)
        scan = cls(
            entry=entry, start=start, end=end, keys=keys, partitions=partitions, suffixes=suffixes, low=low, high=high
        )
        # In a table by series, the partitions imply the series.
        return replace(scan, series=series) if entry.layout.partition_by == "time" else scan

    def make_first_reads(self, count: int) -> list[RangeRead]:
        """Make the reads of the first page of each range: only a few packs, because one may hold all wanted events."""
        limit = self.count_first(count)
        return [RangeRead(keys, limit) for keys in self.ranges]

    def count_first(self, count: int) -> int:
        """Count the packs of each range to read first, if ``count`` events of the scan are wanted."""
        return max(LEAST_PACKS, compute_share(ceil(count / _EVENTS_PER_PACK), max(self.count, 1)))

    def measure_events(self, table: Table) -> tuple[float, float]:
        """Estimate the events of the table: nobody has counted the events in packs."""
        return table.size_bytes / _PACKED_BYTES, _PACKED_BYTES

    def estimate_parts(self, each: float, total: float, size: float, item_bytes: float, first: int) -> list[float]:
        """Divide the wanted events into requests: a pack is read completely, and one more settles the last events."""
        if not (each and item_bytes):
            return [each]
        pack = max(item_bytes / size, 1.0)
        each = min((ceil(each / pack) + 1) * pack, max(total, each))
        # The first request reads few packs, and the second request the others.
        begun = min(each, self.count_first(first) * pack) if first else each
        return [part for part in (begun, each - begun) if part > 1e-6]

    @property
    def is_guess(self) -> bool:
        """True: nobody has counted the events in packs."""
        return True


def plan_pack_scan(
    query: Query, path: AccessPath, entry: Entry, partitions: Sequence[str], start: datetime, end: datetime
) -> PackScan:
    """Plan the scan of a table of packs, with bounds for the packs that may hold an event, and bounds for the events."""
    layout, after = entry.layout, query.after
    low, high = layout.make_edge(start), layout.make_edge(end)
    first, last = start, end
    if after is not None:
        place = after.make_sort_key(layout.find_ordering_layout(query.series))
        if query.ascending and place >= low:
            # Begin after the place itself. An instant without series and id is before all events of its time, so begin
            # at it.
            low, first = f"{place}\0" if after.id else place, after.time
        elif not query.ascending and place < high:
            high, last = place, after.time + MOMENT
    prefix = query.names.series_prefix
    scan = PackScan.of(entry, first, last, partitions, query.names.series, series_prefix=prefix, low=low, high=high)
    return replace(scan, start=start, end=end, conditions=path.conditions)


def make_damaged_gap(scan: PackScan, item: Item) -> Gap | None:
    """Make the gap in a scan's range where a damaged pack may have held events; None if the pack cannot have events
    there.
    """
    newest, text = from_text(item["sk"][:TEXT_LENGTH]), str(item.get("oldest"))
    try:
        oldest = from_text(text if text.endswith("Z") else "")
        is_credible = oldest <= newest
    except ValueError:
        is_credible = False
    if not is_credible:
        oldest = newest - timedelta(seconds=choose_form(scan.entry.layout).span)
    start, end = max(oldest, scan.start), min(newest + MOMENT, scan.end)
    return Gap(start, end, GapReason.DAMAGED_PACK) if start < end else None
