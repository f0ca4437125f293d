"""Explaining a query: what would be read, and about how much, without reading it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from tidetable.conditions import Condition, Names
from tidetable.ports import Pools, Table, Tables
from tidetable.query.estimate import Estimate, estimate
from tidetable.query.model import ArchiveScan, Gap, IndexScan, PackScan, Plan, Query, Scan, list_filters, list_gaps
from tidetable.query.scan import AHEAD
from tidetable.times import to_text

# A year of small buckets has more scans than an answer has room for.
MAX_SHOWN = 500
# More events than there are.
_EVERYTHING = 10**9


def describe_tables(scans: Iterable[Scan], tables: Tables, pools: Pools) -> dict[str, Table | None]:
    """The tables of some scans as DynamoDB describes them."""
    live = sorted({scan.entry.table for scan in scans if not isinstance(scan, ArchiveScan)})
    with pools(AHEAD) as pool:
        return dict(zip(live, pool.map(tables.describe, live), strict=True))


def explain_plan(
    query: Query, plan: Plan, tables: Mapping[str, Table | None], now: datetime, *, whole: bool = False
) -> dict[str, Any]:
    """The plan of a query as the API shows it; with ``whole``, of one that reads its range to the end."""
    if whole:
        query = msgspec.structs.replace(query, limit=_EVERYTHING)
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
    scans = ((scan, list_filters(scan, query)) for scan in plan.scans)
    return show_plan(shown, scans, plan.gaps, estimate(query, plan, tables, now))


def show_plan(
    query: dict[str, Any], scans: Iterable[tuple[Scan, list[str]]], gaps: Sequence[Gap], estimated: Estimate
) -> dict[str, Any]:
    """A plan: its scans, each with the filters applied after reading, and what they are estimated to cost.

    A scan that ``unpacks`` applies its filters to the events of whole packs, when those are unpacked.
    """
    coming = iter(scans)
    return {
        "query": query,
        "stages": [_show_scan(scan, filters) for scan, filters in islice(coming, MAX_SHOWN)],
        "stages_left_out": sum(1 for _ in coming),
        "gaps": list_gaps(gaps),
        "estimate": estimated.document(),
    }


def show_names(names: Names) -> dict[str, Any]:
    """Conditions on names as a plan shows them: a series alone by itself, several as a list."""
    series = list(names.series)
    shown: dict[str, Any] = {"series": series if len(series) > 1 else series[0] if series else None}
    more = {"series:prefix": names.series_prefix, "id": list(names.ids), "id:prefix": names.id_prefix}
    return shown | {name: value for name, value in more.items() if value}


def show_conditions(conditions: Sequence[Condition]) -> list[dict[str, Any]]:
    """Conditions as a plan shows them."""
    return [{"field": condition.field, condition.operator: list(condition.values)} for condition in conditions]


def _show_scan(scan: Scan, filters: list[str]) -> dict[str, Any]:
    return {
        "period": scan.entry.period.label,
        "source": scan.source,
        "table": None if isinstance(scan, ArchiveScan) else scan.entry.table,
        "index": scan.index_name,
        "from": to_text(scan.start),
        "to": to_text(scan.end),
        "ranges": scan.count or 1,
        "filtered_by": filters,
        "fetches": isinstance(scan, IndexScan) and scan.fetches,
        "unpacks": isinstance(scan, PackScan),
    }
