"""Describe the reads of a ranking, without making them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tidetable.config import Stream
from tidetable.ports import Tables
from tidetable.query.estimate import estimate_ranking
from tidetable.query.explain import describe_tables, show_conditions, show_plan, show_since
from tidetable.query.model import Reader
from tidetable.query.rankings.ranking_parameters import Ranking, plan_ranking
from tidetable.query.scans import Plan, find_visible_gaps
from tidetable.times import to_text


def explain_top(ranking: Ranking, stream: Stream, reader: Reader, tables: Tables, now: datetime) -> dict[str, Any]:
    """Describe what ``find_top`` would read, and estimate the cost."""
    entries = reader.catalog.entries(stream.name, ranking.start, ranking.end)
    plan = plan_ranking(ranking, entries)
    described = describe_tables(plan, tables, reader.pools)
    estimated = estimate_ranking(plan, ranking.limit, described, now, consistent=ranking.consistent)
    query = {
        "stream": ranking.stream,
        "index": ranking.index.name,
        "value": ranking.value,
        "from": to_text(ranking.start),
        "to": to_text(ranking.end),
        "where": show_conditions(ranking.conditions),
        "order": "asc" if ranking.ascending else "desc",
        "limit": ranking.limit,
    }
    shown = show_plan(query, Plan(plan.scans, find_visible_gaps(plan.gaps, now)), None, estimated)
    return shown | show_since(stream, reader.catalog, ranking.start, ranking.end)
