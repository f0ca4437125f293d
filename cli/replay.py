"""The command that sends dead letters again: of the overflow to their tables, of feeds to their targets."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.account import Account, AccountError
from cli.common import app, find_account, print_json, run_task, say
from cli.letters import DeadLetters, Resent, find_lost_changes, find_lost_events
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
    dead = _find_letters(account, feed=feed)
    summary = run_task("looking", dead.summarize)
    rows, total = dead.list_rows(summary), summary.counts.total()
    if not as_json:
        for row in rows:
            where = f"{row['feed']} to {row['target'] or 'no target'}" if feed else row["stream"]
            say(f"{row[dead.unit]:>8,} of {where}: {row['reason']}")
        if not total or dry_run:
            say(f"{total:,} dead {dead.unit}")
            return
        if not yes:
            typer.confirm(f"Send {total:,} {dead.unit} {'again' if feed else 'back'}?", abort=True)
    sent = Resent()
    if not dry_run:
        sent = run_task("sending again", lambda: dead.resend(summary.messages))
    if as_json:
        print_json({"dead": rows, "replayed": sent.count} | ({"failures": sent.failures} if feed else {}))
    else:
        say(f"{sent.count:,} {'changes were taken' if feed else 'events are sent to the overflow again'}")
        for failure in sent.failures:
            say(f"not taken: {failure}")
    # Their targets did not accept them.
    if sent.failures:
        raise typer.Exit(1)


def _find_letters(account: Account, *, feed: bool) -> DeadLetters:
    queues, outputs = account.queues, account.outputs
    if feed:
        url = outputs["FeedDeadLetterQueueUrl"]
        return find_lost_changes(queues, url, account.redeliver_changes, (AccountError,))
    return find_lost_events(queues, outputs["DeadLetterQueueUrl"], outputs["OverflowQueueUrl"])
