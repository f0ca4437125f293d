"""The app, and the functions with which commands connect, show progress and print."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any, NoReturn

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text
from typer.core import TyperGroup

from cli.account import Account, AccountError, connect
from cli.choose import NoChoice, UnknownStream, check_stream, find_entries
from cli.options import Program, Target
from tidetable.catalog import Entry
from tidetable.config import Config, load
from tidetable.errors import ConfigError, TidetableError

# sysexits.h: the command was used wrongly. Typer's own code for this is 2, with which `plan` reports pending actions.
USAGE = 64
typer.BadParameter.__mro__[1].exit_code = USAGE  # type: ignore[attr-defined]


class Commands(TyperGroup):
    """The commands. An error of AWS, of a file or of the core that a command does not handle ends it with its message."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the program that reads the output has ended: click handles this
            raise
        except (ClientError, BotoCoreError, OSError, TidetableError) as error:
            fail(str(error))


app = Program(
    cls=Commands,
    help="Looks after a Tidetable stage: its period tables, their capacity, their archive.",
    no_args_is_help=True,
)
# 160 columns wide if the output is not a terminal: nobody can search for a name that is cut off, or recognize it.
# Without emoji: Rich would change a name such as site:a:1.
out, err = Console(width=None if sys.stdout.isatty() else 160, emoji=False), Console(stderr=True, emoji=False)


def find_account(target: Target) -> Account:
    """Find the stage's account. If it cannot be reached, end the command with the reason."""
    try:
        return connect(target.stage, endpoint=target.endpoint, profile=target.profile, region=target.region)
    except AccountError as error:
        fail(str(error))


def read_config(path: Path) -> Config:
    """Read the configuration. If it is not valid, end the command with a list of its mistakes."""
    try:
        return load(path)
    except ConfigError as error:
        fail(str(error))


def try_config(path: Path) -> Config | None:
    """Read the configuration, for a command that also works without it; None if it is missing or not valid."""
    try:
        return load(path)
    except ConfigError:
        return None


def choose_periods(account: Account, stream: str, first: str, last: str | None) -> list[Entry]:
    """Find the periods that a command names. If a name is wrong, end the command with the reason."""
    try:
        return find_entries(account.pipeline.catalog, stream, first, last)
    except NoChoice as error:
        fail(str(error), USAGE if isinstance(error, UnknownStream) else 1)


def require_stream(account: Account, stream: str) -> None:
    """End the command with the names of the stage's streams if it has no stream of this name."""
    try:
        check_stream(account.pipeline.catalog, stream)
    except UnknownStream as error:
        fail(str(error), USAGE)


def attempt_task(task: str, act: Any) -> Any:
    """Call ``act``, which may take minutes, and show the task with a spinner; AccountError if it fails."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True) as progress:
        progress.add_task(task)
        return act()


def run_task(task: str, act: Any) -> Any:
    """Call ``act``, which may take minutes, and show the task with a spinner; a failure ends the command."""
    try:
        return attempt_task(task, act)
    except AccountError as error:
        fail(str(error))


def show_report(report: dict[str, Any], *, as_json: bool) -> None:
    """Print the report of a lifecycle run, as text or as JSON."""
    if as_json:
        print_json(report)
        return
    for trouble in report.get("troubles", []):
        say(trouble, "red")
    for change in report.get("changes", []):
        say(f"not in force yet: {change}")
    for backfill in report.get("backfills", []):
        span = f"{backfill['stream']} from {backfill['from']} to {backfill['to']}"
        say(f"open for a backfill: {span}, until {backfill['until']}")
    for removed in report.get("removed_streams", []):
        tables = f"its {removed['tables']} tables are handled by its last policy"
        say(f"{removed['stream']} left the configuration: {tables}")
    steps = [*report["actions"], *map(_convert_feed_step, report.get("feeds", []))]
    steps += map(_convert_catalog_step, report.get("catalog_copies", []))
    if report["skipped"]:
        out.print(f"nothing was done: {report['skipped']}")
    elif not steps:
        out.print(f"nothing to do: {report['tables']} tables are as they should be")
    else:
        grid = make_grid("action", "stream", "period", "outcome", "why")
        colours = {"failed": "red", "lost": "bold red", "deferred": "yellow", "done": "green"}
        for step in steps:
            reason, detail = step["reason"], step["detail"]
            why = ": ".join(text for text in dict.fromkeys((reason, detail)) if text)
            cells = step["action"], step["stream"], step["period"], step["outcome"], why
            grid.add_row(*map(Text, cells), style=colours.get(step["outcome"]))
        out.print(grid)


def is_pending(report: dict[str, Any]) -> bool:
    """True if a run would change something; a feed's step that waits for a later table does not count."""
    others = [*report.get("feeds", []), *report.get("catalog_copies", [])]
    return bool(report["actions"]) or any(step["outcome"] == "planned" for step in others)


def _convert_catalog_step(step: dict[str, Any]) -> dict[str, Any]:
    """Convert a step of a copy of the catalog to the form of an action."""
    reason = f"replicas names {step['region']}"
    return {**step, "action": f"catalog: {step['action']}", "stream": "", "period": "", "reason": reason}


def _convert_feed_step(step: dict[str, Any]) -> dict[str, Any]:
    """Convert a step of a feed to the form of an action: the name of a table holds its stream and its period."""
    _, _, name = step["table"].partition(".")
    stream, _, period = name.rpartition(".")
    return {**step, "action": f"feed: {step['action']}", "stream": stream, "period": period}


def make_grid(*headings: str, title: str | None = None, right: Collection[str] = ()) -> Grid:
    """Make a table without rows. Cells that are too wide are folded; the columns ``right`` stand on the right."""
    grid = Grid(title=title)
    for heading in headings:
        grid.add_column(heading, justify="right" if heading in right else "left", overflow="fold")
    return grid


def format_number(number: int | None, absent: str = "") -> str:
    """Write a number with separators of thousands; ``absent`` for None."""
    return absent if number is None else f"{number:,}"


def print_json(document: Any) -> None:
    """Print a document as JSON."""
    typer.echo(json.dumps(document, indent=2))


def say(line: str, style: str | None = None) -> None:
    """Print a line as it is: nobody can search for or copy a path or a name that is on two lines."""
    out.print(line, style=style, markup=False, soft_wrap=True)


def warn(message: str, style: str = "red") -> None:
    """Print a message to stderr, as it is, and continue."""
    err.print(message, style=style, markup=False, soft_wrap=True)


def fail(message: str, code: int = 1) -> NoReturn:
    """End the command with a message; the code is USAGE for a usage error."""
    warn(message)
    raise typer.Exit(code)
