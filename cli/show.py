"""The command that looks at a stage as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.table import Table as Grid
from rich.text import Text

from cli import clock
from cli.account import Account
from cli.common import (
    DEFAULT,
    AsJson,
    ConfigFile,
    Endpoint,
    Profile,
    Region,
    Stage,
    app,
    err,
    fail,
    find_account,
    out,
    plain,
    print_json,
    read_config,
)
from cli.metrics import Taken, units_taken
from cli.status import Row, Seen, look, row_of, strip
from tidetable.lifecycle.known import Known, known_streams
from tidetable.times import to_text


@app.command()
def status(
    stage: Stage = "dev",
    config: ConfigFile = DEFAULT,
    stream: Annotated[str | None, typer.Option(help="One stream only.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Deleted periods too.")] = False,
    metrics: Annotated[bool, typer.Option(help="Ask CloudWatch what on-demand tables took.")] = True,
    as_json: AsJson = False,
    endpoint: Endpoint = None,
    profile: Profile = None,
    region: Region = None,
) -> None:
    """Show every stream's tables: state, age, capacity, size, and what each costs a month."""
    account, configured = find_account(stage, endpoint, profile, region), read_config(config)
    now = clock.read_clock()
    known = known_streams(configured, account.catalog, now)
    seen = _look(known, account, stream, every=every)
    taken = _taken(account, seen, now) if metrics else None
    found = [row_of(one, now, taken) for one in seen]
    if as_json:
        print_json([row.document() for row in found])
        return
    _draw(found, f"stage {stage}, {to_text(now)[:16]}Z")
    new = {one.stream for one in known.news if one.removed is not None}
    for name, since in known.removed.items():
        tables = sum(len(one.tables) for one in seen if one.entry.stream == name)
        if tables:
            why = "deployed, but not in" if name in new else f"since {to_text(since)[:16]}Z no longer in"
            out.print(f"{name} is {why} {config}: its {tables} tables go as its last policy says", soft_wrap=True)
    out.print(f"{len(found)} periods, ${sum(row.dollars for row in found):,.2f} a month as they stand")
    if any(one.on_demand for one in seen):
        by = "their storage alone" if taken is None else "what they took in the last 30 days, and their storage"
        out.print(f"on-demand tables are priced by {by}")


def _look(known: Known, account: Account, stream: str | None, *, every: bool) -> list[Seen]:
    """The periods of one stream or of all streams, removed streams included."""
    policies = known.config.streams
    if stream is not None and stream not in policies:
        fail(f"there is no stream {stream!r}; there are {', '.join(policies)}")
    for trouble in known.troubles:
        err.print(trouble, style="yellow", markup=False, soft_wrap=True)
    return [
        one
        for name, policy in policies.items()
        if stream in (None, name)
        for one in look(
            policy,
            account.catalog,
            account.tables,
            account.pools,
            all_periods=every,
            removed=known.removed.get(name),
        )
    ]


def _draw(found: Sequence[Row], title: str) -> None:
    """Each stream's line of time, and a row per period."""
    grid = Grid(title=title)
    for heading in (
        "stream",
        "period",
        "state",
        "age",
        "write",
        "read",
        "class",
        "items",
        "MB",
        "archived",
        "$ a month",
    ):
        grid.add_column(heading, justify="left" if heading in ("stream", "period", "state", "class") else "right")
    colours = {"open": "green", "creating": "yellow", "LOST": "bold red", "archiving": "yellow", "deleted": "dim"}
    for row in found:
        units = [plain(units, "on demand" if row.table_class else "") for units in (row.write, row.read)]
        size = "" if row.bytes is None else f"{row.bytes / 1e6:,.1f}"
        grid.add_row(
            *(
                row.stream,
                row.period,
                row.shown_state,
                row.shown_age,
                *units,
                row.table_class or "",
                plain(row.items),
                size,
            ),
            *(plain(row.archived_events), f"{row.dollars:.2f}"),
            style=colours.get(row.state),
        )
    for name in dict.fromkeys(row.stream for row in found):
        mine = [row for row in found if row.stream == name]
        line = Text(f"{name:>12} {mine[-1].period} ")
        for row in reversed(mine):
            line.append(*strip(row))
        out.print(line.append(f" {mine[0].period}"), soft_wrap=True)
    out.print(
        "             oldest to newest: . ahead  # open  + late  = closed  > archiving or restoring  a archived  ! lost"
    )
    out.print(grid)


def _taken(account: Account, seen: Sequence[Seen], now: datetime) -> Mapping[tuple[str, str], Taken] | None:
    """What on-demand tables took; None, with a word of why, if CloudWatch does not tell."""
    tables = {name: indexes for one in seen for name, indexes in one.on_demand.items()}
    try:
        return units_taken(account.metrics, tables, now)
    except (ClientError, BotoCoreError) as error:
        why = f"CloudWatch does not tell what on-demand tables took: {error}; allow cloudwatch:GetMetricData, or add --no-metrics"
        err.print(why, style="yellow", markup=False, soft_wrap=True)
        return None
