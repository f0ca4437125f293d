"""The feed: changes of period tables, delivered to the targets of their streams.

Lambda calls this function with records of a table's stream. ``tidetable replay --feed`` calls it with a dead letter of
the feed, ``{"feed": "orders", "target": "arn:...", "changes": ["{...}"]}``, and waits for the answer. The changes are
texts, because numbers in JSON would lose digits.
"""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_upkeep
from handlers._observe import count, count_any, logger, make_countdown, measure, observe
from tidetable.errors import BadInvocation

_RESERVE_SECONDS = 5.0


@observe
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Deliver records. The answer names the first record that failed: Lambda sends it and all later records again."""
    feeds, remaining = wiring_upkeep.pipeline().feeds, make_countdown(context, _RESERVE_SECONDS)
    if "feed" in event:
        changes = event.get("changes")
        if not isinstance(changes, list) or not all(isinstance(change, str) for change in changes):
            raise BadInvocation("changes must be a list of texts, each a line of a dead letter of the feed")
        bodies = [change.encode() for change in changes]
        return {"delivered": feeds.redeliver(event["feed"], event.get("target", ""), bodies, remaining)}
    records = wiring_upkeep.pipeline().read_records(event)
    if not records:
        return {"batchItemFailures": []}
    delivered = feeds.deliver(records, remaining)
    count(ChangesDelivered=delivered.sent)
    count_any(ChangesBuried=delivered.buried)
    lag = (wiring_upkeep.pipeline().clock.now() - min(record.created for record in records)).total_seconds()
    measure(MetricUnit.Seconds, FeedLag=max(lag, 0.0))
    if delivered.first_failure is None:
        return {"batchItemFailures": []}
    logger.warning("not delivered", table=records[0].table, first=delivered.first_failure, reason=delivered.reason)
    count(FeedFailures=1)
    return {"batchItemFailures": [{"itemIdentifier": delivered.first_failure}]}
