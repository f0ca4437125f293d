"""What a query cost and used: in the function's metrics, in its log, and in the headers of an answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from aws_lambda_powertools.metrics import MetricUnit

from handlers._observe import logger, metrics
from tidetable.access import Access
from tidetable.query import Cost, name_parameters


def count_cost(cost: Cost, access: Access) -> dict[str, str]:
    """Add the cost to the function's metrics; return its headers. It depends on all series: with a prefix, no headers."""
    metrics.add_metric("ReadUnits", MetricUnit.Count, cost.units)
    metrics.add_metric("EventsRead", MetricUnit.Count, cost.read)
    if access.series_prefix:
        return {}
    return {
        "Tidetable-Read-Units": f"{cost.units:g}",
        "Tidetable-Requests": str(cost.requests),
        "Tidetable-Events-Read": str(cost.read),
    }


def note_use(route: str, stream: str, cost: Cost, *, shown: int, conditions: str = "") -> None:
    """Add the queried fields, but no values, to the log line of the metrics. They make no metrics of their own.

    ``tidetable advise`` reads these lines: it finds which index would be worth its price, and where shards or buckets
    are too many.
    """
    use = {"stream": stream, "route": route.rpartition("/")[2], "conditions": conditions}
    for name, value in (*use.items(), ("requests", cost.requests), ("shown", shown)):
        metrics.add_metadata(name, value)


def note_refusal(event: Mapping[str, Any]) -> None:
    """Log the fields of a query that was refused because no index has them."""
    stream = unquote((event.get("pathParameters") or {}).get("stream", ""))
    route, names = event["resource"].rpartition("/")[2], event.get("multiValueQueryStringParameters") or {}
    logger.info("query refused", stream=stream, route=route, conditions=name_parameters(names), code="needs_index")


def report_losses(losses: Sequence[str]) -> None:
    """Count and log an incomplete answer. Its caller may not notice it, and only an operator can repair the cause."""
    if losses:
        logger.warning("incomplete answer", extra={"losses": losses[:20]})
        metrics.add_metric("IncompleteAnswers", MetricUnit.Count, 1)
