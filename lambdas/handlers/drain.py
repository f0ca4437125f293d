"""Write the messages of the overflow queue. A message that cannot be written yet stays in the queue.

A scheduled event, {"source": "schedule"}, writes the messages that are saved in the bucket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_upkeep
from handlers._observe import count, count_any, logger, make_countdown, measure, observe
from tidetable.errors import NotDrained
from tidetable.ingest.saved import drain_saved, take_messages
from tidetable.ingest.saving import Received
from tidetable.remaining import Remaining
from tidetable.times import EPOCH

_RESERVE_SECONDS = 5.0
# At most this many reasons of a scheduled run are logged.
_LOGGED = 10


@observe
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Write the events of a batch of messages; the answer names the messages that SQS must deliver again."""
    remaining = make_countdown(context, _RESERVE_SECONDS)
    if "Records" not in event:
        return _drain_saved(remaining)
    # The queue delivers messages in any order. Of the messages of one batch, the oldest is written first.
    records = sorted(event["Records"], key=_read_sent)
    _measure_age(records)
    outcomes = take_messages([_read_record(record) for record in records], wiring_upkeep.pipeline().drain, remaining)
    failures = list[str]()
    for record, outcome in zip(records, outcomes, strict=True):
        if isinstance(outcome, NotDrained):
            failures.append(record["messageId"])
            _report_undrained(record, str(outcome))
            continue
        if outcome.buried is not None:
            _report_undrained(record, outcome.buried)
        count_any(EventsDrained=outcome.events, EventsSaved=outcome.saved)
    # While a table is throttled, often no message of a batch can be written. That is not a crash of the function.
    return {"batchItemFailures": [{"itemIdentifier": id} for id in failures]}


def _drain_saved(remaining: Remaining) -> None:
    """Write saved messages. Their age counts for the alarms OverflowOld and OverflowSaved."""
    run = drain_saved(wiring_upkeep.pipeline().drain, remaining)
    if run.backlog.oldest is not None:
        _measure_wait(run.backlog.oldest.timestamp())
    count_any(EventsDrained=run.events, SavedMessages=run.backlog.messages)
    if run.backlog.messages:
        logger.info("saved messages", events=run.backlog.events, bytes=run.backlog.bytes, written=run.events)
    for reason in run.reasons[:_LOGGED]:
        logger.warning("saved message not drained", reason=reason)


def _read_record(record: Mapping[str, Any]) -> Received:
    """Read a record of SQS."""
    received = int(record["attributes"].get("ApproximateReceiveCount", 1))
    return Received(record["body"], EPOCH + timedelta(milliseconds=_read_sent(record)), record["messageId"], received)


def _report_undrained(record: Mapping[str, Any], reason: str) -> None:
    """Log a message that was not written. SQS delivers it again, or it became a dead letter, which has an alarm."""
    logger.warning("message not drained", reason=reason, message_id=record["messageId"])
    count(MessagesNotDrained=1)


def _measure_age(records: Sequence[Mapping[str, Any]]) -> None:
    """Publish for how many seconds the oldest of these messages has waited, written or not.

    AWS, "Available CloudWatch metrics for Amazon SQS": the queue's own ApproximateAgeOfOldestMessage leaves out messages that
    were received three times. So it would not show the messages of a table that is missing.
    """
    if records:
        _measure_wait(min(map(_read_sent, records)) / 1000)


def _measure_wait(since: float) -> None:
    """Publish for how many seconds a message has waited that was sent so many seconds after 1970."""
    waited = wiring_upkeep.pipeline().clock.now().timestamp() - since
    measure(MetricUnit.Seconds, OldestMessage=max(waited, 0.0))


def _read_sent(record: Mapping[str, Any]) -> int:
    """Read the time when a message was sent, in milliseconds since 1970."""
    return int(record["attributes"]["SentTimestamp"])
