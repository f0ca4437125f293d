"""The stack's custom resources. Tables exist when a deploy returns. A stream's policy decides whether its tables are
deleted with the stack. The catalog is protected after the stage's first complete deployment.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_upkeep
from handlers._observe import logger, make_countdown, observe
from handlers.lifecycle import publish_notices
from machine import draw_salt
from tidetable.copies.catalog_copies import remove_catalog_copies
from tidetable.credentials.first import admit_first, dismiss_first
from tidetable.errors import TidetableError
from tidetable.lifecycle import LifecycleRun
from tidetable.lifecycle.deploy import deploy, list_unmade_tables
from tidetable.lifecycle.deployed import finish_stage, mark_updated, protect, take_back
from tidetable.lifecycle.removal import remove

_RESERVE_SECONDS = 15.0
# The time to delete the tables of a first deployment that fails. CloudFormation deletes the catalog, and without it
# nobody would know those tables.
_TAKE_BACK_SECONDS = 240.0
_TABLES = "Custom::TidetableTables"
_DEPLOYED = "Custom::TidetableStanding"
_FIRST_KEY = "Custom::TidetableFirstKey"
# CloudFormation accepts answers of up to 4,096 bytes, so an answer names only some tables.
_NAMED = 10
# The bytes of a failure's reason, as JSON. If an answer is larger than 4,096 bytes, CloudFormation shows "Response object is
# too long" instead of the reason. Up to 1,200 bytes are for ids, and for the lines that the CDK's provider framework adds.
_REASON_BYTES = 2_800
_REST = " ... The log of the deployment's function has the whole reason"


class DeployFailed(TidetableError):
    """The request failed, most often because tables that the configuration needs now could not be made."""


@observe
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer the CDK provider framework. CloudFormation shows the message of an error; a long message is cut."""
    try:
        return _answer_request(event, context)
    except Exception as error:
        reason = _shorten_reason(str(error))
        if reason == str(error):
            raise
        logger.exception("the reason is too long for CloudFormation")
        raise DeployFailed(reason) from error


def _answer_request(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    pipeline = wiring_upkeep.pipeline()
    run = pipeline.begin_run(context.aws_request_id, make_countdown(context, _RESERVE_SECONDS))
    if event["RequestType"] == "Delete" and pipeline.tables.describe(pipeline.catalog_table) is None:
        # Nobody knows the stage's tables and keys any more, so they stay.
        _remove_mappings(run)
        logger.warning("the catalog does not exist, so no table is removed")
        return {"PhysicalResourceId": event["PhysicalResourceId"]}
    if event["RequestType"] != "Delete":
        # Before anything else, also if this configuration was deployed before. A rollback passes: only a complete
        # deployment records its format.
        run.catalog.require_known_format()
    kind = event.get("ResourceType", _TABLES)
    if kind != _TABLES:
        return _answer_other(kind, event, run)
    answer: dict[str, Any] = {"PhysicalResourceId": f"tidetable-{run.stage}-tables"}
    if event["RequestType"] == "Delete":
        _take_back(run)
        removed = remove(run)
        logger.info("tables removed", tables=removed.tables, left=removed.foreign)
        if not run.config.keeps_catalog:
            # CloudFormation deletes the catalog next.
            regions = remove_catalog_copies(run)
            logger.info("copies of the catalog removed", regions=regions)
        return answer
    configuration = event.get("ResourceProperties", {}).get("configuration", "")
    if event["RequestType"] == "Update":
        mark_updated(run)
        return answer | {"Data": _deploy_tables(run, configuration, first=False)}
    try:
        before = make_countdown(context, _RESERVE_SECONDS + _TAKE_BACK_SECONDS)
        return answer | {"Data": _deploy_tables(replace(run, remaining=before), configuration, first=True)}
    except Exception as error:
        # CloudFormation deletes the catalog next. After a Create that failed, the provider framework does not pass a
        # Delete on to this function.
        try:
            _take_back(run)
        except Exception as further:
            # Otherwise the error of the deletion would hide the reason why the deployment failed.
            logger.exception("tables could not be taken back")
            raise DeployFailed(f"{error}. Afterwards its tables could not all be deleted: {further}") from error
        raise


def _answer_other(kind: str, event: dict[str, Any], run: LifecycleRun) -> dict[str, Any]:
    """Answer a request for another resource than the tables."""
    if kind == _FIRST_KEY:
        return _admit_first_key(event)
    if kind == _DEPLOYED:
        return _set_protection(event, run)
    # A later version made it, and its deployment is rolled back: nothing of the stage may be deleted for it.
    raise DeployFailed(f"this version does not know resources of the type {kind}")


def _shorten_reason(reason: str) -> str:
    """Return the reason, or the beginning of a reason that has more than ``_REASON_BYTES`` bytes as JSON."""
    size = 0
    for at, character in enumerate(reason):
        size += len(json.dumps(character)) - 2
        if size > _REASON_BYTES:
            return reason[:at] + _REST
    return reason


def _deploy_tables(run: LifecycleRun, configuration: str, *, first: bool) -> dict[str, str]:
    """Make the tables. Return the data of the answer, which names the tables that scheduled runs will make."""
    deployed = deploy(run, configuration, first=first)
    for report in deployed.reports:
        publish_notices(report)
        logger.info("reconciled", report=report.document())
    if deployed.failure is not None:
        raise DeployFailed(deployed.failure)
    later = list_unmade_tables(deployed.unmade)
    if later:
        logger.warning("tables left to scheduled runs", tables=later, troubles=deployed.troubles)
    return {"TablesLeftToSchedule": str(len(later)), "Tables": ", ".join(later[:_NAMED])}


def _set_protection(event: dict[str, Any], run: LifecycleRun) -> dict[str, Any]:
    protected = event["ResourceProperties"]["protected"] == "true"
    if event["RequestType"] != "Delete":
        finish_stage(run, protected=protected)
    elif not protected:
        protect(run, protected=False)
    return {"PhysicalResourceId": f"tidetable-{run.stage}-standing"}


def _admit_first_key(event: dict[str, Any]) -> dict[str, Any]:
    """Let the stack's key in API Gateway call the API. A new key is a new resource, so the former key is dismissed."""
    pipeline = wiring_upkeep.pipeline()
    if event["RequestType"] == "Delete":
        ids = dismiss_first(pipeline.keys, event["PhysicalResourceId"])
        logger.info("first key dismissed", ids=ids)
        return {"PhysicalResourceId": event["PhysicalResourceId"]}
    gateway_key = event["ResourceProperties"]["gateway_key"]
    now, read_value = pipeline.clock.now(), pipeline.gateway_keys.read_value
    id = admit_first(pipeline.keys, gateway_key, read_value, draw_salt, now)
    logger.info("first key admitted", id=id)
    return {"PhysicalResourceId": gateway_key, "Data": {"KeyId": id}}


def _remove_mappings(run: LifecycleRun) -> None:
    """Remove the mappings of feeds, which would outlive their function. The next deletion removes changing mappings."""
    feeds = run.make_feed_tables()
    steps = feeds.remove_all() if feeds is not None else []
    if steps:
        logger.info("mappings removed", steps=[step._asdict() for step in steps])


def _take_back(run: LifecycleRun) -> None:
    _remove_mappings(run)
    removed = take_back(run)
    if removed:
        logger.info("tables taken back, as the stage never stood", tables=removed)
