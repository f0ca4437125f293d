"""The app, and the functions with which commands connect, show progress and print."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

import typer
from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid
from rich.text import Text
from typer.core import TyperGroup

from cli.account import Account, connect
from cli.errors import USAGE as USAGE
from cli.errors import CommandError
from cli.options import Program, Target
from tidetable.config import Config, Stream, load
from tidetable.errors import ConfigError, TidetableError
from tidetable.problems import describe_unknown_stream

typer.BadParameter.__mro__[1].exit_code = USAGE  # type: ignore[attr-defined]


class Commands(TyperGroup):
    """The commands. An error that a command does not handle ends it with its message."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the program that reads the output has ended: click handles this
            raise
        except CommandError as error:
            fail(str(error), error.code)
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
    """Find the stage's account; AccountError if it cannot be reached."""
    return connect(target.stage, endpoint=target.endpoint, profile=target.profile, region=target.region)


def choose_streams(streams: Mapping[str, Stream], name: str | None) -> dict[str, Stream]:
    """Choose the named stream, or all of them. If there is no such stream, end the command with their names."""
    if name is not None and name not in streams:
        fail(describe_unknown_stream(name, streams), USAGE)
    return {own: stream for own, stream in streams.items() if name in (None, own)}


def try_config(path: Path) -> Config | None:
    """Read the configuration, for a command that also works without it; None if it is missing or not valid."""
    try:
        return load(path)
    except ConfigError:
        return None


def run_task(task: str, act: Any) -> Any:
    """Call ``act``, which may take minutes, and show the task with a spinner."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True) as progress:
        progress.add_task(task)
        return act()


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
    steps += map(_convert_work, report.get("work", []))
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
    """True if a run of the lifecycle would change something.

    A feed's step that waits for a later table, and work in the background, do not count.
    """
    others = [*report.get("feeds", []), *report.get("catalog_copies", [])]
    return bool(report["actions"]) or any(step["outcome"] == "planned" for step in others)


def _convert_work(work: dict[str, Any]) -> dict[str, Any]:
    """Convert work in the background to the form of an action."""
    return {**work, "action": f"work: {work['kind']}", "stream": work["stream"] or "", "period": "", "detail": ""}


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
