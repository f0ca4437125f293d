"""What the commands share: their options, and how they ask and answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

from cli.account import Account, AccountError, connect
from tidetable.config import Config, load
from tidetable.errors import ConfigError

app = typer.Typer(
    help="Looks after a Tidetable stage: its period tables, their capacity, their archive.", no_args_is_help=True
)
# Wide where nobody looks at a terminal: a name that is cut off can be neither searched nor told from others.
out, err = Console(width=None if sys.stdout.isatty() else 160), Console(stderr=True)

Stage = Annotated[str, typer.Option(help="The deployed stage.", envvar="TIDETABLE_STAGE")]
ConfigFile = Annotated[Path, typer.Option("--config", help="The configuration.", exists=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Endpoint = Annotated[
    str | None,
    typer.Option("--endpoint-url", envvar="AWS_ENDPOINT_URL", help="An emulator's address, such as the demo's."),
]
Profile = Annotated[str | None, typer.Option(help="The profile of the AWS configuration.", envvar="AWS_PROFILE")]
Region = Annotated[str | None, typer.Option(help="The AWS Region.", envvar="AWS_REGION")]
DEFAULT = Path("tidetable.toml")


def find_account(stage: str, endpoint: str | None, profile: str | None, region: str | None) -> Account:
    """The stage's account, or the reason why it cannot be reached."""
    try:
        return connect(stage, endpoint=endpoint, profile=profile, region=region)
    except AccountError as error:
        fail(str(error))


def read_config(path: Path) -> Config:
    """The configuration, or what is wrong with it."""
    try:
        return load(path)
    except ConfigError as error:
        fail(str(error))


def working(what: str, act: Any) -> Any:
    """Do something that may take minutes, with a sign of life."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True) as progress:
        progress.add_task(what)
        try:
            return act()
        except AccountError as error:
            progress.stop()
            fail(str(error))


def show_report(report: dict[str, Any], *, as_json: bool) -> None:
    """A run of the lifecycle, for people or for programs."""
    if as_json:
        print_json(report)
        return
    for trouble in report.get("troubles", []):
        out.print(f"[red]{trouble}")
    for change in report.get("changes", []):
        out.print(f"not in force yet: {change}", markup=False)
    for one in report.get("backfills", []):
        span = f"{one['stream']} from {one['from']} to {one['to']}"
        out.print(f"open for a backfill: {span}, until {one['until']}", markup=False, soft_wrap=True)
    for one in report.get("removed_streams", []):
        line = f"{one['stream']} left the configuration: its {one['tables']} tables go as its last policy says"
        out.print(line, markup=False, soft_wrap=True)
    if report["skipped"]:
        out.print(f"nothing was done: {report['skipped']}")
    elif not report["actions"]:
        out.print(f"nothing to do: {report['tables']} tables are as they should be")
    else:
        grid = Grid()
        for heading in ("action", "stream", "period", "outcome", "why"):
            grid.add_column(heading, overflow="fold")
        colours = {"failed": "red", "lost": "bold red", "deferred": "yellow", "done": "green"}
        for one in report["actions"]:
            why = f"{one['reason']}: {one['detail']}" if one["detail"] not in ("", one["reason"]) else one["reason"]
            cells = one["action"], one["stream"], one["period"], one["outcome"], why
            grid.add_row(*cells, style=colours.get(one["outcome"]))
        out.print(grid)


def plain(number: int | None, absent: str = "") -> str:
    """A number with its thousands apart."""
    return absent if number is None else f"{number:,}"


def print_json(document: Any) -> None:
    """A document for programs."""
    typer.echo(json.dumps(document, indent=2))


def fail(message: str) -> NoReturn:
    """End with a message."""
    # Not wrapped: a path or a name broken in two can be neither searched nor copied.
    err.print(message, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(1)
