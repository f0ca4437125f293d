"""Explaining a ranking: what would be read, and about how much."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tidetable.config import Stream
from tidetable.ports import Tables
from tidetable.query.estimate import estimate_top
from tidetable.query.events import visible_gaps
from tidetable.query.explain import describe_tables, show_conditions, show_plan
from tidetable.query.model import ArchiveScan, Gap, Reader, Scan
from tidetable.query.rankings.parse import Ranking, plan_ranking
from tidetable.times import to_text


def explain_top(ranking: Ranking, stream: Stream, reader: Reader, tables: Tables, now: datetime) -> dict[str, Any]:
    """What ``find_top`` would read, and about how much."""
    gaps: list[Gap] = []
    scans = plan_ranking(ranking, reader.catalog.entries(stream.name, ranking.start, ranking.end), gaps)
    estimated = estimate_top(scans, ranking.limit, describe_tables(scans, tables, reader.pools), now)
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
    return show_plan(query, ((scan, _filters(scan)) for scan in scans), visible_gaps(gaps, now), estimated)


def _filters(scan: Scan) -> list[str]:
    """The filters applied after reading: the parameters for which this scan may read in vain."""
    times = ["time"] if not isinstance(scan, ArchiveScan) and scan.keys.times is not None else []
    return [*times, *(f"where.{condition.field}" for condition in scan.conditions)]
