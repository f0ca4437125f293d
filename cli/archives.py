"""Parts of ``archive``: the progress and the rest of archiving, and ``--rewrite``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import sleep
from typing import Any

import typer

from bill.prices import ARCHIVER_GB, GB_SECOND
from cli import clock
from cli.account import Account, AccountError
from cli.common import print_json, run_task, say, warn
from tidetable.archive.rewrite import SECONDS_PER_EVENT
from tidetable.archive.segments import describe_progress, list_segments
from tidetable.catalog import Entry
from tidetable.work.claim import EVERY_STREAM

# Reading, writing and comparing take half of the time that a run keeps free for them.
_DOLLARS_PER_EVENT = SECONDS_PER_EVENT / 2 * ARCHIVER_GB * GB_SECOND


def rewrite_archives(account: Account, entries: Sequence[Entry], *, dry_run: bool, ask: bool, as_json: bool) -> None:
    """Say what there is to rewrite and for what price, ask, and rewrite the archives of the periods, one after another.

    One failure does not stop the others: exit code 1 then.
    """
    troubles: list[str] = []
    plans = _try_each(entries, troubles, lambda entry: _call(account, entry, "looking at", dry_run=True))
    if not as_json:
        _show_plans(plans)
    left = {(plan["stream"], plan["period"]) for plan in plans if plan["state"] != "current"}
    answers = plans
    if left and not dry_run:
        if ask:
            typer.confirm("Rewrite these archives?", abort=True)
        old = [entry for entry in entries if (entry.stream, entry.period.label) in left]
        answers = [plan for plan in plans if plan["state"] == "current"]
        answers += _try_each(old, troubles, lambda entry: _rewrite(account, entry, quiet=as_json))
    if as_json:
        print_json(answers)
    for trouble in troubles:
        warn(trouble)
    if troubles:
        raise typer.Exit(1)


def _try_each(
    entries: Sequence[Entry], troubles: list[str], act: Callable[[Entry], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Act on each period and return the answers; add the reason of a failure to ``troubles``."""
    answers = []
    for entry in entries:
        try:
            answers.append(act(entry))
        except AccountError as error:
            troubles.append(str(error))
    return answers


def _show_plans(plans: Sequence[Mapping[str, Any]]) -> None:
    for plan in plans:
        files = f"{plan['done']} of {plan['files']} files have today's format"
        say(f"{plan['stream']} {plan['period']} is {plan['state']}: {files}")
    events = sum(plan["events"] for plan in plans if plan["state"] in ("old", "rewriting"))
    say(f"{events:,} events are to be rewritten, for about ${events * _DOLLARS_PER_EVENT:.2f}")


def _call(account: Account, entry: Entry, task: str, *, dry_run: bool = False) -> dict[str, Any]:
    rewrite = partial(account.rewrite_archive, entry.stream, entry.period.label, dry_run=dry_run)
    answer: dict[str, Any] = run_task(f"{task} {entry.stream} {entry.period.label}", rewrite)
    return answer


def _rewrite(account: Account, entry: Entry, *, quiet: bool) -> dict[str, Any]:
    """Call the function until the archive is rewritten and the old files are deleted."""
    answer, so_far = _call(account, entry, "rewriting"), -1
    while answer["state"] != "current":
        if answer["state"] != "switched" and answer["done"] == so_far:
            raise AccountError(f"rewriting {entry.stream} {entry.period.label} does not go on: its files are too large")
        so_far = answer["done"]
        if answer["wait"]:
            run_task("the old files are deleted when no query reads them any more", partial(sleep, answer["wait"]))
        answer = _call(account, entry, f"{so_far} of {answer['files']} files: rewriting")
    if not quiet:
        say(f"{entry.stream} {entry.period.label} is rewritten")
    return answer


def tend_archiving(account: Account, stream: str, paused: bool | None, *, as_json: bool) -> None:
    """Let the archiving of a stream rest or go on; if ``paused`` is None, show its progress."""
    if paused is not None:
        account.pause_archiving(stream, on=paused)
        say(
            f"the archiving of {'all streams' if stream == EVERY_STREAM else stream} {'rests' if paused else 'goes on'}"
        )
        return
    periods = describe_progress(list_segments(account.pipeline.work, stream), clock.read_clock())
    if as_json:
        print_json(periods)
        return
    for one in periods:
        line = (
            f"{stream} {one['period']}: {one['done']} of {one['segments']} segments are done, {one['running']} running"
        )
        say(f"{line}, {one['events']:,} events are archived and verified")
        if one["problem"]:
            warn(one["problem"])
    if not periods:
        say(f"no period of {stream} is being archived")
