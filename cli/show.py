"""The command that looks at a stage as it is."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table as Grid
from rich.text import Text

from cli import clock
from cli.common import (
    DEFAULT,
    AsJson,
    ConfigFile,
    Endpoint,
    Profile,
    Region,
    Stage,
    app,
    fail,
    find_account,
    out,
    plain,
    print_json,
    read_config,
)
from cli.status import rows, strip
from tidetable.times import to_text


@app.command()
def status(
    stage: Stage = "dev",
    config: ConfigFile = DEFAULT,
    stream: Annotated[str | None, typer.Option(help="One stream only.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Deleted periods too.")] = False,
    as_json: AsJson = False,
    endpoint: Endpoint = None,
    profile: Profile = None,
    region: Region = None,
) -> None:
    """Show every stream's tables: state, age, capacity, size, and what each costs a month."""
    account, policies = find_account(stage, endpoint, profile, region), read_config(config).streams
    if stream is not None and stream not in policies:
        fail(f"there is no stream {stream!r}; there are {', '.join(policies)}")
    now = clock.read_clock()
    found = [
        row
        for name, policy in policies.items()
        if stream in (None, name)
        for row in rows(policy, account.catalog, account.tables, now, all_periods=every)
    ]
    if as_json:
        print_json([row.document() for row in found])
        return
    grid = Grid(title=f"stage {stage}, {to_text(now)[:16]}Z")
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
            *(row.stream, row.period, row.state, str(row.age), *units, row.table_class or "", plain(row.items), size),
            *(plain(row.archived_events), f"{row.dollars:.2f}"),
            style=colours.get(row.state),
        )
    for name in dict.fromkeys(row.stream for row in found):
        mine = [row for row in found if row.stream == name]
        line = Text(f"{name:>12} {mine[-1].period} ")
        for row in reversed(mine):
            line.append(*strip(row))
        out.print(line.append(f" {mine[0].period}"), soft_wrap=True)
    out.print("             oldest to newest: . ahead  # open  = closed  > archiving or restoring  a archived  ! lost")
    out.print(grid)
    out.print(f"{len(found)} periods, ${sum(row.dollars for row in found):,.2f} a month as they stand")
