"""Write the messages of the overflow queue. A message that cannot be written yet stays in the queue.

A scheduled event, {"source": "schedule"}, writes the messages that are saved in the bucket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_upkeep
from handlers._observe import count, count_any, logger, make_countdown, measure, observe
from tidetable.errors import NotDrained
from tidetable.ingest.saved import drain_saved, take_message
from tidetable.remaining import Remaining
from tidetable.times import EPOCH

_RESERVE_SECONDS = 5.0
# At most this many reasons of a scheduled run are logged.
_LOGGED = 10

# While a table is throttled, often no message of a batch can be written. That is not a crash of the function.
_processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)


@observe
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Write the events of a batch of messages; the answer names the messages that SQS must deliver again."""
    remaining = make_countdown(context, _RESERVE_SECONDS)
    if "Records" not in event:
        return _drain_saved(remaining)
    # The queue delivers messages in any order. Of the messages of one batch, the oldest is written first.
    event = {"Records": sorted(event["Records"], key=_read_sent)}
    _measure_age(event["Records"])

    def drain(record: SQSRecord) -> None:
        try:
            received = int(record.raw_event["attributes"].get("ApproximateReceiveCount", 1))
            sent, ports = EPOCH + timedelta(milliseconds=_read_sent(record.raw_event)), wiring_upkeep.pipeline().drain
            drained = take_message(record.body, sent, record.message_id, ports, remaining, received=received)
        except NotDrained as error:
            _report_undrained(record, str(error))
            raise
        if drained.buried is not None:
            _report_undrained(record, drained.buried)
        count_any(EventsDrained=drained.events, EventsSaved=drained.saved)

    return process_partial_response(event=event, record_handler=drain, processor=_processor, context=context)


def _drain_saved(remaining: Remaining) -> None:
    """Write saved messages. The alarm OverflowSaved rings as long as there are any."""
    run = drain_saved(wiring_upkeep.pipeline().drain, remaining)
    count_any(EventsDrained=run.events, SavedMessages=run.backlog.messages)
    if run.backlog.messages:
        logger.info("saved messages", events=run.backlog.events, bytes=run.backlog.bytes, written=run.events)
    for reason in run.reasons[:_LOGGED]:
        logger.warning("saved message not drained", reason=reason)


def _report_undrained(record: SQSRecord, reason: str) -> None:
    """Log a message that was not written. SQS delivers it again, or it became a dead letter, which has an alarm."""
    logger.warning("message not drained", reason=reason, message_id=record.message_id)
    count(MessagesNotDrained=1)


def _measure_age(records: Sequence[Mapping[str, Any]]) -> None:
    """Publish for how many seconds the oldest of these messages has waited, written or not.

    AWS, "Available CloudWatch metrics for Amazon SQS": the queue's own ApproximateAgeOfOldestMessage leaves out messages that
    were received three times. So it would not show the messages of a table that is missing.
    """
    if records:
        waited = wiring_upkeep.pipeline().clock.now().timestamp() - min(map(_read_sent, records)) / 1000
        measure(MetricUnit.Seconds, OldestMessage=max(waited, 0.0))


def _read_sent(record: Mapping[str, Any]) -> int:
    """Read the time when a message was sent, in milliseconds since 1970."""
    return int(record["attributes"]["SentTimestamp"])
