"""Checks of a stream's feed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

from tidetable.config.bounds import check_bounds, find_repeated
from tidetable.config.model import Stream
from tidetable.config.stream import FeedPolicy

MAX_TARGETS = 5
# AWS: a batch has at most 10,000 records of a table's stream, Lambda waits for it at most 300 s, and works on at most 10
# batches of a shard at once (ParallelizationFactor).
_MAX_BATCH, _MAX_WINDOW, _MAX_PARALLEL = 10_000, timedelta(seconds=300), 10
_ARN = re.compile(r"arn:aws[a-z-]*:([a-z]+):[a-z0-9-]+:\d{12}:(\S+)")
# The part of an ARN after the account, by service.
_NAMES = {
    "lambda": re.compile(r"function:[A-Za-z0-9_-]{1,64}(:[A-Za-z0-9_$-]{1,128})?"),
    "sqs": re.compile(r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo"),
    "events": re.compile(r"event-bus/[A-Za-z0-9._/-]{1,256}"),
    "kinesis": re.compile(r"stream/[A-Za-z0-9_.-]{1,128}"),
    "firehose": re.compile(r"deliverystream/[A-Za-z0-9_.-]{1,64}"),
}
_EXAMPLES = (
    "arn:aws:lambda:REGION:ACCOUNT:function:NAME, an SQS queue, an event bus, a Kinesis stream or a Firehose stream"
)


def check_feed(stream: Stream) -> Iterator[str]:
    """Yield the problems of ``[streams.NAME.feed]``."""
    feed = stream.feed
    if feed is None:
        return
    yield from _check_targets(feed)
    if not feed.kinds or find_repeated(feed.kinds):
        yield '.feed.kinds: name "insert", "replace" or both, each once; or remove [feed]'
    yield from check_bounds(".feed.batch", feed.batch, 1, _MAX_BATCH, " records")
    if not timedelta(0) <= feed.window <= _MAX_WINDOW or feed.window % timedelta(seconds=1):
        yield f".feed.window: {feed.window} is not a whole number of seconds within 0s to 300s"
    yield from check_bounds(".feed.parallel", feed.parallel, 1, _MAX_PARALLEL, " batches of a shard at once")
    stays = "; DynamoDB drops a record after 24 hours, and a record that becomes a dead letter must be read before that"
    yield from check_bounds(".feed.max_age", feed.max_age, "1m", "23h", stays)
    if stream.table.stream in ("keys-only", "old-image"):
        yield (
            f'.table.stream: "{stream.table.stream}" shows no new images, which the feed delivers; choose "new-image" or'
            ' "new-and-old-images", or remove the key: the feed sets it'
        )
    yield from _check_where(stream, feed)


def _check_targets(feed: FeedPolicy) -> Iterator[str]:
    if not 1 <= len(feed.targets) <= MAX_TARGETS or find_repeated(feed.targets):
        yield f".feed.targets: name 1 to {MAX_TARGETS} targets, each once; to reach more, let an event bus pass them on"
    for target in feed.targets:
        parts = _ARN.fullmatch(target)
        if parts is None or not _NAMES.get(parts[1], re.compile("(?!)")).fullmatch(parts[2]):
            yield f'.feed.targets: "{target}" is not the ARN of a target; a target is {_EXAMPLES}'


def _check_where(stream: Stream, feed: FeedPolicy) -> Iterator[str]:
    # The query's own parser reads the conditions. It is imported here, so that only streams with a feed load it.
    from tidetable.problems import ProblemError
    from tidetable.where import read_feed_conditions

    try:
        conditions = read_feed_conditions(stream, feed.where)
    except ProblemError as error:
        yield f".feed.where: {error.problem.detail}"
        return
    if len(conditions) < len(feed.where):
        yield ".feed.where: a condition is FIELD = VALUE or FIELD:OPERATOR = VALUE, as where.FIELD:OPERATOR of a query"
