"""Explaining a query: what would be read, and about how much, without reading it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Any

from tidetable.conditions import Condition, Names
from tidetable.ports import Table
from tidetable.query.answer import gaps_of
from tidetable.query.estimate import Estimate, estimate
from tidetable.query.params import Query
from tidetable.query.plan import Gap, Plan, Stage
from tidetable.times import to_text

# A year of small buckets has more stages than an answer has room for.
MAX_SHOWN = 500
# More events than there are.
_EVERYTHING = 10**9


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
        **names_of(query.names),
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


def names_of(names: Names) -> dict[str, Any]:
    """Conditions on names as a plan shows them: a series alone by itself, several as a list."""
    series = list(names.series)
    shown: dict[str, Any] = {"series": series if len(series) > 1 else series[0] if series else None}
    more = {"series:prefix": names.series_prefix, "id": list(names.ids), "id:prefix": names.id_prefix}
    return shown | {name: value for name, value in more.items() if value}


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
