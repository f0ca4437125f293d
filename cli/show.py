"""The command that shows the present state of a stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.text import Text

from aws.meters import read_consumed_units
from bill.consumed import ConsumedUnits
from bill.current_tables import ObservedPeriod, PeriodRow, make_row, mark_period, observe_periods
from cli import clock
from cli.account import Account
from cli.backlog import describe_feeds, describe_overflow, describe_work
from cli.common import (
    app,
    choose_streams,
    find_account,
    format_number,
    make_grid,
    out,
    print_json,
    say,
    warn,
)
from cli.completion import complete_stream
from cli.edges import read_edge
from cli.options import DEFAULT, AsJson, ConfigFile, Target
from tidetable.config import load
from tidetable.run_streams import RunStreams, find_run_streams
from tidetable.times import to_text

_FEED_RIGHTS = "allow lambda:ListEventSourceMappings and sqs:GetQueueAttributes"
_OVERFLOW_RIGHTS = "allow sqs:GetQueueAttributes and s3:ListBucket"
_METRICS_RIGHTS = "allow cloudwatch:GetMetricData, or add --no-metrics"


@app.command()
def status(
    target: Target,
    config: ConfigFile = DEFAULT,
    stream: Annotated[str | None, typer.Option(help="One stream only.", autocompletion=complete_stream)] = None,
    every: Annotated[bool, typer.Option("--all", help="Deleted periods too.")] = False,
    before: Annotated[str | None, typer.Option(help="Only periods that begin before this time.")] = None,
    metrics: Annotated[bool, typer.Option(help="Ask CloudWatch for the consumed units of on-demand tables.")] = True,
    as_json: AsJson = False,
) -> None:
    """Show every stream's tables: state, age, capacity, size, and the price of each per month."""
    edge = None if before is None else read_edge("--before", before)
    account, configured = find_account(target), load(config)
    now = clock.read_clock()
    known = find_run_streams(configured, account.pipeline.catalog, now)
    periods = _observe_periods(known, account, stream, every=every, before=edge)
    consumed = _read_consumed(account, periods, now) if metrics else None
    rows = [make_row(period, now, consumed) for period in periods]
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    _draw_periods(rows, f"stage {target.stage}, {to_text(now)[:16]}Z")
    new = {record.stream for record in known.news if record.removed is not None}
    for name, since in known.removed.items():
        tables = sum(len(period.tables) for period in periods if period.entry.stream == name)
        if tables:
            why = "deployed, but not in" if name in new else f"since {to_text(since)[:16]}Z no longer in"
            say(f"{name} is {why} {config}: its {tables} tables are handled by its last policy")
    for line in _list_untyped(rows):
        say(line, "yellow")
    with _warn_of_refusal("the state of the feeds is not known", _FEED_RIGHTS):
        for line in describe_feeds(account, configured, periods):
            say(line)
    with _warn_of_refusal("the state of the overflow is not known", _OVERFLOW_RIGHTS):
        for line in describe_overflow(account, stream, configured, periods, now):
            say(line, "yellow")
    with _warn_of_refusal("the dead letters of workers are not known", "allow sqs:GetQueueAttributes"):
        for line in describe_work(account, now):
            say(line)
    say(f"{len(rows)} periods, ${sum(row.dollars for row in rows):,.2f} per month in their present state")
    if any(period.on_demand for period in periods):
        by = "their storage alone" if consumed is None else "their units of the last 30 days, and their storage"
        say(f"on-demand tables are priced by {by}")


def _observe_periods(
    known: RunStreams, account: Account, stream: str | None, *, every: bool, before: datetime | None
) -> list[ObservedPeriod]:
    """Observe a page of the periods of one stream or of each stream, also of removed streams. Name the next pages."""
    policies = choose_streams(known.config.streams, stream)
    for trouble in known.troubles:
        warn(trouble, "yellow")
    pipeline, observed = account.pipeline, list[ObservedPeriod]()
    for name, policy in policies.items():
        ports = pipeline.catalog, pipeline.tables, pipeline.pools
        removed = known.removed.get(name)
        periods, following = observe_periods(policy, *ports, all_periods=every, removed=removed, before=before)
        observed += periods
        if following is not None:
            options = f"--stream {name} --before {to_text(following)}{' --all' if every else ''}"
            warn(f"{name} has more periods, which are not shown: {options}", "yellow")
    return observed


def _draw_periods(rows: Sequence[PeriodRow], title: str) -> None:
    """Print a timeline per stream, and a row per period."""
    figures = "age", "write", "read", "items", "MB", "archived", "$ per month"
    headings = "stream", "period", "state", "age", "write", "read", "class", *figures[3:]
    grid = make_grid(*headings, title=title, right=figures)
    colours = {"open": "green", "creating": "yellow", "LOST": "bold red", "archiving": "yellow", "deleted": "dim"}
    for row in rows:
        units = [format_number(units, "on demand" if row.table_class else "") for units in (row.write, row.read)]
        size = "" if row.bytes is None else f"{row.bytes / 1e6:,.1f}"
        known = row.stream, row.period, row.shown_state, row.shown_age, *units, row.table_class or ""
        sizes = format_number(row.items), size, format_number(row.archived_events)
        grid.add_row(*known, *sizes, f"{row.dollars:.2f}", style=colours.get(row.state))
    for name in dict.fromkeys(row.stream for row in rows):
        stream_rows = [row for row in rows if row.stream == name]
        line = Text(f"{name:>12} {stream_rows[-1].period} ")
        for row in reversed(stream_rows):
            line.append(*mark_period(row))
        out.print(line.append(f" {stream_rows[0].period}"), soft_wrap=True)
    say(
        "             oldest to newest: . ahead  # open  + late  = closed or retained  > archiving or restoring  a archived"
        "  ! lost"
    )
    out.print(grid)


def _list_untyped(rows: Sequence[PeriodRow]) -> list[str]:
    """List, per stream, the declared columns that do not hold all values of the archived periods."""
    lines = []
    for name in dict.fromkeys(row.stream for row in rows):
        found = [row.untyped for row in rows if row.stream == name and row.untyped]
        counts = sum(map(Counter, found), Counter[str]())
        if counts:
            columns = ", ".join(f"{column} {count:,}" for column, count in sorted(counts.items()))
            lines.append(
                f"{name}: values that their declared column does not hold, in {len(found)} archived periods: {columns}. "
                "They are in the column data only: declare a type that fits"
            )
    return lines


@contextmanager
def _warn_of_refusal(trouble: str, remedy: str) -> Iterator[None]:
    """Print the reason and the remedy if AWS refuses a request of the block."""
    try:
        yield
    except (ClientError, BotoCoreError) as error:
        warn(f"{trouble}: {error}; {remedy}", "yellow")


def _read_consumed(
    account: Account, periods: Sequence[ObservedPeriod], now: datetime
) -> Mapping[tuple[str, str], ConsumedUnits] | None:
    """Read the consumed units of on-demand tables. If CloudWatch refuses, print the reason and return None."""
    tables = {name: indexes for period in periods for name, indexes in period.on_demand.items()}
    with _warn_of_refusal("CloudWatch did not answer with the units of on-demand tables", _METRICS_RIGHTS):
        return read_consumed_units(account.metrics, tables, now)
    return None
