"""Explaining a query: what would be read, and about how much, without reading it.

The estimate takes the events of a period as evenly spread over its time and its suffixes, at the sizes that DynamoDB tells of
its tables about every six hours. Of a table that has told nothing yet it says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from math import ceil
from typing import Any

from tidetable.conditions import Condition
from tidetable.keys import WHOLE
from tidetable.ports import Table
from tidetable.query.answer import gaps_of
from tidetable.query.fetch import AHEAD, share
from tidetable.query.params import Query
from tidetable.query.plan import Gap, Plan, Stage
from tidetable.times import to_text

# AWS: a read unit is 4 KB, half of it if the read need not be consistent; a page ends at 1 MB.
_UNIT, _PAGE = 4096, 1024 * 1024
# A year of small buckets has more stages than an answer has room for.
MAX_SHOWN = 500
# More events than there are.
_EVERYTHING = 10**9
# A read of an archive costs no units.
_ARCHIVE = (0.0, 1)
_USUAL_BYTES = 1024.0
# AWS: BatchGetItem takes so many keys.
_KEYS = 100


@dataclass(slots=True)
class Spent:
    """Read units and requests."""

    units: float = 0.0
    requests: int = 0

    def add(self, ranges: int, each: tuple[float, int], got: tuple[float, int] = (0.0, 0)) -> None:
        """Take some ranges into account, each of them so dear, and what is got from their table."""
        self.units += ranges * each[0] + got[0]
        self.requests += ranges * each[1] + got[1]

    def document(self) -> dict[str, Any]:
        """The same as JSON."""
        return {"read_units": round(self.units, 1), "requests": self.requests}


@dataclass(slots=True)
class Estimate:
    """Read units and requests of a page and of all pages.

    ``unknown`` are tables that have told no size yet, ``guessed`` stages of a series or a value whose share nobody knows.
    """

    page: Spent = field(default_factory=Spent)
    all: Spent = field(default_factory=Spent)
    unknown: int = 0
    guessed: int = 0

    def density(self, stage: Stage, table: Table | None, now: datetime) -> tuple[float, float]:
        """How many events a stage holds, and the bytes of one; what is guessed of that is noted."""
        events, size = _density(stage, table, now)
        self.unknown += size is None
        self.guessed += _is_guess(stage)
        return events, _USUAL_BYTES if size is None else size

    def document(self) -> dict[str, Any]:
        """The estimate as JSON."""
        return {
            "page": self.page.document(),
            "all_pages": self.all.document(),
            "tables_of_unknown_size": self.unknown,
            "guessed_shares": self.guessed,
        }


def explained(
    query: Query, plan: Plan, tables: Mapping[str, Table | None], now: datetime, *, whole: bool = False
) -> dict[str, Any]:
    """The plan of a query as the API shows it; with ``whole``, of one that reads its range to the end."""
    if whole:
        query = replace(query, limit=_EVERYTHING)
    asked = {
        "stream": query.stream,
        "from": to_text(query.start),
        "to": to_text(query.end),
        "series": query.series,
        "where": where_of(query.conditions),
        "order": "asc" if query.ascending else "desc",
        "limit": None if whole else query.limit,
        "consistent": query.consistent,
        "priority": "low" if query.low_priority else "normal",
    }
    stages = ((stage, stage.filtered_by(query)) for stage in plan.stages)
    return shown_plan(asked, stages, plan.gaps, estimate(query, plan, tables, now))


def shown_plan(
    asked: dict[str, Any], stages: Iterable[tuple[Stage, list[str]]], gaps: Sequence[Gap], found: Estimate
) -> dict[str, Any]:
    """A plan: its stages, each with what is filtered after reading, and what they are estimated to cost."""
    coming = iter(stages)
    return {
        "query": asked,
        "stages": [_stage(stage, filtered) for stage, filtered in islice(coming, MAX_SHOWN)],
        "stages_left_out": sum(1 for _ in coming),
        "gaps": gaps_of(gaps),
        "estimate": found.document(),
    }


def where_of(conditions: Sequence[Condition]) -> list[dict[str, Any]]:
    """Conditions as a plan shows them."""
    return [{"field": one.field, one.operator: list(one.values)} for one in conditions]


def _stage(stage: Stage, filtered: list[str]) -> dict[str, Any]:
    return {
        "period": stage.entry.period.label,
        "source": stage.source,
        "table": None if stage.archive is not None else stage.entry.table,
        "index": None if stage.index is None else stage.index.name,
        "from": to_text(stage.start),
        "to": to_text(stage.end),
        "ranges": stage.count or 1,
        "filtered_by": filtered,
        "fetches": stage.fetches,
    }


def estimate(query: Query, plan: Plan, tables: Mapping[str, Table | None], now: datetime) -> Estimate:
    """About what a query costs: its first page, whose stages are begun one, then two, then four at a time, and all pages."""
    found = Estimate()
    left = float(query.limit + 1)
    ahead, begun = 1, 0
    for number, stage in enumerate(plan.stages):
        if number == begun:
            # A full page begins no more.
            reads = left > 0
            begun, ahead = begun + ahead, min(2 * ahead, AHEAD)
        if stage.archive is not None:
            found.all.add(1, _ARCHIVE)
            found.page.add(int(reads), _ARCHIVE)
            continue
        table = tables.get(stage.entry.table)
        events, size = found.density(stage, table, now)
        # A value that no event can have has none.
        ranges = stage.count or 1
        found.all.add(ranges, _cost(events / ranges, size, consistent=query.consistent), _got(stage, table, events))
        if reads:
            filters = bool(stage.filtered_by(query))
            each = events / ranges if filters else min(events / ranges, share(max(ceil(left), 1), ranges))
            got = _got(stage, table, min(events, max(left, 0)))
            found.page.add(ranges, _cost(each, size, consistent=query.consistent), got)
            left -= 0 if filters else events
    return found


def estimate_top(stages: Sequence[Stage], limit: int, tables: Mapping[str, Table | None], now: datetime) -> Estimate:
    """About what the first of a ranking cost: a few of each range, all at once, and then a few more of some."""
    found = Estimate()
    ranges = max(sum(stage.count for stage in stages), 1)
    for stage in stages:
        if stage.archive is not None:
            found.page.add(1, _ARCHIVE)
            found.all.add(1, _ARCHIVE)
            continue
        table = tables.get(stage.entry.table)
        events, size = found.density(stage, table, now)
        whole = events / max(stage.count, 1)
        times = stage.keys is not None and stage.keys.times is not None
        # How much a filter lets through nobody knows: it is estimated as if it were nothing.
        each = whole if times or stage.conditions else min(whole, share(limit + 1, ranges))
        got = _got(stage, table, min(events, limit * stage.count / ranges))
        found.page.add(stage.count, _cost(each, size, consistent=False), got)
        found.all.add(stage.count, _cost(whole, size, consistent=False), _got(stage, table, events))
    return found


def _density(stage: Stage, table: Table | None, now: datetime) -> tuple[float, float | None]:
    """How many events a stage holds if they are evenly spread, and the bytes of one, if its table has told them."""
    if table is None or not table.item_count:
        return 0.0, None
    period = stage.entry.period
    # Of the period under way only what has passed has events.
    passed = min(period.end, now) - period.start
    part = max(0.0, (min(stage.end, now) - stage.start) / passed) if passed > timedelta(0) else 1.0
    count, size = table.item_count, table.size_bytes
    if stage.index is not None:
        count, size = table.index_sizes.get(stage.index.name, (count, size))
    if not count:
        # It is empty, or has told nothing yet: an index is counted apart from its table.
        return 0.0, None
    # Of series and of indexed values nobody has counted how many there are: the answer is for one of a hundred.
    return count * part * (0.01 if _is_guess(stage) else 1.0), size / count


def _got(stage: Stage, table: Table | None, events: float) -> tuple[float, int]:
    """Read units and requests of getting events from the table that an index does not hold whole."""
    if not stage.fetches or table is None or not table.item_count:
        return 0.0, 0
    each = max(1, ceil(table.size_bytes / table.item_count / _UNIT)) / 2
    return events * each, ceil(events / _KEYS)


def _is_guess(stage: Stage) -> bool:
    """Whether a stage is of one series, or of one value of an index."""
    if stage.source == "index":
        return stage.index is not None and stage.index.partition_by != WHOLE
    return stage.archive is None and stage.entry.layout.partition_by == "series"


def _cost(events: float, size: float, *, consistent: bool) -> tuple[float, int]:
    """Read units and requests of one range that so many events are read of."""
    read = events * size
    units = max(1, ceil(read / _UNIT)) / (1 if consistent else 2)
    return units, max(1, ceil(read / _PAGE))
