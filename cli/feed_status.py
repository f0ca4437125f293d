"""Describe the state of feeds for ``status``: the number of open tables that the feed's function reads, and the dead
letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aws.mappings import LambdaMappings
from bill.current_tables import ObservedPeriod
from cli.account import Account
from tidetable.catalog import State
from tidetable.config import Config

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
