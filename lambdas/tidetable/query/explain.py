"""Explain a query without reading: name the tables and ranges that it would read, and estimate the cost."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec

from tidetable.conditions import Condition, NameConditions
from tidetable.config import Stream
from tidetable.ports import CatalogReader, Pools, Table, Tables
from tidetable.query.estimate import Estimate, estimate_query
from tidetable.query.model import Query, Reader
from tidetable.query.plan import MAX_LOOKED, plan_page
from tidetable.query.read import AHEAD
from tidetable.query.scans import Plan, Scan
from tidetable.times import to_text

# At most this many scans are shown: a year of small buckets has more scans than fit into an answer.
MAX_SHOWN = 500
# A number that is greater than any number of events.
_EVERYTHING = 10**9


def explain_query(
    query: Query, stream: Stream, reader: Reader, tables: Tables, now: datetime, whole: Plan | None = None
) -> dict[str, Any]:
    """Describe what a query would read, and estimate the cost. At most ``MAX_LOOKED`` periods are looked at.

    ``whole`` is a plan to use instead of the query's own plan. It is read to the end, whatever the query's limit is.
    """
    page = plan_page(reader.catalog, query, consistent=False)
    plan = whole or Plan(list(page.scans), sorted(page.gaps, key=attrgetter("start")))
    count = 0 if whole else query.limit + 1
    shown = {
        "stream": query.stream,
        "from": to_text(query.start),
        "to": to_text(query.end),
        **show_names(query.names),
        "where": show_conditions(query.conditions),
        "order": "asc" if query.ascending else "desc",
        "limit": None if whole else query.limit,
        "consistent": query.consistent,
        "priority": "low" if query.low_priority else "normal",
    }
    if whole:
        query = msgspec.structs.replace(query, limit=_EVERYTHING)
    estimated = estimate_query(query, plan, describe_tables(plan, tables, reader.pools), now, count)
    document = show_plan(shown, plan, query, estimated)
    if page.stops:
        document["explained_to"] = to_text(page.stops[0])
    return document | show_since(stream, reader.catalog, query.start, query.end)


def describe_tables(plan: Plan, tables: Tables, pools: Pools) -> dict[str, Table | None]:
    """Read DynamoDB's descriptions of the tables of a plan."""
    live = sorted({scan.table for scan in plan.scans if scan.table is not None})
    with pools(AHEAD) as pool:
        return dict(zip(live, pool.map(tables.describe, live), strict=True))


def show_plan(shown: dict[str, Any], plan: Plan, query: Query | None, estimated: Estimate) -> dict[str, Any]:
    """Show a plan: its scans, each with the filters that are applied after reading, and the estimated cost.

    A scan that ``unpacks`` applies its filters to the events of packs, after it has unpacked them.
    """
    scans = iter(plan.scans)
    return {
        "query": shown,
        "stages": [_show_scan(scan, scan.list_filters(query)) for scan in islice(scans, MAX_SHOWN)],
        "stages_left_out": sum(1 for _ in scans),
        "gaps": [gap.document() for gap in plan.gaps],
        "estimate": estimated.document(),
    }


def show_since(stream: Stream, catalog: CatalogReader, start: datetime, end: datetime) -> dict[str, Any]:
    """Find the indexes of the stream that a table in the range lacks, each with the instant from which on tables have
    it.

    Only tables that are made after an index was configured have it, so the instant is the start of a period; None if no
    table has it yet. Queries read the older tables without the index, as far as that is possible. At most
    ``MAX_LOOKED`` periods of the range and ``MAX_LOOKED`` periods behind it are looked at, the newest of both.
    """
    if not stream.layout.indexes:
        return {}
    walks = (catalog.walk(stream.name, *span) for span in ((start, end), (end, None)))
    entries = {entry.period: entry for walk in walks for entry in islice(walk, MAX_LOOKED)}
    periods = sorted(entries.values(), key=lambda entry: entry.period.start)
    starts: dict[str, str | None] = {}
    for index in stream.layout.indexes:
        without = [entry.period.end for entry in periods if entry.live and index not in entry.layout.indexes]
        if without and any(entry.period.start < end for entry in periods if index not in entry.layout.indexes):
            later = [entry.period.start for entry in periods if entry.period.start >= max(without)]
            starts[index.name] = to_text(later[0]) if later else None
    return {"indexes_since": starts} if starts else {}


def show_names(names: NameConditions) -> dict[str, Any]:
    """Show the conditions on names in a plan: a single series as a text, several series as a list."""
    series = list(names.series)
    shown: dict[str, Any] = {"series": series if len(series) > 1 else series[0] if series else None}
    more = {"series:prefix": names.series_prefix, "id": list(names.ids), "id:prefix": names.id_prefix}
    return shown | {name: value for name, value in more.items() if value}


def show_conditions(conditions: Sequence[Condition]) -> list[dict[str, Any]]:
    return [{"field": condition.field, condition.operator: list(condition.values)} for condition in conditions]


def _show_scan(scan: Scan, filters: list[str]) -> dict[str, Any]:
    return {
        "period": scan.entry.period.label,
        "source": scan.source[0],
        "table": scan.table,
        "index": scan.source[1],
        "from": to_text(scan.start),
        "to": to_text(scan.end),
        "ranges": scan.count or 1,
        "filtered_by": filters,
        "fetches": scan.fetches,
        "unpacks": scan.unpacks,
    }
