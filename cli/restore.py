"""The command that makes archived periods tables again, or shows how far that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import sleep
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bill.prices import MONTH, REGION
from bill.restored import price_restore
from cli import clock
from cli.account import Account
from cli.choose import check_stream, find_entries
from cli.common import USAGE, app, err, fail, find_account, print_json, run_task, say, warn
from cli.completion import complete_stream
from cli.options import AsJson, Target
from tidetable.catalog import Entry
from tidetable.run_streams import find_recorded_policy
from tidetable.work.claim import EVERY_STREAM

# Seconds between two looks at the progress.
_PAUSE = 5.0
# Workers try what failed every five minutes. After so many looks without a change the command gives up.
_PATIENCE = 72
GOES_ON = "The restore goes on without this command: call it again to see its progress, or with --cancel to end it."
_STARTED = "written", "compared", "left", "running"


@app.command()
def restore(
    target: Target,
    stream: Annotated[str, typer.Argument(help="The stream.", autocompletion=complete_stream)],
    period: Annotated[str | None, typer.Argument(help="The period's label, such as 2026-01-31.")] = None,
    last: Annotated[
        str | None, typer.Argument(help="The last period of a range; this period is restored, too.")
    ] = None,
    keep: Annotated[
        int, typer.Option(help="Days to keep the tables; then they are archived again.", min=1, max=3650)
    ] = 7,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End the restores of the stream; restored periods stay.")
    ] = False,
    paused: Annotated[
        bool | None,
        typer.Option("--pause/--resume", help="Let the restores of the stream rest, or go on.", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be restored, and its price.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    wait: Annotated[bool, typer.Option(help="Show the progress until the periods are restored.")] = True,
    as_json: AsJson = False,
) -> None:
    """Make archived periods tables again. Each is read from its archive until its table is whole and compared.

    Without a period, show the restores that are under way. In a range, periods that cannot be restored are listed, and the
    others are restored.

    Workers do it: the restore goes on without this command, and calling it again shows the progress. Exit code 1 if it
    cannot go on, or if nothing can be restored.
    """
    if cancel + (paused is not None) + (period is not None) > 1:
        fail("name periods, or give --cancel, or --pause or --resume", USAGE)
    account = find_account(target)
    if stream != EVERY_STREAM or paused is None:
        check_stream(account.pipeline.catalog, stream)
    if paused is not None:
        task = "pause" if paused else "resume"
        run_task("asking", lambda: account.run_restorer(**{task: stream}))
        say(f"the restores of {'all streams' if stream == EVERY_STREAM else stream} {'rest' if paused else 'go on'}")
        return
    if period is not None:
        entries = find_entries(account.pipeline.catalog, stream, period, last)
        plan = _plan(account, entries, keep)
        _restore(account, entries, keep, plan, dry_run=dry_run, ask=not (yes or as_json), wait=wait, as_json=as_json)
        return
    task, said = ("cancel", "ends") if cancel else ("status", "is under way")
    status = run_task("asking", lambda: account.run_restorer(**{task: stream}))
    if as_json:
        print_json(status)
        return
    for progress in status["restores"]:
        say(f"{stream}: the restore from {progress['first']} to {progress['last']} {said}: {_describe(progress)}")
        if progress["problem"]:
            warn(progress["problem"])
    if not status["restores"]:
        say(f"no period of {stream} is being restored")
    if status["paused"]:
        say(f"the restores of {stream} rest: --resume lets them go on")


def _plan(account: Account, entries: Sequence[Entry], keep: int) -> dict[str, Any]:
    """Ask what can be restored, and price it."""
    plan: dict[str, Any] = run_task("looking", lambda: account.run_restorer(restore=_name(entries, keep), dry_run=True))
    chosen = _list_labels(plan)
    catalog = account.pipeline.catalog
    policy = find_recorded_policy(entries[0].stream, catalog)
    wanted = [entry for entry in entries if entry.period.label in chosen]
    return plan | {"price": price_restore(wanted, policy, keep, clock.read_clock())._asdict()}


def _name(entries: Sequence[Entry], keep: int) -> dict[str, Any]:
    first, last = entries[0], entries[-1]
    return {"stream": first.stream, "first": first.period.label, "last": last.period.label, "keep_days": keep}


def _restore(
    account: Account,
    entries: Sequence[Entry],
    keep: int,
    plan: Mapping[str, Any],
    *,
    dry_run: bool,
    ask: bool,
    wait: bool,
    as_json: bool,
) -> None:
    name = _name(entries, keep)
    stream, joined = name["stream"], _find(plan["restores"], name)
    count = len(_list_labels(plan))
    if not as_json:
        _show_plan(plan, stream, count, joined)
    answer = dict(plan)
    if count and not dry_run:
        if joined is None:
            if ask:
                typer.confirm("Restore these periods?", abort=True)
            answer |= run_task("ordering", lambda: account.run_restorer(restore=name))
        if wait:
            progress = _wait(account, name)
            left = run_task("looking", lambda: account.run_restorer(restore=name, dry_run=True))
            answer |= {"periods": left["periods"], "restores": [] if progress is None else [progress]}
        if not as_json:
            _show_end(answer, plan, waited=wait)
    if as_json:
        print_json(answer)
    if not count or (wait and not dry_run and _list_labels(answer)):
        raise typer.Exit(1)


def _list_labels(plan: Mapping[str, Any]) -> list[str]:
    """List the periods that can be restored, and are not."""
    return [period["period"] for period in plan["periods"] if period["refusal"] is None]


def _find(restores: Sequence[dict[str, Any]], name: Mapping[str, Any]) -> dict[str, Any] | None:
    """Find the restore of a range among those that are under way."""
    own = (one for one in restores if (one["first"], one["last"]) == (name["first"], name["last"]))
    return next(own, None)


def _show_plan(plan: Mapping[str, Any], stream: str, count: int, joined: Mapping[str, Any] | None) -> None:
    for period in plan["periods"]:
        if period["refusal"] is not None:
            say(period["refusal"])
    if plan["paused"]:
        say(f"the restores of {stream} rest: --resume lets them go on")
    if joined is not None:
        say(f"the restore from {joined['first']} to {joined['last']} is under way: {_describe(joined)}")
        return
    price = plan["price"]
    say(f"{stream}: to restore: {_count_periods(count)} with {price['events']:,} events")
    if count:
        units = f"{price['write_units']:,} write units, {price['read_units']:,} read units"
        work = f"{price['seconds']:,} s of workers, tables of {price['table_bytes'] / 1e6:,.1f} MB"
        say(f"  {units}, {work}: ${price['dollars']:,.2f}, of these ${price['storage']:,.2f} to keep the tables")
        say(f"  estimated from the sizes of the files; prices of {REGION}, {MONTH}, on demand, without requests to S3")
    for other in plan["restores"]:
        say(f"the restore from {other['first']} to {other['last']} comes first: {_describe(other)}")


def _count_periods(count: int) -> str:
    return "1 period" if count == 1 else f"{count:,} periods"


def _describe(progress: Mapping[str, Any]) -> str:
    done = progress["periods"] - progress["left"]
    text = f"{max(done, 0):,} of {progress['periods']:,} periods are restored"
    under_way = f"of the next ones {progress['written']:,} events are written, {progress['compared']:,} compared"
    return f"{text}, {under_way}; {progress['running']} of {progress['pieces']} pieces are running"


def _wait(account: Account, name: Mapping[str, Any]) -> dict[str, Any] | None:
    """Show the progress until the restore is done, or stopped by a problem; then return it."""
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    unchanged, before = 0, None
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(f"restoring {name['stream']}", total=None)
        try:
            while True:
                progress = _find(account.run_restorer(status=name["stream"])["restores"], name)
                if progress is None:
                    return None
                total = 2 * progress["events"]
                done = total - 2 * progress["left_events"] + progress["written"] + progress["compared"]
                bar.update(task, description=f"restoring: {_describe(progress)}", total=total, completed=done)
                now = {key: progress[key] for key in _STARTED}
                unchanged, before = (unchanged + 1 if now == before else 0), now
                if progress["problem"] and unchanged >= _PATIENCE:
                    return progress
                sleep(_PAUSE)
        except KeyboardInterrupt:
            bar.stop()
            say(GOES_ON)
            raise typer.Exit(1) from None


def _show_end(answer: Mapping[str, Any], plan: Mapping[str, Any], *, waited: bool) -> None:
    if not waited:
        say(GOES_ON)
        return
    left, chosen = _list_labels(answer), _list_labels(plan)
    done = [label for label in chosen if label not in left]
    if done:
        say(f"{plan['stream']} {done[0] if len(done) == 1 else _count_periods(len(done))}: restored")
    for progress in answer["restores"]:
        warn(progress["problem"])
        say("Workers try again every five minutes. When the cause is gone, the restore goes on; --cancel ends it.")
    if left and not answer["restores"]:
        warn(f"{_count_periods(len(left))} not restored: the restore was cancelled")
