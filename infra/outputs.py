"""The outputs of a stage or of a reader: the values with which the command line finds it."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_lambda as lambda_

from tidetable.version import VERSION

from .api import Api
from .function import Common
from .stage_constructs import Constructs
from .stage_parts import StageParts

# The functions whose logs `bin/tidetable` reads.
_LOGGED = ("ingest", "query", "doors")


def name_outputs(common: Common, constructs: Constructs, functions: Mapping[str, lambda_.Function]) -> dict[str, str]:
    """Map the names of the outputs to their values. ``functions`` maps the names of handlers to the functions."""
    logs = {
        f"{handler.capitalize()}Logs": function.log_group.log_group_name
        for handler, function in functions.items()
        if handler in _LOGGED
    }
    outputs = {"ApiUrl": constructs.api.rest.url, "Version": VERSION, **logs}
    if constructs.own is not None:
        outputs |= _name_own(constructs.own, constructs.api)
    if common.origin:
        outputs["Origin"] = common.origin
    if constructs.api.signed is not None:
        outputs["IamApiUrl"] = constructs.api.signed.url
    if constructs.targets.topic is not None:
        outputs["AlarmTopic"] = constructs.targets.topic.topic_arn
    return outputs


def _name_own(own: StageParts, api: Api) -> dict[str, str]:
    lifecycle = own.lifecycle
    outputs = {
        "ArchiveBucket": own.storage.bucket.bucket_name,
        "ArchiveDatabase": own.lake.name,
        "CatalogTable": own.storage.catalog.table_name,
        "LifecycleFunction": lifecycle.function.function_name,
        "ArchiverFunction": lifecycle.archiver.function_name,
        "RestorerFunction": lifecycle.restorer.function_name,
        "SweeperFunction": lifecycle.sweeper.function_name,
        "LakeFunction": lifecycle.lake.function_name,
        "OverflowQueueUrl": own.ingest.overflow.queue_url,
        "DeadLetterQueueUrl": own.ingest.dead_letters.queue_url,
        "FeedFunction": own.feed.function.function_name,
        "FeedDeadLetterQueueUrl": own.feed.dead_letters.queue_url,
        "WorkDeadLetterQueueUrl": own.work.dead_letters.queue_url,
        **{f"{name}QueueUrl": queue.queue_url for name, queue in own.work.queues.items()},
    }
    if own.console is not None:
        outputs["ConsoleUrl"] = api.rest.url_for_path("/console")
    if own.rollups is not None:
        outputs["RefresherFunction"] = own.rollups.function.function_name
    if api.key is not None and api.plan is not None:
        outputs |= {"ApiKeyId": api.key.key_id, "ApiUsagePlan": api.plan.usage_plan_id, "ApiId": api.rest.rest_api_id}
    return outputs
