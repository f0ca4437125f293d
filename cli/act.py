"""The commands that change a stage, and ``plan``, which shows what the next run would change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from time import sleep
from typing import Annotated, Any

import typer
from botocore.exceptions import BotoCoreError, ClientError

from cli import clock
from cli.account import Account, AccountError
from cli.archives import rewrite_archives, tend_archiving
from cli.choose import check_stream, explain_open_period, find_entries
from cli.common import (
    USAGE,
    app,
    fail,
    find_account,
    is_pending,
    print_json,
    run_task,
    say,
    show_report,
    try_config,
    warn,
)
from cli.completion import complete_stream
from cli.edges import WithAges, read_edge, read_past_edge
from cli.options import DEFAULT, AsJson, ConfigFile, Target
from tidetable.catalog import Entry
from tidetable.catalog_steps import list_open_backfills
from tidetable.config import load
from tidetable.errors import TidetableError
from tidetable.rollup_model.definition import Definition, list_definitions
from tidetable.rollups.outlook import compare_definitions, list_due_items
from tidetable.times import to_text
from tidetable.work.claim import EVERY_STREAM

# The exit code of `plan` while actions are pending, for scripts.
PENDING = 2
_PURPOSE = "a backfill imports events of the past"


@app.command()
def plan(
    target: Target,
    at: Annotated[str | None, typer.Option(help="Plan for another time, such as 2026-12-01 or -6h.")] = None,
    config: Annotated[
        Path | None, typer.Option(help="A configuration: also show what its deploy would change in rollups.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what the next run would do and why, and the work in the background that is due now and within the hour.

    Exit code 0: the run would change nothing. 2: it would change something. 1: the command failed. 64: it was used
    wrongly.
    """
    payload = {"dry_run": True, **({"at": to_text(read_edge("--at", at))} if at is not None else {})}
    wanted = None if config is None else list_definitions(load(config).streams.values())
    account = find_account(target)
    report = run_task("asking", lambda: account.run_lifecycle(**payload))
    # Nobody knows what will be due at another time: it depends on the events.
    if at is None and (work := run_task("asking", lambda: _list_work(account, wanted))):
        report["work"] = work
    show_report(report, as_json=as_json)
    if is_pending(report) or report.get("troubles"):
        raise typer.Exit(PENDING)


def _list_work(account: Account, wanted: Mapping[str, Sequence[Definition]] | None) -> list[dict[str, Any]]:
    """List the work that is due and, if rollups are ``wanted``, what their deploy would change."""
    pipeline, answer = account.pipeline, dict[str, Any](definitions={})
    try:
        if "RefresherFunction" in account.outputs:
            answer = account.run_refresher(status=EVERY_STREAM)
        else:
            answer["work"] = [work._asdict() for work in list_due_items(pipeline.work, pipeline.clock.now())]
    except (AccountError, ClientError, BotoCoreError, TidetableError) as error:
        warn(f"the work in the background is not known: {error}", "yellow")
        return []
    changes = compare_definitions(answer["definitions"], wanted) if wanted is not None else ()
    return [*answer["work"], *(work._asdict() for work in changes)]


