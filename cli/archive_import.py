"""``import --to archive``: what the command says, and its work on a deployed stage."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache, partial
from pathlib import Path
from time import sleep
from typing import Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from aws.archive.parquet import Parquet
from aws.objects import S3Objects
from cli import clock
from cli.account import Account, AccountError
from cli.bulk.command import ArchiveImport, Outcome, Plan
from cli.bulk.inputs import Input, list_inputs
from cli.bulk.merge import Merger
from cli.bulk.progress import Progress as ImportProgress
from cli.bulk.progress import ProgressFolder
from cli.common import USAGE, err, fail, make_grid, out, print_json, run_task, say, warn
from cli.rebuilding import begin_rebuild, plan_rebuilds, show_plan
from cli.sources import Columns
from tidetable.config import Stream
from tidetable.periods import parse_label
from tidetable.problems import describe_unknown_stream
from tidetable.run_streams import read_recorded_policies
from tidetable.times import to_text

# What reading, sorting, writing and comparing an event takes, and what an event takes that is archived already
# (`bench.bulk_import`).
SECONDS_PER_EVENT, SECONDS_PER_ARCHIVED = 36e-6, 22e-6
# A core of an instance c7g.medium, on demand in us-east-1.
DOLLARS_PER_CORE_SECOND = 0.0363 / 3600


def import_into_archive(
    account: Account,
    files: Sequence[str],
    stream: str,
    columns: Columns,
    kind: str | None,
    *,
    state: Path | None,
    on_error: str,
    dry_run: bool,
    again: bool,
    as_json: bool,
) -> None:
    """Import files straight into the archive of a stream; with ``dry_run``, only say what would be done.

    Exit code 1 if a row or a period is refused.
    """
    if on_error not in ("stop", "skip"):
        fail(f"--on-error {on_error}: use stop or skip", USAGE)
    policy = _find_policy(account, stream)
    open_s3 = cache(lambda: account.make_client("s3"))
    inputs = list_inputs(files, open_s3)
    folder = ProgressFolder(state or Path(f"{stream}.import"))
    progress = _load_progress(folder, inputs, stream, columns, kind, anew=again or dry_run)
    if progress.is_done:
        fail(f"these files are imported already ({folder.path}): --again imports them once more", USAGE)
    with nullcontext() if dry_run else folder.hold(progress), _show_progress() as bar:
        task = bar.add_task("", total=None)

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        work = ArchiveImport(
            policy, inputs, columns, kind, folder, progress, _make_merger(account, policy, folder, open_s3), open_s3,
            stops=on_error == "stop" and not dry_run, keeps=not dry_run, show=show,
            tell=partial(_remove_of_period, account, stream),
        )  # fmt: skip
        runs = work.read_files()
        plans = work.plan_periods()
        problems = [plan for plan in plans if plan.problem]
        outcome = Outcome({}, {plan.label: plan.problem for plan in problems})
        if not dry_run and not (problems and work.stops):
            outcome = work.merge_periods(runs)
    done = [label for label, own in progress.periods.items() if own.done]
    if done and not dry_run:
        _build_rollups(account, policy, done, quiet=as_json)
        _remove_former_files(account, stream, done)
    if not (dry_run or outcome.refused):
        work.end()
    _report(work, plans, outcome, dry_run=dry_run, as_json=as_json)
    if outcome.refused or progress.refused:
        raise typer.Exit(1)


def _find_policy(account: Account, stream: str) -> Stream:
    """Find the policy with which the stage was deployed; end the command if it has no such stream."""
    recorded = {policy.stream: policy for policy in account.pipeline.catalog.list_policies() if not policy.removed}
    if stream not in recorded:
        fail(f"--stream: {describe_unknown_stream(stream, sorted(recorded))}", USAGE)
    found = next((own for own in read_recorded_policies(account.pipeline.catalog) if own.name == stream), None)
    if found is None:
        fail(f"the recorded policy of {stream} cannot be read: use the version of the command that deployed the stage")
    return found


def _load_progress(
    folder: ProgressFolder, inputs: Sequence[Input], stream: str, columns: Columns, kind: str | None, *, anew: bool
) -> ImportProgress:
    task = {"stream": stream, "format": kind or "", "columns": repr(columns)}
    task |= {own.name: own.fingerprint for own in inputs}
    return folder.load(task, to_text(clock.read_clock()), anew=anew)


def _make_merger(account: Account, policy: Stream, folder: ProgressFolder, open_s3: Any) -> Merger:
    pipeline = account.pipeline
    objects = S3Objects(open_s3(), account.outputs["ArchiveBucket"])
    return Merger(
        pipeline.stage, policy.name, policy.archive.columns, pipeline.catalog, objects, Parquet(), pipeline.clock,
        account.finish_import, folder.path,
    )  # fmt: skip


def _build_rollups(account: Account, policy: Stream, labels: Sequence[str], *, quiet: bool) -> None:
    """Order the buckets before the beginning of each rollup. Sealed buckets are marked already, and computed anew."""
    if not policy.rollup:
        return
    periods = sorted(map(parse_label, labels))
    start, end = to_text(periods[0].start), to_text(max(period.end for period in periods))
    try:
        rollups = account.run_refresher(status=policy.name)["rollups"]
        for plan in plan_rebuilds(account, policy.name, rollups, start, end):
            if not quiet:
                show_plan(plan)
            if not plan["problem"] and not plan["rebuild"] and plan["buckets"]:
                begin_rebuild(account, policy.name, plan, start, end)
    except AccountError as error:
        warn(
            f"the rollups could not be ordered: {error}; call"
            f" `tidetable rollup {policy.name} --rebuild --from {start} --to {end}`"
        )


def _remove_former_files(account: Account, stream: str, labels: Sequence[str]) -> None:
    """Remove the files that no manifest names any more, when no query reads them."""
    waits = {label: _remove_of_period(account, stream, label) for label in labels}
    wait = max(waits.values(), default=0.0)
    if wait:
        run_task("the former files are deleted when no query reads them any more", partial(sleep, wait))
        for label in labels:
            if waits[label]:
                _remove_of_period(account, stream, label)


def _remove_of_period(account: Account, stream: str, label: str) -> float:
    """Return the seconds after which the former files of a period can be removed; 0 if there are none.

    The first call for a period also wakes the worker of the Iceberg table, which lists the former files until then.
    """
    try:
        return float(account.rewrite_archive(stream, label, dry_run=False)["wait"])
    except AccountError as error:
        warn(f"former files of {stream} {label} are left: {error}; `tidetable archive --rewrite` removes them")
        return 0.0


def _report(work: ArchiveImport, plans: Sequence[Plan], outcome: Outcome, *, dry_run: bool, as_json: bool) -> None:
    progress, rows = work.progress, sum(plan.rows for plan in plans)
    seconds = rows * SECONDS_PER_EVENT + sum(plan.archived for plan in plans) * SECONDS_PER_ARCHIVED
    if as_json:
        merged = {label: own._asdict() for label, own in outcome.merged.items()}
        periods = [plan._asdict() | {"merged": merged.get(plan.label)} for plan in plans]
        document = {"rows": rows, "refused": progress.refused, "periods": periods, "not_imported": outcome.refused}
        print_json(document | {"core_seconds": round(seconds), "dollars": round(seconds * DOLLARS_PER_CORE_SECOND, 4)})
        return
    for line in work.first_refusals:
        say(line)
    grid = make_grid("period", "rows", "archived before", "events now", "bytes", "problem", right={"rows"})
    for plan in plans:
        merged_period = outcome.merged.get(plan.label)
        now = (f"{merged_period.events:,}", f"{merged_period.size:,}") if merged_period else ("", "")
        problem = outcome.refused.get(plan.label, "")
        grid.add_row(plan.label, f"{plan.rows:,}", f"{plan.archived:,}", *now, problem)
    if plans:
        out.print(grid)
    for remark in work.remarks:
        warn(remark)
    refused = sum(progress.refused.values())
    if dry_run:
        price = f"about {seconds:,.0f} s of a core, ${seconds * DOLLARS_PER_CORE_SECOND:,.2f} of an instance c7g"
        say(f"{rows:,} rows in {len(plans)} periods, {refused:,} would be refused; {price}; nothing was imported")
        return
    say(f"{len(outcome.merged)} of {len(plans)} periods are imported, {refused:,} rows are refused")
    if refused:
        warn(f"the refused rows are in {work.folder.refused}")
    if outcome.refused:
        warn(f"{len(outcome.refused)} periods are not imported; the same command goes on with them")


def _show_progress() -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    return Progress(*columns, console=err, transient=True)
