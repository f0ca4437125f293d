"""Estimate the read units and the requests of a query, without reading anything.

The estimate assumes that the events of a period are evenly spread over its time and its suffixes. DynamoDB counts the
sizes of tables and indexes about every six hours. The estimate says how many tables and indexes DynamoDB has not
counted yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from math import ceil
from typing import Any

import msgspec

from tidetable.ports import GET_ITEMS, Table
from tidetable.query.merge import compute_share
from tidetable.query.model import Query
from tidetable.query.read import AHEAD
from tidetable.query.scans import Plan, Scan

# AWS: 4 KB take one read unit, or half a unit if the read need not be strongly consistent. A page ends at 1 MB.
_UNIT, _PAGE = 4096, 1024 * 1024
_USUAL_BYTES = 1024.0
# At most this many pages are computed one by one. The other pages are assumed to cost as much as these.
_FOLLOWED = 100


class Spent(msgspec.Struct):
    """Read units and requests."""

    units: float = 0.0
    requests: float = 0

    def add(self, units: float, requests: float) -> None:
        self.units += units
        self.requests += requests

    def raise_to(self, other: Spent) -> None:
        """Raise each figure to the other's figure if that is greater."""
        self.units, self.requests = max(self.units, other.units), max(self.requests, other.requests)

    def document(self) -> dict[str, Any]:
        return {"read_units": round(self.units, 1), "requests": ceil(self.requests)}


class Estimate(msgspec.Struct):
    """The read units and requests of a page and of all pages, and the number of pages.

    ``unknown`` counts the scans of tables and indexes that DynamoDB has not counted yet. ``guessed`` counts the scans
    whose estimate is a guess. These are scans of a series or a value, because nobody has counted its share, and scans
    of packs, because nobody has counted their events.
    """

    page: Spent = msgspec.field(default_factory=Spent)
    all: Spent = msgspec.field(default_factory=Spent)
    pages: int = 1
    unknown: int = 0
    guessed: int = 0

    def add_scan(
        self, scan: Scan, table: Table | None, now: datetime, *, consistent: bool = False, count: int = 0
    ) -> _Segment:
        """Estimate the events of a scan, and count guesses. A query reads ``count`` events at a time; 0 means all."""
        events, size = scan.estimate_events(table, now)
        self.unknown += size is None
        self.guessed += scan.is_guess
        size = _USUAL_BYTES if size is None else size
        return _Segment(scan, table, events, size, max(scan.count, 1), consistent, count)

    def document(self) -> dict[str, Any]:
        return {
            "page": self.page.document(),
            "all_pages": self.all.document(),
            "pages": self.pages,
            "tables_of_unknown_size": self.unknown,
            "guessed_shares": self.guessed,
        }


class _Segment(msgspec.Struct):
    """A scan with its assumed number of events.

    Each event has ``size`` bytes, and all ranges have equally many events.
    """

    scan: Scan
    table: Table | None
    events: float
    size: float
    ranges: int
    consistent: bool = False
    first: int = 0

    def compute_cost(self, events: float, shown: float) -> tuple[float, float]:
        """Return the read units and requests for reading ``events`` of its events; ``shown`` of them are shown."""
        scan, table = self.scan, self.table
        item_bytes = table.size_bytes / table.item_count if table is not None and table.item_count else None
        each = events / self.ranges
        parts = scan.estimate_parts(each, self.events / self.ranges, self.size, item_bytes or 0.0, self.first)
        costs = [_estimate_cost(part, self.size, consistent=self.consistent) for part in parts]
        units = self.ranges * sum(units for units, _ in costs)
        # An archive is read by a request that costs no read units.
        requests = self.ranges * max(sum(requests for _, requests in costs), 1)
        if scan.fetches and item_bytes is not None:
            # The events are fetched from the table, because the index does not hold all of their data.
            units += shown * max(1, ceil(item_bytes / _UNIT)) / (1 if self.consistent else 2)
            requests += ceil(shown / GET_ITEMS)
        return units, requests


