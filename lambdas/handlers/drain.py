"""The overflow queue's consumer: a message that cannot be written yet stays in the queue, the others leave it."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring
from handlers._observe import logger, metrics, observed, seconds_left
from tidetable.ingest import drain_message
from tidetable.ingest.drain import NotDrained, Undrainable

_RESERVE_SECONDS = 5.0

# A batch in which nothing could be written is the usual case while a table is throttled, and no crash of the function.
_processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)


@observed
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Write the events of some messages; the answer names the messages that are to come again."""
    remaining = seconds_left(context, _RESERVE_SECONDS)
    # The queue delivers in no order; of what it delivers together the oldest goes first.
    event = {"Records": sorted(event["Records"], key=lambda record: int(record["attributes"]["SentTimestamp"]))}

    def drain(record: SQSRecord) -> None:
        try:
            count = drain_message(record.body, wiring.drain(), remaining, repeated=_is_repeated(record))
        except NotDrained as error:
            logger.warning("message not drained", reason=str(error), message_id=record.message_id)
            metrics.add_metric("MessagesNotDrained", MetricUnit.Count, 1)
            # What no number of tries would help is laid aside at once, with its reason; the alarm for dead letters calls.
            if isinstance(error, Undrainable) and wiring.dead_letters().bury(record.body, str(error)):
                return
            raise
        metrics.add_metric("EventsDrained", MetricUnit.Count, count)

    return process_partial_response(event=event, record_handler=drain, processor=_processor, context=context)


def _is_repeated(record: SQSRecord) -> bool:
    """Whether the queue delivered the message before."""
    return int(record.raw_event["attributes"].get("ApproximateReceiveCount", 1)) > 1
