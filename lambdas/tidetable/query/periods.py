"""Describe the streams and, in pages, the periods of a stream: the catalog's record and the present table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidetable.catalog import Entry, State
from tidetable.catalog_steps import list_open_backfills
from tidetable.config import Config, Stream
from tidetable.config.stream import IndexPolicy
from tidetable.forms.choose import choose_form
from tidetable.layout import Layout
from tidetable.ports import CatalogReader, Pools, Table, Tables
from tidetable.problems import refuse_parameter
from tidetable.query.cursor import Seal
from tidetable.query.parse import Parameters
from tidetable.times import to_text
from tidetable.window import Window

KNOWN = ("from", "to", "tz", "state", "limit", "cursor")
DEFAULT_LIMIT = 100
# A period takes about 700 bytes of an answer, which has at most 6 MB (AWS Lambda). It also takes a DescribeTable of
# about 20 ms.
MAX_LIMIT = 500
# One request reads at most this many entries, of about 600 bytes, from the catalog. A search for a rare state takes
# several pages.
MAX_LOOKED = 2_000
_CHUNK = 200
_CONCURRENCY = 16


def describe_streams(config: Config, now: datetime, shown: Callable[[str], bool] = lambda _: True) -> dict[str, Any]:
    """Describe the streams with their configuration and their window.

    ``shown`` is True for the names of the streams to show.
    """
    return {"streams": [_describe_stream(stream, now) for stream in config.streams.values() if shown(stream.name)]}


def _describe_stream(stream: Stream, now: datetime) -> dict[str, Any]:
    return {
        "stream": stream.name,
        **stream.show_policy(),
        "layout": describe_layout(stream.layout),
        "indexes": [_describe_index(index) for index in stream.index],
        "rollups": [
            {"stream": f"{stream.name}-{rollup.name}", "every": str(rollup.every), "by": rollup.by}
            for rollup in stream.rollup
        ],
        "window": Window.of(stream, now).document(),
    }


def _describe_index(index: IndexPolicy) -> dict[str, Any]:
    kinds = index.partition_by if isinstance(index.partition_by, Mapping) else None
    return {
        "name": index.name,
        "partition_by": index.kind if kinds else index.partition_by,
        "kinds": list(kinds) if kinds else None,
        "sort_by": index.sort_by if isinstance(index.sort_by, str) else list(index.sort_by),
        "replica": index.replica,
        "local": index.local,
    }


def describe_layout(layout: Layout) -> Mapping[str, Any]:
    """Describe a layout in the form of the API."""
    return {
        "partition_by": layout.partition_by,
        "bucket_seconds": layout.bucket or None,
        "shards": layout.shards,
        "shard_by": layout.shard_by,
        "shard_until": layout.shard_until or None,
        **choose_form(layout).describe(),
    }


class PeriodsQuery(msgspec.Struct, frozen=True, array_like=True, tag="periods"):
    """The periods to show: they begin before ``end`` and end after ``start``.

    If ``states`` is not empty, they have one of these states. ``after`` is the instant where an earlier page ended:
    this page has the periods before it. ``tz`` is the zone of the times in the answer; empty for UTC.
    """

    stream: str
    limit: int
    start: datetime | None = None
    end: datetime | None = None
    states: tuple[str, ...] = ()
    after: datetime | None = None
    tz: str = ""


def parse_periods(stream: Stream, parameters: Mapping[str, Sequence[str]], now: datetime, seal: Seal) -> PeriodsQuery:
    """Read the query string; ProblemError says what to change."""
    request = Parameters.read(stream, parameters, KNOWN, where=False)
    limit, states = request.parse_count("limit", MAX_LIMIT) or DEFAULT_LIMIT, _parse_states(request.values)
    start, end = request.parse_instant("from", now), request.parse_instant("to", now)
    if "cursor" in request.values:
        cursor = request.open_cursor(
            PeriodsQuery,
            seal,
            lambda query: {
                "from": start == query.start,
                "to": end == query.end,
                "state": states == query.states,
                "tz": request.tz == query.tz,
            },
        )
        return msgspec.structs.replace(cursor, limit=limit)
    if start is not None and end is not None and start >= end:
        raise refuse_parameter("from must lie before to: the range is [from, to)")
    return PeriodsQuery(stream.name, limit, start, end, states, tz=request.tz)


def _parse_states(values: Mapping[str, str]) -> tuple[str, ...]:
    if "state" not in values:
        return ()
    states, known = tuple(values["state"].split(",")), [state.value for state in State]
    if not set(states) <= set(known):
        raise refuse_parameter(f"state must be one or more of {', '.join(known)}, with commas between them")
    return states


def describe_periods(
    query: PeriodsQuery,
    stream: Stream,
    catalog: CatalogReader,
    tables: Tables,
    now: datetime,
    seal: Seal,
    pools: Pools,
) -> dict[str, Any]:
    """Describe a page of a stream's periods, newest first, with the cursor of the next page and the present backfills.

    A page may have fewer periods than its limit, or no periods, and still have a next page: only ``"next": null`` is
    the end.
    """
    entries, reached = _read_page(query, stream, catalog)
    with pools(_CONCURRENCY) as pool:
        described: Iterable[Table | None] = pool.map(
            lambda entry: tables.describe(entry.table) if entry.state is not State.DELETED else None, entries
        )
        periods = [_describe_period(entry, table, now) for entry, table in zip(entries, described, strict=True)]
    following = None if reached is None else seal.seal(msgspec.structs.replace(query, limit=0, after=reached))
    running = [backfill.document() for backfill in list_open_backfills(catalog, stream.name, now)]
    document = {"periods": periods, "next": following, "backfills": running}
    if query.tz:
        from tidetable.query.local import show_document  # imported only when it is needed

        return show_document(document, query.tz)
    return document


def _read_page(query: PeriodsQuery, stream: Stream, catalog: CatalogReader) -> tuple[list[Entry], datetime | None]:
    """Read the entries of a page, and the instant where the next page begins; None at the end."""
    entries: list[Entry] = []
    before = query.after or query.end
    walk = catalog.walk(stream.name, query.start, before, at_once=_CHUNK if query.states else query.limit + 2)
    # The walk includes the period that begins at its end, which an earlier page has shown.
    earlier = (entry for entry in walk if before is None or entry.period.start < before)
    for looked, entry in enumerate(earlier, 1):
        if not query.states or entry.state.value in query.states:
            if len(entries) == query.limit:
                return entries, entries[-1].period.start
            entries.append(entry)
        if looked == MAX_LOOKED:
            return entries, entry.period.start
    return entries, None


def _describe_period(entry: Entry, table: Table | None, now: datetime) -> dict[str, Any]:
    document: dict[str, Any] = {
        "period": entry.period.label,
        "start": to_text(entry.period.start),
        "end": to_text(entry.period.end),
        "state": entry.state.value,
        "backfill": None,
        "table": entry.table,
        "layout": describe_layout(entry.layout),
        "capacity": None,
        "archive": None,
    }
    if entry.opened is not None and entry.is_open(now):
        until, write, read = entry.opened
        document["backfill"] = {"until": to_text(until), "write": write, "read": read}
    if table is not None:
        document["capacity"] = {
            "mode": "on-demand" if table.on_demand else "provisioned",
            "write": table.write,
            "read": table.read,
            "class": table.table_class.value,
        }
        # DynamoDB refreshes these counts about every six hours.
        document |= {"status": table.status, "size_bytes": table.size_bytes, "item_count": table.item_count}
    if entry.archive is not None:
        facts = entry.archive
        document["archive"] = {"manifest": facts.manifest, "events": facts.events, "bytes": facts.bytes}
        if facts.expired_at is not None:
            document["archive"]["expired_at"] = to_text(facts.expired_at)
    return document
