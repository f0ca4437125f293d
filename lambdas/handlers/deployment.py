"""The stack's custom resources: tables exist when a deploy returns, each stream's policy decides when they go, and the catalog
is protected once the stage stands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_control
from handlers._observe import logger, observed, seconds_left
from handlers.lifecycle import tell
from settings import settings
from tidetable.errors import TidetableError
from tidetable.lifecycle import Reconciler, Report, reconcile
from tidetable.lifecycle.apply import World
from tidetable.lifecycle.removal import remove
from tidetable.lifecycle.standing import protect, stand, take_back

_RESERVE_SECONDS = 15.0
_RETRY_SECONDS = 5.0
# To take back what a first deployment made that fails: with the catalog its tables would be nobody's.
_TAKE_BACK_SECONDS = 240.0
_STANDING = "Custom::TidetableStanding"


class DeployFailed(TidetableError):
    """Tables that the deployed configuration needs could not be made."""


@observed
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer the CDK provider framework: reconcile on create and update, remove on delete."""
    remaining = seconds_left(context, _RESERVE_SECONDS)
    parts = wiring_control.reconciler()
    world = World(parts.stage, parts.catalog, parts.tables, parts.scaling, parts.archiver, parts.clock, remaining)
    if event.get("ResourceType") == _STANDING:
        return _stand(event, world)
    if event["RequestType"] == "Delete":
        _take_back(parts, world)
        logger.info("tables removed", tables=remove(parts.config, world, parts.clock.now()))
    elif event["RequestType"] == "Create":
        try:
            _reconcile(parts, context, seconds_left(context, _RESERVE_SECONDS + _TAKE_BACK_SECONDS))
        except Exception:
            # CloudFormation deletes the catalog next, and the provider framework passes on no Delete after a Create that failed.
            _take_back(parts, world)
            raise
    else:
        _reconcile(parts, context, remaining)
    return {"PhysicalResourceId": f"tidetable-{parts.stage}-tables"}


def _stand(event: dict[str, Any], world: World) -> dict[str, Any]:
    protected = event["ResourceProperties"]["protected"] == "true"
    if event["RequestType"] != "Delete":
        stand(world, settings().catalog_table, protected=protected)
    elif not protected:
        protect(world, settings().catalog_table, protected=False)
    return {"PhysicalResourceId": f"tidetable-{world.stage}-standing"}


def _take_back(parts: Reconciler, world: World) -> None:
    taken = take_back(parts.config, world, settings().catalog_table)
    if taken:
        logger.info("tables taken back, as the stage never stood", tables=taken)


def _reconcile(parts: Reconciler, context: LambdaContext, remaining: Callable[[], float]) -> None:
    report = reconcile(parts, context.aws_request_id, remaining)
    while report.skipped is not None and remaining() > _RETRY_SECONDS:
        parts.clock.sleep(_RETRY_SECONDS)  # a scheduled run is under way; it ends soon
        report = reconcile(parts, context.aws_request_id, remaining)
    tell(report)
    _check(report)


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
