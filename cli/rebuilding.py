"""A rebuild of rollups, as the command shows it: what will be computed, and how far the workers are."""

from __future__ import annotations

from collections.abc import Sequence
from time import sleep
from typing import Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bill.prices import MONTH, REGION
from bill.rebuilt import price_rebuild
from cli.account import Account
from cli.common import err, run_task, say
from tidetable.times import from_text

# Seconds between two looks at the progress.
_PAUSE = 5.0
# Workers try a piece that failed once a minute. After so many looks without a change the command gives up.
_PATIENCE = 36
# Hours for which the tables of a rollup that is rebuilt stay open.
_OPEN_HOURS = 24
GOES_ON = "The rebuild goes on without this command: call it again to see its progress, or with --cancel to end it."


def plan_rebuilds(
    account: Account, stream: str, rollups: Sequence[dict[str, Any]], start: Any, end: Any
) -> list[dict[str, Any]]:
    """Ask what a rebuild of each rollup would compute, and price it; ``rebuild`` is one that is under way."""
    plans = []
    for rollup in rollups:
        span = {"stream": stream, "rollup": rollup["rollup"], "from": start, "to": end}
        plan = run_task("looking", lambda span=span: account.run_refresher(rebuild=span, dry_run=True))
        if (estimate := plan.pop("estimate", None)) is not None:
            first, last = from_text(estimate["from"]), from_text(estimate["to"])
            entries = account.pipeline.catalog.entries(stream, first, last)
            price = price_rebuild(plan | {"estimate": estimate}, entries, account.pipeline.tables.describe)
            plan["price"] = price._asdict() | {"finer": estimate["finer"]}
        plans.append({"rollup": rollup["stream"], **plan})
    return plans


def show_plan(plan: dict[str, Any]) -> None:
    """Print what a rebuild would compute and its price, or why it cannot be computed."""
    name, progress = plan["rollup"], plan["rebuild"]
    if plan["problem"]:
        say(f"{name}: {plan['problem']}", "red")
    elif progress:
        say(
            f"{name}: the rebuild from {progress['from']} to {progress['to']} is under way:"
            f" {progress['left']:,} of {progress['buckets']:,} buckets are left"
        )
    else:
        say(f"{name}: {plan['buckets']:,} buckets to compute, {plan['marked']:,} to compute anew")
        if "price" in plan:
            _show_price(plan["price"])


def _show_price(price: dict[str, Any]) -> None:
    source = f"the cells of {price['finer']}" if price["finer"] else f"about {price['events']:,} events"
    sizes = f"tables {price['table_bytes'] / 1e6:,.1f} MB, archives {price['archive_bytes'] / 1e6:,.1f} MB"
    units = f"{price['read_units']:,} read units, {price['write_units']:,} write units"
    say(f"  reads {source} ({sizes}); {units}, {price['seconds']:,} s of workers: ${price['dollars']:,.2f}")
    say(
        f"  estimated: tables have the size of up to six hours ago, each bucket has the cells of the last sealed one; prices of"
        f" {REGION}, {MONTH}, on demand, without requests to S3"
    )


def begin_rebuild(account: Account, stream: str, plan: dict[str, Any], start: Any, end: Any) -> None:
    """Open the tables of past buckets, and order the rebuild. A rebuild that is under way is joined."""
    name = plan["rollup"]
    # The tables of past buckets are made or opened first, in the same way as for an import.
    opened = {"stream": name, "from": start, "to": end, "hours": _OPEN_HOURS, "rebuild": True}
    run_task(f"opening the tables of {name}", lambda: account.run_lifecycle(backfill=opened))
    span = {"stream": stream, "rollup": name.removeprefix(f"{stream}-"), "from": start, "to": end}
    run_task(f"ordering the rebuild of {name}", lambda: account.run_refresher(rebuild=span))


def cancel_rebuilds(account: Account, stream: str, rollups: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """End the rebuilds of rollups; return how far each was. Buckets that count stay."""
    answers = []
    for rollup in rollups:
        named = {"stream": stream, "rollup": rollup["rollup"]}
        answer = run_task("cancelling", lambda named=named: account.run_refresher(cancel=named))
        answers.append({"rollup": rollup["stream"], **answer})
    return answers


def wait_for_rebuilds(account: Account, stream: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Show the progress of the rebuilds until all are done or all are stopped by a problem; return those that are left."""
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    unchanged, before = 0, dict[str, int]()
    with Progress(*columns, console=err, transient=True) as bar:
        tasks = {name: bar.add_task(name, total=None) for name in names}
        try:
            while True:
                left = _list_left(account, stream, names)
                for name, task in tasks.items():
                    _update(bar, task, name, left.get(name))
                counts = {name: progress["left"] for name, progress in left.items()}
                unchanged, before = (unchanged + 1 if counts == before else 0), counts
                is_stuck = bool(left) and all(progress["problem"] for progress in left.values())
                if not left or (is_stuck and unchanged >= _PATIENCE):
                    return [{"rollup": name, **progress} for name, progress in left.items()]
                sleep(_PAUSE)
        except KeyboardInterrupt:
            bar.stop()
            say(GOES_ON)
            raise typer.Exit(1) from None


def _list_left(account: Account, stream: str, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    rollups = account.run_refresher(status=stream)["rollups"]
    return {
        rollup["stream"]: rollup["rebuild"] for rollup in rollups if rollup["stream"] in names and rollup["rebuild"]
    }


def _update(bar: Progress, task: Any, name: str, progress: dict[str, Any] | None) -> None:
    if progress is None:
        bar.update(task, description=f"{name}: done", total=1, completed=1)
        return
    done, running = progress["buckets"] - progress["left"], progress["running"]
    text = f"{name}: {done:,} of {progress['buckets']:,} buckets, {running} of {progress['pieces']} pieces under way"
    if progress["oldest"]:
        text += f", the oldest waits for {progress['oldest']} s"
    bar.update(task, description=text, total=progress["buckets"], completed=done)


def show_end(left: Sequence[dict[str, Any]], names: Sequence[str]) -> None:
    """Print which rebuilds are done, and why others cannot go on."""
    unfinished = {progress["rollup"]: progress for progress in left}
    for name in names:
        if name not in unfinished:
            say(f"{name}: all buckets are computed")
        else:
            say(f"{name}: {unfinished[name]['problem']}", "red")
    if left:
        say("Workers try again once a minute. When the cause is gone, the rebuild goes on; --cancel ends it.")
