"""The command that shows how far rollups are sealed, or computes past buckets of a rollup."""

from __future__ import annotations

from time import sleep
from typing import Annotated, Any

import typer

from cli.account import Account
from cli.choose import check_stream
from cli.common import USAGE, app, fail, find_account, make_grid, out, print_json, run_task, say
from cli.completion import complete_rollup, complete_stream
from cli.edges import read_past_edge
from cli.options import AsJson, Target
from tidetable.work.claim import EVERY_STREAM

# While another run of the refresher has the lease, a rebuild waits 10 s between attempts, and makes at most 60 attempts
# in succession. By then, the other run or its lease is over.
_BUSY_SECONDS = 10.0
_BUSY_TRIES = 60
# Hours for which the tables of a rollup that is rebuilt stay open.
_OPEN_HOURS = 24
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be computed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show how far the rollups of a stream are sealed. With --rebuild, compute past buckets anew.

    With --pause, no bucket of the stream's rollups is computed until --resume. Aggregates stay correct, and read events. The
    stream '*' means all streams, for --pause and --resume only.

    A rebuild can be interrupted, and goes on where it ended when it is called again. Exit code 1 if a rebuild cannot go on.
    """
    if rebuild is not (start is not None and end is not None) or (start is None) is not (end is None):
        fail(
            "a rebuild needs all of --rebuild, --from and --to, such as --rebuild --from 2026-01-01 --to 2026-02-01",
            USAGE,
        )
    if rebuild and paused is not None:
        fail("--rebuild cannot be given with --pause or --resume", USAGE)
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
    if not rebuild:
        print_json(named_rollups) if as_json else _draw_rollups(named_rollups, stream, paused=status["paused"])
        return
    answers = [
        _rebuild_cells(account, stream, rollup, start, end, dry_run=dry_run, quiet=as_json) for rollup in named_rollups
    ]
    if as_json:
        print_json(answers)
    if any(answer["problem"] for answer in answers):
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


def _rebuild_cells(
    account: Account, stream: str, rollup: dict[str, Any], start: Any, end: Any, *, dry_run: bool, quiet: bool
) -> dict[str, Any]:
    """Rebuild a rollup: call the refresher until no bucket is left, or until it names a problem."""
    range_of_rollup = {"stream": stream, "rollup": rollup["rollup"], "from": start, "to": end}
    name = rollup["stream"]
    plan: dict[str, Any] = run_task("looking", lambda: account.run_refresher(rebuild=range_of_rollup, dry_run=True))
    if dry_run or plan["problem"]:
        # No table is opened for a rebuild that cannot run yet.
        if plan["problem"] and not quiet:
            say(f"{name}: {plan['problem']}", "red")
        elif not quiet:
            say(f"{name}: {plan['buckets']:,} buckets to compute, {plan['marked']:,} to compute anew")
        return {"rollup": name, **plan}
    # The tables of past buckets are made or opened first, in the same way as for an import.
    opened = {"stream": name, "from": start, "to": end, "hours": _OPEN_HOURS, "rebuild": True}
    run_task(f"opening the tables of {name}", lambda: account.run_lifecycle(backfill=opened))
    computed, marked, busy = 0, 0, 0
    answer: dict[str, Any] = {}
    while answer.get("left") != 0 and not answer.get("problem"):
        left = answer.get("left")
        so_far = f"rebuilding {name}: {computed:,} buckets computed{'' if left is None else f', {left:,} left'}"
        answer = run_task(so_far, lambda: account.run_refresher(rebuild=range_of_rollup))
        computed, marked = computed + answer["buckets"], marked + answer["marked"]
        if answer["left"]:
            # The computed buckets are sealed now, so the next call must not compute them anew.
            range_of_rollup["to"] = answer["reached"]
        busy = busy + 1 if answer["left"] is None else 0
        if busy:
            if busy == _BUSY_TRIES:
                answer["problem"] = "the refresher is always running; try again later"
            else:
                run_task(f"{so_far}; waiting for the refresher", lambda: sleep(_BUSY_SECONDS))
    if not quiet:
        say(f"{name}: {computed:,} buckets computed; {marked:,} will be computed anew by the next runs")
        if answer["problem"]:
            say(f"{name}: {answer['problem']}", "red")
    return {"rollup": name, **answer, "buckets": computed, "marked": marked}
