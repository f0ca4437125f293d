"""The stack's custom resource: tables exist when a deploy returns, and each stream's policy decides when it goes."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_control
from handlers._observe import logger, observed, seconds_left
from handlers.lifecycle import tell
from tidetable.errors import TidetableError
from tidetable.lifecycle.apply import World
from tidetable.lifecycle.deploy import deploy, entries_named
from tidetable.lifecycle.removal import remove

_RESERVE_SECONDS = 15.0
# CloudFormation takes 4,096 bytes of an answer.
_NAMED = 10


class DeployFailed(TidetableError):
    """Tables that the deployed configuration needs now could not be made."""


@observed
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer the CDK provider framework: make the tables on create and update, remove them on delete."""
    remaining = seconds_left(context, _RESERVE_SECONDS)
    parts, owner = wiring_control.reconciler(), context.aws_request_id
    answer: dict[str, Any] = {"PhysicalResourceId": f"tidetable-{parts.stage}-tables"}
    if event["RequestType"] == "Delete":
        world = World(parts.stage, parts.catalog, parts.tables, parts.scaling, parts.archiver, parts.clock, remaining)
        removed = remove(parts.config, world, parts.clock.now(), owner)
        logger.info("tables removed", tables=removed.tables, left=removed.left)
        return answer
    configuration = event.get("ResourceProperties", {}).get("configuration", "")
    deployed = deploy(parts, owner, remaining, configuration, first=event["RequestType"] == "Create")
    for report in deployed.reports:
        tell(report)
        logger.info("reconciled", report=report.document())
    if deployed.failure is not None:
        raise DeployFailed(deployed.failure)
    later = entries_named(deployed.unmade)
    if later:
        logger.warning("tables left to scheduled runs", tables=later, troubles=deployed.troubles)
    return {**answer, "Data": {"TablesLeftToSchedule": str(len(later)), "Tables": ", ".join(later[:_NAMED])}}
