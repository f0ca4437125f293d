"""Archive one period: {"stream": "quakes", "period": "2026-01-31"}. The lifecycle calls this function, or an operator.

If a run cannot finish, the next run continues. Call again as long as the answer's state is "archiving", and wait
``wait`` seconds before each call: an earlier run may read less from the table. The state "busy" says that this run did
nothing, and ``reason`` says why: another run is at work, or the table is changing.
"""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_upkeep
from handlers._observe import count, logger, make_countdown, measure, observe
from tidetable.archive import archive_period
from tidetable.errors import ArchiveBusy

_RESERVE_SECONDS = 10.0


@observe
def handler(event: dict[str, str], context: LambdaContext) -> dict[str, Any]:
    """Archive and verify a period. An error fails the function, so that the caller sees it and an alarm counts it.

    A busy period is not an error: an export that takes longer than the lifecycle's five minutes meets its next run.
    """
    remaining = make_countdown(context, _RESERVE_SECONDS)
    stream, period, exporter = event["stream"], event["period"], wiring_upkeep.pipeline().exporter
    try:
        result = archive_period(stream, period, exporter, context.aws_request_id, remaining)
    except ArchiveBusy as error:
        logger.info("archiving is busy", stream=stream, period=period, reason=str(error))
        return {"stream": stream, "period": period, "state": "busy", "reason": str(error)}
    entry, facts = result.entry, result.entry.archive
    logger.info("archiving", stream=entry.stream, period=entry.period.label, state=entry.state, events=result.events)
    if result.done and facts is not None:
        count(EventsArchived=facts.events)
        measure(MetricUnit.Bytes, BytesArchived=facts.bytes)
        if facts.untyped:
            # A stage without such values has no such metric, and does not pay for it.
            logger.warning(
                "values do not fit their declared columns", stream=stream, period=period, columns=dict(facts.untyped)
            )
            count(UntypedValues=sum(facts.untyped.values()))
    return {
        "stream": entry.stream,
        "period": entry.period.label,
        "state": entry.state.value,
        "events": result.events,
        "wait": round(result.wait, 1),
    }
