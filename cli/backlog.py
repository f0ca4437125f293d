"""Describe for ``status`` the events that are not written, and the changes that are not delivered: in queues, and in the
bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from aws.mappings import LambdaMappings
from bill.current_tables import ObservedPeriod
from cli.account import Account
from tidetable.catalog import State, find_entry_at
from tidetable.config import Config
from tidetable.durations import Duration
from tidetable.errors import StoreUnavailable, TableMissing
from tidetable.ingest.beat import stands_still
from tidetable.ingest.pace import Pace
from tidetable.ingest.saved_names import SAVED_PREFIX, Backlog, count_backlog, read_stream
from tidetable.times import to_text
from tidetable.work.standing import list_standings

_COUNT = "ApproximateNumberOfMessages"
_HIDDEN = "ApproximateNumberOfMessagesNotVisible"


def describe_overflow(
    account: Account, stream: str | None, config: Config, periods: Sequence[ObservedPeriod], now: datetime
) -> Iterator[str]:
    """Write a line for each queue with messages, and for each stream with saved messages, or for the one stream.

    It makes two requests to SQS, reads the drain's last beat, and lists the saved messages of the bucket.
    """
    yield from _describe_beat(account, now)
    if account.queues is not None:
        waiting, dead = (_count_messages(account, output) for output in ("OverflowQueueUrl", "DeadLetterQueueUrl"))
        if waiting:
            yield f"about {waiting} messages wait in the overflow queue: the log of the drain has the reasons"
        if dead:
            yield f"about {dead} messages are dead letters: tidetable replay --dry-run has the reasons"
    if account.stored is not None:
        stored = sorted(account.stored.stored(SAVED_PREFIX), key=lambda found: read_stream(found.key))
        for name, own in groupby(stored, key=lambda found: read_stream(found.key)):
            if stream in (None, name):
                messages, events, size, oldest = backlog = count_backlog(own)
                since = f", the oldest of {to_text(oldest)[:16]}Z" if oldest is not None else ""
                end = _estimate_end(account, name, backlog, config, periods, now)
                until = "" if end is None else f", at the drain's pace until about {to_text(end)[:16]}Z"
                yield (
                    f"{name}: {events:,} acknowledged events ({messages:,} messages, {size / 1e6:,.1f} MB{since}) are saved"
                    f" in the bucket, and are written minute by minute{until}; see the runbook, OverflowSaved"
                )


def _describe_beat(account: Account, now: datetime) -> Iterator[str]:
    try:
        beat = account.pipeline.beats.read()
    except (StoreUnavailable, TableMissing) as error:
        yield f"it is not known whether the drain stands still: {error}; allow dynamodb:Query on the table of rollups"
        return
    if stands_still(beat, now) and beat is not None:
        yield (
            f"the drain stands still since {to_text(beat)[:16]}Z: acknowledged events are saved in the bucket, and not written;"
            " see the runbook, OverflowUnread"
        )


def _estimate_end(
    account: Account, stream: str, backlog: Backlog, config: Config, periods: Sequence[ObservedPeriod], now: datetime
) -> datetime | None:
    """Estimate when saved messages will be written; None for a stream that is not configured, or without a table.

    An event takes a unit per kilobyte, and one at least unless events share packs. The pace is that with which the drain
    begins at the table in which the oldest message waits, or at the newest table.
    """
    entries = [period.entry for period in periods if period.entry.stream == stream]
    policy, oldest = config.streams.get(stream), backlog.oldest
    if policy is None or oldest is None or not entries:
        return None
    entry = find_entry_at(entries, oldest) or entries[-1]
    units = max(backlog.bytes / 1_000, 0 if policy.pack else backlog.events)
    rate = Pace.of_config(config, account.pipeline.clock, workers=1).find_rate(entry)
    return now + timedelta(seconds=units / rate)


def describe_work(account: Account, now: datetime) -> Iterator[str]:
    """Write a line for each kind of work of a stream that is due, failed or rests, and one for the dead letters of workers.

    It makes a request to DynamoDB per kind and one more, and one to SQS.
    """
    for one in list_standings(account.pipeline.work, now):
        of = f"{one.kind} of {one.stream}" if one.stream else one.kind
        waits = f" (for {Duration(seconds=int(one.oldest.total_seconds()))})" if one.waiting else ""
        failed = f", {one.failed} failed: {one.problem}" if one.failed else ""
        line = (
            f"work, {of}: {'rests, ' if one.paused else ''}{one.due} due, {one.waiting} wait{waits}, {one.running}"
            f" running{failed}"
        )
        if one.command and (one.paused or one.alarm):
            line += f"; {one.command} {'lets it go on' if one.paused else 'shows more'}"
        yield line + (f"; see the runbook, {one.alarm}" if one.alarm else "")
    letters = "WorkDeadLetterQueueUrl"
    # The stack of an earlier version has no such queue.
    if account.queues is not None and letters in account.outputs and (dead := _count_messages(account, letters)):
        yield f"about {dead} messages of workers are dead letters: tidetable replay --work; see the runbook, WorkDeadLetters"


def _count_messages(account: Account, output: str) -> int:
    url, names = account.outputs[output], [_COUNT, _HIDDEN]
    attributes = account.queues.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return int(attributes[_COUNT]) + int(attributes[_HIDDEN])


_ENABLED = "Enabled"


def describe_feeds(account: Account, config: Config, periods: Sequence[ObservedPeriod]) -> Iterator[str]:
    """Write a line for each stream with a feed and open tables, and a line for the dead letters of all feeds.

    It makes one request to Lambda and one to SQS, or no request if no stream has a feed.
    """
    feeds = [name for name, stream in config.streams.items() if stream.feed is not None]
    tables = {
        name: [
            period.entry.table for period in periods if period.entry.stream == name and period.entry.state is State.OPEN
        ]
        for name in feeds
    }
    if not any(tables.values()) or "FeedFunction" not in account.outputs:
        return
    enabled = {
        mapping.table
        for mapping in LambdaMappings(lambda: account.functions, account.outputs["FeedFunction"]).list()
        if mapping.state == _ENABLED
    }
    for name, open_tables in tables.items():
        if open_tables:
            yield f"feed of {name}: {len(enabled.intersection(open_tables))} of {len(open_tables)} open tables are read"
    attributes = account.queues.get_queue_attributes(
        QueueUrl=account.outputs["FeedDeadLetterQueueUrl"], AttributeNames=["ApproximateNumberOfMessages"]
    )
    waiting = int(attributes["Attributes"]["ApproximateNumberOfMessages"])
    if waiting:
        yield f"about {waiting} messages of dead letters of feeds wait: tidetable replay --feed"
