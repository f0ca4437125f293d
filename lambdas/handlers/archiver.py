"""Archives one period: {"stream": "quakes", "period": "2026-01-31"}. Called by the lifecycle, or by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_archive
from handlers._observe import logger, metrics, observed, seconds_left
from tidetable.archive import archive_period


@observed
def handler(event: dict[str, str], context: LambdaContext) -> dict[str, Any]:
    """Archive and verify; an error is the function's error, which the caller sees and an alarm counts."""
    length = timedelta(seconds=seconds_left(context)())
    entry = archive_period(event["stream"], event["period"], wiring_archive.exporter(), context.aws_request_id, length)
    facts = entry.archive
    if facts is not None:
        logger.info("archived", stream=entry.stream, period=entry.period.label, events=facts.events, bytes=facts.bytes)
        metrics.add_metric("EventsArchived", MetricUnit.Count, facts.events)
        metrics.add_metric("BytesArchived", MetricUnit.Bytes, facts.bytes)
    return {"stream": entry.stream, "period": entry.period.label, "state": entry.state.value}