@app.command()
def apply(
    target: Target,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the lifecycle now, as the schedule would. Exit code 1 if something failed."""
    account = find_account(target)
    if not yes:
        pending = run_task("planning", lambda: account.run_lifecycle(dry_run=True))
        show_report(pending, as_json=False)
        if not is_pending(pending):
            if not pending["healthy"]:
                raise typer.Exit(1)
            return
        typer.confirm("Do this?", abort=True)
    _end_run(run_task("running", account.run_lifecycle), as_json=as_json)


def _end_run(report: dict[str, Any], *, as_json: bool) -> None:
    """Print the report of a run, and end the command with 1 if something failed."""
    show_report(report, as_json=as_json)
    if not report["healthy"]:
        raise typer.Exit(1)


@app.command()
def archive(
    target: Target,
    stream: Annotated[str, typer.Argument(help="The stream.", autocompletion=complete_stream)],
    period: Annotated[str | None, typer.Argument(help="The period's label, such as 2026-01-31.")] = None,
    last: Annotated[
        str | None, typer.Argument(help="The last period of a range; this period is archived, too.")
    ] = None,
    paused: Annotated[
        bool | None,
        typer.Option("--pause/--resume", help="Let the archiving of the stream rest, or go on.", show_default=False),
    ] = None,
    rewrite: Annotated[bool, typer.Option("--rewrite", help="Write archives of an earlier format anew.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be rewritten.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    config: ConfigFile = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Archive closed periods now, before they expire. Their tables stay until the lifecycle deletes them.

    In a range, closed periods are archived and open periods are listed, and one failure does not stop the others: exit code 1
    then. Without a period, show the periods that are being archived.

    With --rewrite, archived periods whose files have an earlier format get files of today's format; nothing is read from
    tables.

    With --pause, no period of the stream is archived until --resume; the stream '*' means all streams.
    """
    account = find_account(target)
    if paused is not None or period is None:
        if stream != EVERY_STREAM:
            check_stream(account.pipeline.catalog, stream)
        tend_archiving(account, stream, paused, as_json=as_json)
        return
    entries = find_entries(account.pipeline.catalog, stream, period, last)
    if rewrite:
        rewrite_archives(account, entries, dry_run=dry_run, ask=not (yes or as_json), as_json=as_json)
        return
    answers, troubles = _archive_entries(account, entries, config, as_json=as_json)
    if as_json:
        print_json(answers if last is not None else answers[0] if answers else None)
    for trouble in troubles:
        warn(trouble)
    if troubles:
        raise typer.Exit(1)


def _archive_entries(
    account: Account, entries: Sequence[Entry], config: Path, *, as_json: bool
) -> tuple[list[dict[str, Any]], list[str]]:
    """Archive periods, one after another. Return the answers, and why some could not be archived."""
    policies, now = try_config(config), clock.read_clock()
    answers, troubles = [], []
    for number, entry in enumerate(entries, start=1):
        if trouble := explain_open_period(entry, policies, now):
            troubles.append(trouble)
            continue
        try:
            answers.append(_archive_entry(account, entry, f"{number} of {len(entries)}: " if len(entries) > 1 else ""))
        except AccountError as error:
            troubles.append(str(error))
            continue
        if not as_json:
            say(f"{entry.stream} {entry.period.label} is {answers[-1]['state']}")
    return answers, troubles


def _archive_entry(account: Account, entry: Entry, prefix: str) -> dict[str, Any]:
    """Archive a period: call the archiver until the archive is complete.

    ``prefix`` is the beginning of the progress line.
    """
    name = f"{entry.stream} {entry.period.label}"
    archive = partial(account.archive_period, entry.stream, entry.period.label)
    answer: dict[str, Any] = run_task(f"{prefix}archiving {name}", archive)
    while answer["state"] == "archiving":
        so_far = f"{prefix}archiving {name}: {answer['events']:,} events are archived and verified"
        wait = answer.get("wait", 0.0)
        if wait:
            run_task(f"{so_far}; the archiver continues in {wait:.0f} s", partial(sleep, wait))
        answer = run_task(so_far, archive)
    return answer


@app.command(cls=WithAges)
def backfill(
    target: Target,
    stream: Annotated[str, typer.Argument(help="The stream.", autocompletion=complete_stream)],
    start: Annotated[
        str | None, typer.Argument(help="The first event time to import, such as 2026-01-01 or -30d.")
    ] = None,
    end: Annotated[str | None, typer.Argument(help="The first event time after the range to import, or now.")] = None,
    hours: Annotated[int, typer.Option(help="For how many hours the periods stay open.", min=1, max=720)] = 24,
    write: Annotated[
        int | None, typer.Option(help="Write units of each table; on demand without this option.", min=1)
    ] = None,
    read: Annotated[int | None, typer.Option(help="Read units of each table.", min=1)] = None,
    close: Annotated[bool, typer.Option("--end", help="Close the backfill of this range, or all of them.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Open past periods for importing history; they close by themselves.

    Without from and to, list the open backfills.
    """
    if (start is None) is not (end is None):
        fail("give both from and to, or neither", USAGE)
    if start is not None and end is not None:
        start, end = read_past_edge("from", start, _PURPOSE), read_past_edge("to", end, _PURPOSE)
    account = find_account(target)
    check_stream(account.pipeline.catalog, stream)
    span = {"stream": stream, "from": start, "to": end}
    if start is None and not close:
        _list_backfills(stream, account, as_json=as_json)
        return
    if close:
        payload: dict[str, Any] = {"end_backfill": span if start is not None else stream}
    else:
        payload = {"backfill": {**span, "hours": hours, "write": write, "read": read}}
    run = partial(account.run_lifecycle, dry_run=dry_run, **payload)
    _end_run(run_task("closing" if close else "opening", run), as_json=as_json)


def _list_backfills(stream: str, account: Account, *, as_json: bool) -> None:
    now = clock.read_clock()
    running = [backfill.document() for backfill in list_open_backfills(account.pipeline.catalog, stream, now)]
    if as_json:
        print_json(running)
        return
    for backfill in running:
        span = f"{backfill['from']} to {backfill['to']}"
        say(f"{stream}: {span} is open until {backfill['until']}")
    if not running:
        say(f"{stream} has no open backfill; to open one: backfill {stream} FROM TO")


@app.command()
def sweep(
    target: Target,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove large values in S3 that no event refers to, as the daily sweep does."""
    account = find_account(target)
    report = run_task("looking", lambda: account.sweep_objects(dry_run=dry_run))
    while report.get("position") is not None:
        position, seen = report.pop("position"), f"looking: {report['seen']:,} objects seen"
        more = run_task(seen, partial(account.sweep_objects, dry_run=True, position=position))
        # Numbers add up, and lists are joined.
        sums = {name: report[name] + more[name] for name in more.keys() - {"dry_run", "finished", "position"}}
        report = more | sums
    if as_json:
        print_json(report)
        return
    would = "would be removed" if dry_run else "removed"
    counts = f"{report['orphans']:,} of no event, {report['expired']:,} of deleted periods"
    say(f"{report['seen']:,} objects seen; {would}: {counts}")
    if report["unknown"]:
        say(f"{report['unknown']:,} belong to no period that the catalog knows, and are kept")
    for failure in report.get("failures", ()):
        say(f"could not be checked: {failure}")
    if not report["finished"]:
        say("The time was up; run the command again to continue.")
