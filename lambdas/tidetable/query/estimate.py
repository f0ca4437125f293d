"""Estimating a query: about how many read units and requests it takes, without reading anything.

The events of a period are taken as evenly spread over its time and its suffixes, at the sizes of tables
and indexes that DynamoDB counts about every six hours. The estimate says how many it has not counted yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil
from typing import Any

from tidetable.keys import WHOLE
from tidetable.ports import Table
from tidetable.query.fetch import AHEAD, share
from tidetable.query.params import Query
from tidetable.query.plan import Plan, Stage

# AWS: a read unit is 4 KB, half of it if the read need not be consistent; a page ends at 1 MB.
_UNIT, _PAGE = 4096, 1024 * 1024
_USUAL_BYTES = 1024.0
# AWS: BatchGetItem takes so many keys.
_KEYS = 100
# Of how many series a table holds events nobody has counted.
_SERIES_SHARE = 0.01
# So many pages are followed one by one; the others are taken to cost as much.
_FOLLOWED = 100


@dataclass(slots=True)
class Spent:
    """Read units and requests."""

    units: float = 0.0
    requests: float = 0

    def add(self, units: float, requests: float) -> None:
        """Take some more into account."""
        self.units += units
        self.requests += requests

    def at_least(self, other: Spent) -> None:
        """Be no less than another."""
        self.units, self.requests = max(self.units, other.units), max(self.requests, other.requests)

    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        return {"read_units": round(self.units, 1), "requests": ceil(self.requests)}


@dataclass(slots=True)
class Estimate:
    """Read units and requests of a page and of all pages, and how many pages there are.

    ``unknown`` are tables and indexes that DynamoDB has not counted yet, ``guessed`` stages of a series or a value whose share
    nobody has counted.
    """

    page: Spent = field(default_factory=Spent)
    all: Spent = field(default_factory=Spent)
    pages: int = 1
    unknown: int = 0
    guessed: int = 0

    def part(self, stage: Stage, table: Table | None, now: datetime) -> _Part:
        """What a stage holds; what is guessed of that is noted."""
        events, size = _density(stage, table, now)
        if stage.archive is None:
            self.unknown += size is None
            self.guessed += _is_guess(stage)
        return _Part(stage, table, events, _USUAL_BYTES if size is None else size, max(stage.count, 1))

    def document(self) -> dict[str, Any]:
        """The estimate as JSON."""
        return {
            "page": self.page.document(),
            "all_pages": self.all.document(),
            "pages": self.pages,
            "tables_of_unknown_size": self.unknown,
            "guessed_shares": self.guessed,
        }


@dataclass(slots=True)
class _Part:
    """A stage with the events that it is taken to hold, of so many bytes each, evenly in all of its ranges."""

    stage: Stage
    table: Table | None
    events: float
    size: float
    ranges: int

    def cost(self, events: float, shown: float, *, consistent: bool = False) -> tuple[float, float]:
        """Read units and requests of reading so many of its events, of which so many are shown."""
        if self.stage.archive is not None:
            # A read of an archive costs no units.
            return 0.0, 1
        units, requests = _cost(events / self.ranges, self.size, consistent=consistent)
        more = _got(self.stage, self.table, shown)
        return self.ranges * units + more[0], self.ranges * requests + more[1]


def estimate(query: Query, plan: Plan, tables: Mapping[str, Table | None], now: datetime) -> Estimate:
    """About what a query costs: its first page, and all pages.

    How much a filter lets through nobody knows: the first page is estimated as if it were nothing, all pages as if it were
    everything.
    """
    found = Estimate()
    parts = [found.part(stage, tables.get(stage.entry.table), now) for stage in plan.stages]
    filtered = any(stage.filtered_by(query) or _is_filtered(stage) for stage in (part.stage for part in parts))
    pages = _Pages(parts, query)
    followed, walked = Spent(), 0
    while walked < _FOLLOWED and not pages.ended:
        before = pages.events
        page = pages.next_page()
        followed.add(page.units, page.requests)
        walked += 1
        if walked == 1:
            found.page = page
        if pages.events == before:
            break
    total = sum(part.events for part in parts)
    found.pages = max(ceil(total / query.limit), 1)
    found.all.add(followed.units, followed.requests)
    if not pages.ended and walked:
        rest = max(found.pages - walked, 0)
        found.all.add(rest * followed.units / walked, rest * followed.requests / walked)
    whole = Spent()
    for part in parts:
        whole.add(*part.cost(part.events, part.events, consistent=query.consistent))
    found.all.at_least(whole)
    if filtered:
        found.page = Spent(whole.units, whole.requests)
    return found


class _Pages:
    """The pages of a walk over some stages, whose stages are begun one, then two, then four at a time on each page."""

    def __init__(self, parts: Sequence[_Part], query: Query) -> None:
        self._parts = parts
        self._query = query
        self._at = 0
        # How much of the part under way earlier pages took, and how many events they showed.
        self._taken = 0.0
        self.events = 0.0

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to read."""
        return self._at >= len(self._parts)

    def next_page(self) -> Spent:
        """What the next page costs."""
        page, left = Spent(), float(self._query.limit)
        number, ahead = self._at, 1
        while number < len(self._parts) and left > 0:
            for part in self._parts[number : number + ahead]:
                held = part.events - (self._taken if part is self._parts[self._at] else 0.0)
                # A page looks for one event more than it shows.
                each = min(held / part.ranges, share(max(ceil(left) + 1, 1), part.ranges))
                shown = min(held, max(left, 0.0))
                page.add(*part.cost(each * part.ranges, shown, consistent=self._query.consistent))
                left -= shown
                self._pass(part, held, shown)
            number, ahead = number + ahead, min(2 * ahead, AHEAD)
        return page

    def _pass(self, part: _Part, held: float, shown: float) -> None:
        """Take events of a part as shown; where all of them are, the walk goes on with the next part."""
        self.events += shown
        if self.ended or part is not self._parts[self._at]:
            return
        if held - shown > 1e-6:
            self._taken += shown
        else:
            self._at, self._taken = self._at + 1, 0.0


