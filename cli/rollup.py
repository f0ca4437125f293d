"""The command that shows how far rollups are sealed, or computes past buckets of a rollup."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from cli.account import Account
from cli.choose import check_stream
from cli.common import USAGE, app, fail, find_account, make_grid, out, print_json, run_task, say
from cli.completion import complete_rollup, complete_stream
from cli.edges import read_past_edge
from cli.options import AsJson, Target
from cli.rebuilding import (
    GOES_ON,
    begin_rebuild,
    cancel_rebuilds,
    plan_rebuilds,
    show_end,
    show_plan,
    wait_for_rebuilds,
)
from tidetable.work.claim import EVERY_STREAM

_PURPOSE = "a rebuild computes past buckets"


@app.command()
def rollup(
    target: Target,
    stream: Annotated[
        str, typer.Argument(help="The stream whose rollups are shown or computed.", autocompletion=complete_stream)
    ],
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Compute past buckets, from tables or from archives.")
    ] = False,
    start: Annotated[
        str | None, typer.Option("--from", help="The first time to compute, such as 2026-01-01 or -30d.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="The first time after the range to compute, or now.")] = None,
    name: Annotated[
        str | None, typer.Option(help="One rollup only, such as hours.", autocompletion=complete_rollup)
    ] = None,
    paused: Annotated[
        bool | None,
        typer.Option("--pause/--resume", help="Let the rollups of the stream rest, or go on.", show_default=False),
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="End a rebuild; what is computed stays.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be computed.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    wait: Annotated[bool, typer.Option(help="Show the progress of a rebuild until it is done.")] = True,
    as_json: AsJson = False,
) -> None:
    """Show how far the rollups of a stream are sealed. With --rebuild, compute past buckets anew.

    With --pause, no bucket of the stream's rollups is computed until --resume. Aggregates stay correct, and read events. The
    stream '*' means all streams, for --pause and --resume only.

    A rebuild is computed by workers: it goes on without this command, and calling it again shows the progress. Exit code 1
    if it cannot go on.
    """
    if rebuild is not (start is not None and end is not None) or (start is None) is not (end is None):
        fail(
            "a rebuild needs all of --rebuild, --from and --to, such as --rebuild --from 2026-01-01 --to 2026-02-01",
            USAGE,
        )
    if rebuild + cancel + (paused is not None) > 1:
        fail("--rebuild, --cancel and --pause or --resume exclude each other", USAGE)
    if start is not None and end is not None:
        # They are read once, as all calls of a rebuild must have the same range.
        start, end = read_past_edge("--from", start, _PURPOSE), read_past_edge("--to", end, _PURPOSE)
    account = find_account(target)
    if paused is not None:
        _set_pause(account, stream, paused=paused)
    check_stream(account.pipeline.catalog, stream)
    status = run_task("looking", lambda: account.run_refresher(status=stream))
    rollups = status["rollups"]
    if name is not None and name not in [rollup["rollup"] for rollup in rollups]:
        fail(f"{stream} has no rollup {name!r}; it has {', '.join(rollup['rollup'] for rollup in rollups)}", USAGE)
    named_rollups = [rollup for rollup in rollups if name in (None, rollup["rollup"])]
    if cancel:
        answers = cancel_rebuilds(account, stream, named_rollups)
        print_json(answers) if as_json else _draw_cancelled(answers)
    elif rebuild:
        if status["paused"] and not as_json:
            say(f"the rollups of {stream} rest, and so do rebuilds: --resume lets them go on")
        act = partial(_rebuild, account, stream, named_rollups, start, end)
        act(dry_run=dry_run, ask=not (yes or as_json), wait=wait, as_json=as_json)
    else:
        print_json(named_rollups) if as_json else _draw_rollups(named_rollups, stream, paused=status["paused"])


def _rebuild(
    account: Account,
    stream: str,
    rollups: list[dict[str, Any]],
    start: Any,
    end: Any,
    *,
    dry_run: bool,
    ask: bool,
    wait: bool,
    as_json: bool,
) -> None:
    plans = plan_rebuilds(account, stream, rollups, start, end)
    if not as_json:
        for plan in plans:
            show_plan(plan)
    new = [plan for plan in plans if not plan["problem"] and not plan["rebuild"] and plan["buckets"] + plan["marked"]]
    names = [plan["rollup"] for plan in plans if plan["rebuild"] or plan in new]
    left = list[dict[str, Any]]()
    if not dry_run:
        if new and ask:
            typer.confirm("Compute these buckets?", abort=True)
        for plan in new:
            begin_rebuild(account, stream, plan, start, end)
        if wait and names:
            left = wait_for_rebuilds(account, stream, names)
    if as_json:
        print_json(plans if dry_run or not wait else [plan | {"rebuild": _find(left, plan)} for plan in plans])
    elif not dry_run:
        show_end(left, names) if wait else say(GOES_ON)
    if left or any(plan["problem"] for plan in plans):
        raise typer.Exit(1)


def _set_pause(account: Account, stream: str, *, paused: bool) -> None:
    """Let the rollups of a stream rest or go on. With ``EVERY_STREAM``, do this for all streams, and end the command."""
    if stream != EVERY_STREAM:
        check_stream(account.pipeline.catalog, stream)
    task, word = ("pause", "rest") if paused else ("resume", "go on")
    run_task(f"letting the rollups of {stream} {word}", lambda: account.run_refresher(**{task: stream}))
    if stream == EVERY_STREAM:
        say(f"the rollups of all streams {word}")
        raise typer.Exit


def _find(left: list[dict[str, Any]], plan: dict[str, Any]) -> dict[str, Any] | None:
    return next((progress for progress in left if progress["rollup"] == plan["rollup"]), None)


def _draw_cancelled(answers: list[dict[str, Any]]) -> None:
    for answer in answers:
        progress = answer["rebuild"]
        end = f"its rebuild ends; {progress['left']:,} buckets are left" if progress else "no rebuild is under way"
        say(f"{answer['rollup']}: {end}")


def _draw_rollups(rollups: list[dict[str, Any]], stream: str, *, paused: bool) -> None:
    headings = "rollup", "every", "by", "fields", "from", "sealed until", "lag", "marks", "overfull"
    rest = ", which rest: --resume lets them go on" if paused else ""
    grid = make_grid(*headings, title=f"rollups of {stream}{rest}")
    for rollup in rollups:
        has_begun = rollup["start"] is not None
        definition = rollup["stream"], rollup["every"], ", ".join(rollup["by"]), ", ".join(rollup["fields"])
        times = _format_minute(rollup["start"]), _format_minute(rollup["sealed"])
        lag = f"{rollup['lag_seconds']} s" if has_begun else ""
        grid.add_row(*definition, *times, lag, f"{rollup['marks']:,}", f"{rollup['overfull_count']:,}")
    out.print(grid)
    for rollup in rollups:
        if rollup["overfull"]:
            buckets = ", ".join(map(_format_minute, rollup["overfull"]))
            say(f"{rollup['stream']} has too many groups and is read from events in: {buckets}")


def _format_minute(text: str | None) -> str:
    return "not begun" if text is None else f"{text[:16]}Z"
