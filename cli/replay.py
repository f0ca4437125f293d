"""The command that sends dead letters again: of the overflow to their tables, of feeds to their targets."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.account import Account, AccountError
from cli.common import app, find_account, print_json, run_task, say
from cli.feed_letters import Redelivered, redeliver_changes, summarize_changes
from cli.letters import replay_letters, summarize_letters
from cli.options import AsJson, Target


@app.command()
def replay(
    target: Target,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the messages and their reasons.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    feed: Annotated[
        bool, typer.Option("--feed", help="The dead letters of feeds: send them to their targets.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Send dead letters back to the overflow, from which they are written; writing an event again is harmless."""
    account = find_account(target)
    if feed:
        _replay_feed(account, dry_run=dry_run, yes=yes, as_json=as_json)
        return
    summary = run_task("looking", lambda: summarize_letters(account.queues, account.dead_letters))
    counts = sorted(summary.events.items())
    events = sum(count for _, count in counts)
    rows = [{"stream": stream, "reason": reason, "events": count} for (stream, reason), count in counts]
    if as_json:
        print_json({"dead": rows, "replayed": 0 if dry_run else _replay_letters(account, summary.messages)})
        return
    for row in rows:
        say(f"{row['events']:>8,} of {row['stream']}: {row['reason']}")
    if not events or dry_run:
        say(f"{events:,} dead events")
        return
    if not yes:
        typer.confirm(f"Send {events:,} events back?", abort=True)
    say(f"{_replay_letters(account, summary.messages):,} events are sent to the overflow again")


def _replay_feed(account: Account, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Send the dead letters of feeds to their targets again. Exit code 1 if a target does not accept them."""
    letters = run_task("looking", lambda: summarize_changes(account.queues, account.feed_letters))
    changes = sum(letters.changes.values())
    if not as_json:
        for row in letters.list_rows():
            where = f"{row['feed']} to {row['target'] or 'no target'}: {row['reason']}"
            say(f"{row['changes']:>8,} of {where}")
        if not changes or dry_run:
            say(f"{changes:,} dead changes")
            return
        if not yes:
            typer.confirm(f"Send {changes:,} changes again?", abort=True)
    sent = Redelivered()
    if not dry_run:
        sent = run_task(
            "sending again",
            lambda: redeliver_changes(
                account.queues, account.feed_letters, account.redeliver_changes, letters.messages, (AccountError,)
            ),
        )
    if as_json:
        print_json({"dead": letters.list_rows(), "replayed": sent.changes, "failures": sent.failures})
    else:
        say(f"{sent.changes:,} changes were taken")
        for failure in sent.failures:
            say(f"not taken: {failure}")
    if sent.failures:
        raise typer.Exit(1)


def _replay_letters(account: Account, maximum: int) -> int:
    count: int = run_task(
        "sending back",
        lambda: replay_letters(account.queues, account.dead_letters, account.overflow, maximum, lambda _: None),
    )
    return count
