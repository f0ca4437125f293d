"""Find the periods of a ranking, and describe its reads without making them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.ports import CatalogReader, Tables
from tidetable.problems import refuse_request
from tidetable.query.estimate import estimate_ranking
from tidetable.query.explain import describe_tables, show_conditions, show_plan, show_since
from tidetable.query.model import Reader
from tidetable.query.rankings.ranking_parameters import Ranking, plan_ranking
from tidetable.query.scans import Plan, find_visible_gaps
from tidetable.times import to_text

# A ranking reads every period of its range before its first event is known. No function has the time for more requests,
# and these entries take about 540 read units.
MAX_PERIODS = 10_000
_AT_ONCE = 1_024


def find_ranked(ranking: Ranking, catalog: CatalogReader, *, consistent: bool) -> Sequence[Entry]:
    """Read the entries of a ranking's range; ProblemError if they are too many."""
    start, end = ranking.start, ranking.end
    walk = catalog.walk(ranking.stream, start, end, ascending=True, consistent=consistent, at_once=_AT_ONCE)
    entries = list(islice(walk, MAX_PERIODS + 1))
    if len(entries) > MAX_PERIODS:
        detail = f"the range has more than {MAX_PERIODS:,} periods, and a ranking reads all of them: narrow from and to"
        raise refuse_request(422, "too_much", detail)
    return entries


def explain_top(ranking: Ranking, stream: Stream, reader: Reader, tables: Tables, now: datetime) -> dict[str, Any]:
    """Describe what ``find_top`` would read, and estimate the cost."""
    plan = plan_ranking(ranking, find_ranked(ranking, reader.catalog, consistent=False))
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
