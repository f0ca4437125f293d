"""The daily sweep, and the same sweep by hand: {} or {"dry_run": true}."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_upkeep
from handlers._observe import count, logger, make_countdown, measure, observe
from tidetable.errors import BadInvocation, TidetableError
from tidetable.large.sweep import sweep

_KEYS = frozenset({"dry_run", "source"})


class SweepIncomplete(TidetableError):
    """Some objects could not be checked: an operator should look at the log. All other objects were swept."""


@observe
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Remove large values that no event refers to; answer the counts."""
    dry_run = event.get("dry_run", False)
    if event.keys() - _KEYS or not isinstance(dry_run, bool):
        raise BadInvocation("the payload may have dry_run, true or false")
    swept = sweep(wiring_upkeep.pipeline().sweeper, make_countdown(context), dry_run=dry_run)
    if not dry_run:
        count(ObjectsSwept=swept.orphans + swept.expired)
        measure(MetricUnit.Bytes, BytesSwept=swept.bytes)
    report = swept.document()
    logger.info("swept", report=report)
    if swept.failures and event.get("source") == "schedule":
        raise SweepIncomplete(f"{len(swept.failures)} objects could not be checked, such as {swept.failures[0]}")
    return report
