"""The command that sends dead letters again: of the overflow to their tables, of feeds to their targets, of workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from cli.account import Account, AccountError
from cli.common import app, find_account, print_json, run_task, say
from cli.letters import DeadLetters, Resent, find_lost_changes, find_lost_events, find_stopped_work
from cli.options import AsJson, Target
from tidetable.work.kinds import KINDS

_TAKEN = {
    "events": "events are sent to the overflow again",
    "changes": "changes were taken",
    "messages": "messages are sent to workers again",
}


@app.command()
def replay(
    target: Target,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the messages and their reasons.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    feed: Annotated[
        bool, typer.Option("--feed", help="The dead letters of feeds: send them to their targets.")
    ] = False,
    work: Annotated[bool, typer.Option("--work", help="The dead letters of workers in the background.")] = False,
    as_json: AsJson = False,
) -> None:
    """Send dead letters back to the overflow, from which they are written; writing an event again is harmless."""
    if feed and work:
        raise typer.BadParameter("choose --feed or --work")
    account = find_account(target)
    dead = _find_letters(account, feed=feed, work=work)
    summary = run_task("looking", dead.summarize)
    rows, total = dead.list_rows(summary), summary.counts.total()
    if not as_json:
        for row in rows:
            say(f"{row[dead.unit]:>8,} of {_describe(row)}")
        if not total or dry_run:
            say(f"{total:,} dead {dead.unit}")
            return
        if not yes:
            typer.confirm(f"Send {total:,} {dead.unit} {'again' if feed or work else 'back'}?", abort=True)
    sent = Resent()
    if not dry_run:
        sent = run_task("sending again", lambda: dead.resend(summary.messages))
    if as_json:
        print_json({"dead": rows, "replayed": sent.count} | ({"failures": sent.failures} if feed or work else {}))
    else:
        say(f"{sent.count:,} {_TAKEN[dead.unit]}")
        for failure in sent.failures:
            say(f"not taken: {failure}")
    # Their targets did not accept them.
    if sent.failures:
        raise typer.Exit(1)


def _describe(row: Mapping[str, Any]) -> str:
    if "item" in row:
        return f"{row['kind']}: {row['item']}"
    where = f"{row['feed']} to {row['target'] or 'no target'}" if "feed" in row else row["stream"]
    return f"{where}: {row['reason']}"


def _find_letters(account: Account, *, feed: bool, work: bool) -> DeadLetters:
    queues, outputs = account.queues, account.outputs
    if work:
        names = {kind: f"{rules.queue}QueueUrl" for kind, rules in KINDS.items()}
        urls = {kind: outputs[name] for kind, name in names.items() if name in outputs}
        return find_stopped_work(queues, outputs["WorkDeadLetterQueueUrl"], urls)
    if feed:
        url = outputs["FeedDeadLetterQueueUrl"]
        return find_lost_changes(queues, url, account.redeliver_changes, (AccountError,))
    return find_lost_events(queues, outputs["DeadLetterQueueUrl"], outputs["OverflowQueueUrl"])
