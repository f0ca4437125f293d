"""The stack's custom resource: tables exist when a deploy returns, and each stream's policy decides when it goes."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_control
from handlers._observe import logger, observed, seconds_left
from handlers.lifecycle import tell
from tidetable.errors import TidetableError
from tidetable.lifecycle import Report, reconcile
from tidetable.lifecycle.apply import World
from tidetable.lifecycle.removal import remove

_RESERVE_SECONDS = 15.0
_RETRY_SECONDS = 5.0


class DeployFailed(TidetableError):
    """Tables that the deployed configuration needs could not be made."""


@observed
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer the CDK provider framework: reconcile on create and update, remove on delete."""
    remaining = seconds_left(context, _RESERVE_SECONDS)
    parts = wiring_control.reconciler()
    if event["RequestType"] == "Delete":
        world = World(parts.stage, parts.catalog, parts.tables, parts.scaling, parts.archiver, parts.clock, remaining)
        logger.info("tables removed", tables=remove(parts.config, world, parts.clock.now()))
    else:
        report = reconcile(parts, context.aws_request_id, remaining)
        while report.skipped is not None and remaining() > _RETRY_SECONDS:
            parts.clock.sleep(_RETRY_SECONDS)  # a scheduled run is under way; it ends soon
            report = reconcile(parts, context.aws_request_id, remaining)
        tell(report)
        _check(report)
    return {"PhysicalResourceId": f"tidetable-{parts.stage}-tables"}


def _check(report: Report) -> None:
    logger.info("reconciled", report=report.document())
    if report.skipped is not None:
        raise DeployFailed(f"the tables could not be made: {report.skipped}")
    failed = [one for one in report.done if one.action.name == "create" and one.outcome != "done"]
    if failed:
        first = failed[0]
        raise DeployFailed(f"{len(failed)} tables could not be made; {first.action.entry.table}: {first.detail}")
    if report.troubles:
        raise DeployFailed(f"the tables could not all be looked at: {'; '.join(report.troubles)}")
