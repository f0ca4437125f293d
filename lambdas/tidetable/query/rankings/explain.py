"""Explaining a ranking: what would be read, and about how much."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tidetable.config import Stream
from tidetable.ports import Tables
from tidetable.query.estimate import estimate_top
from tidetable.query.explain import shown_plan, where_of
from tidetable.query.plan import Gap, Stage
from tidetable.query.rankings.asked import Ranking, plan_ranking
from tidetable.query.read import Reader
from tidetable.query.run import described, told_gaps
from tidetable.times import to_text


def explain_top(ranking: Ranking, stream: Stream, reader: Reader, tables: Tables, now: datetime) -> dict[str, Any]:
    """What ``find_top`` would read, and about how much."""
    gaps: list[Gap] = []
    stages = plan_ranking(ranking, reader.catalog.entries(stream.name, ranking.start, ranking.end), gaps)
    found = estimate_top(stages, ranking.limit, described(stages, tables, reader.pools), now)
    asked = {
        "stream": ranking.stream,
        "index": ranking.index.name,
        "value": ranking.value,
        "from": to_text(ranking.start),
        "to": to_text(ranking.end),
        "where": where_of(ranking.conditions),
        "order": "asc" if ranking.ascending else "desc",
        "limit": ranking.limit,
    }
    filtered = ((stage, _filtered_by(stage)) for stage in stages)
    return shown_plan(asked, filtered, told_gaps(gaps, now), found)


def _filtered_by(stage: Stage) -> list[str]:
    """What more is read than a ranking asks for, by what is left out of it again."""
    times = ["time"] if stage.keys is not None and stage.keys.times is not None else []
    return [*times, *(f"where.{one.field}" for one in stage.conditions)]