def estimate_top(stages: Sequence[Stage], limit: int, tables: Mapping[str, Table | None], now: datetime) -> Estimate:
    """About what the first of a ranking cost: a few of each range, all at once, and then a few more of some."""
    found = Estimate()
    parts = [found.part(stage, tables.get(stage.entry.table), now) for stage in stages]
    ranges = max(sum(part.ranges for part in parts if part.stage.archive is None), 1)
    for part in parts:
        stage = part.stage
        if not (stage.archive is not None or stage.count):
            continue
        times = stage.keys is not None and stage.keys.times is not None
        # How much a filter lets through nobody knows: it is estimated as if it were nothing.
        whole = bool(times or stage.conditions)
        each = part.events if whole else min(part.events, part.ranges * share(limit + 1, ranges))
        found.page.add(*part.cost(each, min(part.events, limit * part.ranges / ranges)))
        found.all.add(*part.cost(part.events, part.events))
    found.pages = max(ceil(sum(part.events for part in parts) / limit), 1)
    found.all.at_least(Spent(found.pages * found.page.units, found.pages * found.page.requests))
    return found


def _density(stage: Stage, table: Table | None, now: datetime) -> tuple[float, float | None]:
    """How many events a stage holds if they are evenly spread, and the bytes of each, if they have been counted."""
    period = stage.entry.period
    # Of the period under way only what has passed has events.
    passed = min(period.end, now) - period.start
    part = max(0.0, (min(stage.end, now) - stage.start) / passed) if passed > timedelta(0) else 1.0
    if stage.archive is not None:
        return (0.0 if stage.entry.archive is None else stage.entry.archive.events * min(part, 1.0)), None
    if table is None or not table.item_count:
        return 0.0, None
    count, size = table.item_count, table.size_bytes
    if stage.index is not None:
        count, size = table.index_sizes.get(stage.index.name, (count, size))
    if not count:
        # It is empty, or has not been counted yet: an index is counted apart from its table.
        return 0.0, None
    return count * part * _share_of(stage), size / count


def _share_of(stage: Stage) -> float:
    """Which share of a table's or an index's events a stage is taken to hold, besides its time.

    Nobody has counted the values of an index: one value may be all that the index holds, which DynamoDB counts, and is
    taken for that, the most that it can be. Of a table's series there is no such bound below the whole table.
    """
    if stage.source == "index" and stage.index is not None:
        return len(stage.suffixes) / stage.index.shards
    layout = stage.entry.layout
    if layout.partition_by == "series":
        series = len({keys.pk.rpartition("#")[0] for keys in stage.spread}) or 1
        return min(series * _SERIES_SHARE, 1.0)
    return len(stage.suffixes) / layout.shards


def _is_guess(stage: Stage) -> bool:
    """Whether a stage is of some series, or of some values of an index."""
    if stage.source == "index":
        return stage.index is not None and stage.index.partition_by != WHOLE
    return stage.archive is None and stage.entry.layout.partition_by == "series"


def _is_filtered(stage: Stage) -> bool:
    """Whether an archive's reader leaves out events of its range."""
    keys = stage.archive
    return keys is not None and bool(keys.conditions or any(keys.names))


def _got(stage: Stage, table: Table | None, events: float) -> tuple[float, int]:
    """Read units and requests of getting events from the table that an index does not hold whole."""
    if not stage.fetches or table is None or not table.item_count:
        return 0.0, 0
    each = max(1, ceil(table.size_bytes / table.item_count / _UNIT)) / 2
    return events * each, ceil(events / _KEYS)


def _cost(events: float, size: float, *, consistent: bool) -> tuple[float, int]:
    """Read units and requests of one range that so many events are read of."""
    read = events * size
    units = max(1, ceil(read / _UNIT)) / (1 if consistent else 2)
    return units, max(1, ceil(read / _PAGE))
