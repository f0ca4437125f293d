"""Measure the history of a stream in an account."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from cli.account import Account, AccountError
from cli.advising import History, Hour, Resource, Use, Writing
from cli.measure_keys import read_shares
from cli.measure_logs import read_uses, read_writing
from cli.measure_units import read_hours
from tidetable.catalog import Entry, State
from tidetable.config import Stream
from tidetable.ports import Table

_CONCURRENCY = 16


@dataclass(frozen=True)
class Sources:
    """boto3's clients of CloudWatch, CloudWatch Logs and DynamoDB, and a function that waits for seconds."""

    metrics: Any
    logs: Any
    dynamodb: Any
    pause: Callable[[float], None] = time.sleep


def open_sources(account: Account, endpoint: str | None) -> Sources:
    """Open the clients of an account."""
    make = account.session.client
    return Sources(account.metrics, make("logs", endpoint_url=endpoint), make("dynamodb", endpoint_url=endpoint))


def measure_history(account: Account, sources: Sources, stream: Stream, now: datetime, span: timedelta) -> History:
    """Measure the history of a stream; AccountError if CloudWatch's metrics do not answer.

    The history names other sources that did not answer.
    """
    start = now - span
    catalog = account.pipeline.catalog
    # Late events reach a period after its end.
    entries = [entry for entry in catalog.entries(stream.name, start - stream.late, now) if entry.period.start < now]
    missing: list[str] = []
    hours = _read_hours(sources, entries, start, now)
    tables = _describe_tables(account, entries)
    resources = [
        _make_resource(entry, index, hours[entry.table, index], tables.get(entry.table))
        for entry in entries
        for index in ("", *(own.name for own in entry.layout.indexes))
        if (entry.table, index) in hours
    ]
    uses, writing = _read_logs(account, sources, stream, start, now, missing)
    return History(
        stream,
        start,
        now,
        tuple(resources),
        writing,
        uses,
        _read_shares(sources, entries, resources, now, missing),
        tuple(missing),
    )


def _read_hours(
    sources: Sources, entries: list[Entry], start: datetime, now: datetime
) -> dict[tuple[str, str], tuple[Hour, ...]]:
    names = {entry.table: [index.name for index in entry.layout.indexes] for entry in entries}
    try:
        return read_hours(sources.metrics, names, start, now)
    except (ClientError, BotoCoreError) as error:
        raise AccountError(f"CloudWatch does not answer: {error}; allow cloudwatch:GetMetricData") from error


def _describe_tables(account: Account, entries: list[Entry]) -> dict[str, Table]:
    """Describe the existing tables, by name. DynamoDB's figures of their sizes are up to six hours old."""
    names = [entry.table for entry in entries if entry.state is not State.DELETED]
    with account.pipeline.pools(_CONCURRENCY) as pool:
        described = dict(zip(names, pool.map(account.pipeline.tables.describe, names), strict=True))
    return {name: table for name, table in described.items() if table is not None}


def _make_resource(entry: Entry, index: str, hours: tuple[Hour, ...], table: Table | None) -> Resource:
    shards = {own.name: own.shards for own in entry.layout.indexes}
    items, size = (table.item_count, table.size_bytes) if table is not None else (0, 0)
    if index:
        items, size = table.index_sizes.get(index, (0, 0)) if table is not None else (0, 0)
    return Resource(
        entry.period,
        index,
        shards[index] if index else entry.layout.shards,
        hours,
        items,
        size,
        imported=entry.opened is not None,
        packed=entry.layout.pack is not None,
    )


def _read_logs(
    account: Account, sources: Sources, stream: Stream, start: datetime, now: datetime, missing: list[str]
) -> tuple[tuple[Use, ...] | None, Writing | None]:
    uses, writing, outputs = None, None, account.outputs
    requests = [outputs[name] for name in ("IngestLogs", "DoorsLogs") if name in outputs]
    with _note_refusals(missing, "the logs were not read: {}; allow logs:StartQuery and logs:GetQueryResults"):
        uses = read_uses(sources.logs, [outputs["QueryLogs"]], stream.name, start, now, sources.pause)
        writing = read_writing(sources.logs, requests, stream.name, start, now, sources.pause)
    return uses, writing


def _read_shares(
    sources: Sources, entries: list[Entry], resources: list[Resource], now: datetime, missing: list[str]
) -> Any:
    """Read the shares of partition keys if a partition's limit throttled writes; otherwise None.

    Without such throttling nobody needs the shares, and a sample costs read units.
    """
    hot = any(hour.throttled("Write", "KeyRangeThroughput") for own in resources for hour in own.hours if not own.index)
    newest = next((entry for entry in reversed(entries) if now in entry.period and entry.live), None)
    if not hot or newest is None:
        return None
    remedy = "allow dynamodb:DescribeContributorInsights, dynamodb:Query and cloudwatch:GetInsightRuleReport"
    with _note_refusals(missing, f"the heaviest keys were not read: {{}}; {remedy}"):
        return read_shares(sources.dynamodb, sources.metrics, newest, now)
    return None


@contextmanager
def _note_refusals(missing: list[str], text: str) -> Iterator[None]:
    """Add the reason to ``missing`` if the account refuses a request of the block."""
    try:
        yield
    except (AccountError, ClientError, BotoCoreError) as error:
        missing.append(text.format(str(error).rstrip(".")))