def estimate_query(query: Query, plan: Plan, tables: Mapping[str, Table | None], now: datetime, count: int) -> Estimate:
    """Estimate the cost of a query that reads ``count`` events at a time (0: all): of its first page, and of all pages.

    Nobody knows how many events pass a filter. The estimate of the first page assumes that no event passes. The
    estimate of all pages assumes that all events pass.
    """
    estimated = Estimate()
    segments = []
    for scan in plan.scans:
        # Cells of a rollup are always read strongly consistent: eventually read cells could be older than its state.
        consistent = query.consistent or scan.entry.stream != query.stream
        segments.append(estimated.add_scan(scan, tables.get(scan.entry.table), now, consistent=consistent, count=count))
    filtered = any(segment.scan.is_filtered(query) for segment in segments)
    pages = list(islice(_walk_pages(segments, query), _FOLLOWED + 1))
    estimated.pages = max(ceil(sum(segment.events for segment in segments) / query.limit), 1)
    for page in pages[:_FOLLOWED]:
        estimated.all.add(page.units, page.requests)
    if len(pages) > _FOLLOWED:
        share_left = max(estimated.pages - _FOLLOWED, 0) / _FOLLOWED
        estimated.all.add(share_left * estimated.all.units, share_left * estimated.all.requests)
    whole = Spent()
    for segment in segments:
        whole.add(*segment.compute_cost(segment.events, segment.events))
    estimated.all.raise_to(whole)
    estimated.page = whole if filtered else pages[0] if pages else Spent()
    return estimated


def _walk_pages(segments: Sequence[_Segment], query: Query) -> Iterator[Spent]:
    """Compute the costs of the pages of a walk over some scans.

    Each page begins one scan, then two at a time, then four.
    """
    # The number of the current segment, and the number of its events on earlier pages.
    current, done = 0, 0.0
    while current < len(segments):
        page, wanted_events = Spent(), float(query.limit)
        number, ahead = current, 1
        while number < len(segments) and wanted_events > 0:
            for place, segment in enumerate(segments[number : number + ahead], number):
                events = segment.events - (done if place == current else 0.0)
                # A page reads one event more than it shows.
                each = min(events / segment.ranges, compute_share(max(ceil(wanted_events) + 1, 1), segment.ranges))
                if not segment.scan.in_order:
                    # Each page reads the whole scan again.
                    each = segment.events / segment.ranges
                shown_events = min(events, max(wanted_events, 0.0))
                page.add(*segment.compute_cost(each * segment.ranges, shown_events))
                wanted_events -= shown_events
                if place == current:
                    current, done = (
                        (current, done + shown_events) if events - shown_events > 1e-6 else (current + 1, 0.0)
                    )
            number, ahead = number + ahead, min(2 * ahead, AHEAD)
        yield page


def estimate_ranking(
    plan: Plan, limit: int, tables: Mapping[str, Table | None], now: datetime, *, consistent: bool = False
) -> Estimate:
    """Estimate the cost of a ranking: a few items of each range at once, and then some more of a few ranges."""
    estimated = Estimate()
    segments = [
        estimated.add_scan(scan, tables.get(scan.entry.table), now, consistent=consistent) for scan in plan.scans
    ]
    ranges = max(sum(segment.scan.count for segment in segments), 1)
    for segment in segments:
        scan = segment.scan
        if scan.table is not None and not scan.count:
            continue
        # Nobody knows how many events pass a filter: the estimate assumes that no event passes.
        whole = bool(scan.list_filters(None))
        each = segment.events if whole else min(segment.events, segment.ranges * compute_share(limit + 1, ranges))
        estimated.page.add(*segment.compute_cost(each, min(segment.events, limit * segment.ranges / ranges)))
        estimated.all.add(*segment.compute_cost(segment.events, segment.events))
    estimated.pages = max(ceil(sum(segment.events for segment in segments) / limit), 1)
    estimated.all.raise_to(Spent(estimated.pages * estimated.page.units, estimated.pages * estimated.page.requests))
    return estimated


def _estimate_cost(events: float, size: float, *, consistent: bool) -> tuple[float, int]:
    """Estimate read units and requests for reading ``events`` events of one range, each of ``size`` bytes."""
    read = events * size
    units = max(1, ceil(read / _UNIT)) / (1 if consistent else 2)
    return units, max(1, ceil(read / _PAGE))
