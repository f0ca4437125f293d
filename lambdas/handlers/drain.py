"""Write the messages of the overflow queue. A message that cannot be written yet stays in the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring
from handlers._observe import logger, make_countdown, metrics, observe
from tidetable.errors import NotDrained
from tidetable.ingest.drain import drain_message

_RESERVE_SECONDS = 5.0

# While a table is throttled, often no message of a batch can be written. That is not a crash of the function.
_processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)


@observe
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Write the events of a batch of messages; the answer names the messages that SQS must deliver again."""
    remaining = make_countdown(context, _RESERVE_SECONDS)
    # The queue delivers messages in any order. Of the messages of one batch, the oldest is written first.
    event = {"Records": sorted(event["Records"], key=_read_sent)}
    _measure_age(event["Records"])

    def drain(record: SQSRecord) -> None:
        try:
            received = int(record.raw_event["attributes"].get("ApproximateReceiveCount", 1))
            drained = drain_message(record.body, wiring.get_pipeline().drain, remaining, received=received)
        except NotDrained as error:
            _report_undrained(record, str(error))
            raise
        if drained.buried is not None:
            _report_undrained(record, drained.buried)
        if drained.events:
            metrics.add_metric("EventsDrained", MetricUnit.Count, drained.events)

    return process_partial_response(event=event, record_handler=drain, processor=_processor, context=context)


def _report_undrained(record: SQSRecord, reason: str) -> None:
    """Log a message that was not written. SQS delivers it again, or it became a dead letter, which has an alarm."""
    logger.warning("message not drained", reason=reason, message_id=record.message_id)
    metrics.add_metric("MessagesNotDrained", MetricUnit.Count, 1)


def _measure_age(records: Sequence[Mapping[str, Any]]) -> None:
    """Publish for how many seconds the oldest of these messages has waited, written or not.

    AWS, "Available CloudWatch metrics for Amazon SQS": the queue's own ApproximateAgeOfOldestMessage leaves out messages that
    were received three times. So it would not show the messages of a table that is missing.
    """
    if records:
        waited = wiring.get_pipeline().clock.now().timestamp() - min(map(_read_sent, records)) / 1000
        metrics.add_metric("OldestMessage", MetricUnit.Seconds, max(waited, 0.0))


def _read_sent(record: Mapping[str, Any]) -> int:
    """Read the time when a message was sent, in milliseconds since 1970."""
    return int(record["attributes"]["SentTimestamp"])
