"""What the commands share: their options, and how they ask and answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

from cli.account import Account, AccountError, connect
from cli.choose import NoChoice, find_entries
from tidetable.catalog import Entry
from tidetable.config import Config, load
from tidetable.errors import ConfigError

# sysexits.h: the command was used wrongly. Its own 2 is what `plan` ends with while something is to be done.
USAGE = 64
typer.BadParameter.__mro__[1].exit_code = USAGE  # type: ignore[attr-defined]


def check_address(address: str | None) -> str | None:
    """An endpoint as it was given; a usage error if it is no address."""
    parts = urlsplit(address or "http://none")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise typer.BadParameter(f"{address!r} is no address; write such as http://127.0.0.1:4566")
    return address


app = typer.Typer(
    help="Looks after a Tidetable stage: its period tables, their capacity, their archive.", no_args_is_help=True
)
# Wide where nobody looks at a terminal: a name that is cut off can be neither searched nor told from others.
out, err = Console(width=None if sys.stdout.isatty() else 160), Console(stderr=True)

Stage = Annotated[str, typer.Option(help="The deployed stage.", envvar="TIDETABLE_STAGE")]
ConfigFile = Annotated[Path, typer.Option("--config", envvar="TIDETABLE_CONFIG", help="The configuration.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Endpoint = Annotated[
    str | None,
    typer.Option(
        "--endpoint-url",
        envvar="AWS_ENDPOINT_URL",
        help="An emulator's address, such as the demo's.",
        callback=check_address,
    ),
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


def try_config(path: Path) -> Config | None:
    """The configuration for a command that can do without; None if there is none that can be used."""
    try:
        return load(path)
    except ConfigError:
        return None


def choose(account: Account, config: Path, stream: str, first: str, last: str | None) -> list[Entry]:
    """The periods that a command names, or what is wrong with the names."""
    try:
        return find_entries(account.catalog, try_config(config), stream, first, last)
    except NoChoice as error:
        fail(str(error))


def attempt(what: str, act: Any) -> Any:
    """Do something that may take minutes, with a sign of life; AccountError if it fails."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True) as progress:
        progress.add_task(what)
        return act()


def working(what: str, act: Any) -> Any:
    """Do something that may take minutes, with a sign of life; a failure ends the command."""
    try:
        return attempt(what, act)
    except AccountError as error:
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


def warn(message: str) -> None:
    """A message that does not end the command."""
    # Not wrapped: a path or a name broken in two can be neither searched nor copied.
    err.print(message, style="red", markup=False, soft_wrap=True)


def fail(message: str, code: int = 1) -> NoReturn:
    """End with a message; with the code USAGE if the command was used wrongly."""
    warn(message)
    raise typer.Exit(code)
