"""Make the constructs of a stage or of a reader. Each construct is made after the constructs that it needs."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from constructs import Construct

from .alarms import Alarms
from .api import Api
from .checks import check_alone
from .console import Console
from .copies import Copied
from .dashboard import Dashboard
from .doors import Doors
from .feed import Feed
from .function import Common
from .ingest import Ingest
from .lake import Lake
from .lifecycle import Lifecycle
from .query import Query
from .rollups import Rollups
from .stage_parts import StageParts
from .storage import Storage
from .targets import Targets
from .watched import Watched
from .work import Work


@dataclass(frozen=True)
class External:
    """Resources of the user's app. Bucket and key replace the stage's own; the topic is notified beside the stage's."""

    bucket: s3.IBucket | None = None
    key: kms.IKey | None = None
    alarm_topic: sns.ITopic | None = None


@dataclass(frozen=True)
class Constructs:
    """The constructs of a stage or of a reader; a reader has neither ``own`` nor a dashboard."""

    storage: Storage | Copied
    api: Api
    targets: Targets
    alarms: Alarms
    own: StageParts | None = None
    dashboard: Dashboard | None = None


def make_reader(scope: Construct, common: Common, external: External) -> Constructs:
    """Make the constructs that answer queries from the copies of a Region."""
    storage = Copied(scope, "Storage", common, bucket=external.bucket, key=external.key)
    check_alone(scope, common.stage, None)
    query = Query(scope, "Query", common, storage)
    api = Api(scope, "Api", common, query=query, storage=storage)
    targets = Targets(scope, "Notify", common, topic=external.alarm_topic)
    watched = Watched(scope, common, api)
    return Constructs(storage, api, targets, Alarms(scope, "Alarms", watched=watched, targets=targets))


def make_stage(scope: Construct, common: Common, external: External, present: set[str]) -> Constructs:
    """Make a whole stage. ``present`` are the ids of the children that the stack had before."""
    parts = _make_parts(scope, common, external)
    lifecycle = parts.lifecycle
    api = Api(scope, "Api", common, query=parts.query, storage=parts.storage, parts=parts)
    # The API is created after the tables and deleted before them, so that every accepted event has its table.
    api.node.add_dependency(lifecycle.tables)
    targets = Targets(scope, "Notify", common, topic=external.alarm_topic)
    watched = Watched(scope, common, api, parts)
    alarms = Alarms(scope, "Alarms", watched=watched, targets=targets)
    dashboard = Dashboard(scope, "Dashboard", watched)
    # The CDK makes the roles of schedules, and its own helpers, as children of the stack instead of the construct.
    outside = [child for child in Stack.of(scope).node.children if child.node.id not in present]
    # The last resource marks the stage as deployed, and protects its catalog. A deployment that fails is rolled back
    # before: at that time no table is protected, so the rollback can delete everything that the deployment created.
    everything, last = [*scope.node.children, *outside], Construct(scope, "Standing")
    protected = "true" if common.config.keeps_catalog else "false"
    marked = lifecycle.make_custom_resource(last, "Resource", "Custom::TidetableStanding", protected=protected)
    marked.node.add_dependency(*everything)
    return Constructs(parts.storage, api, targets, alarms, parts, dashboard)


def _make_parts(scope: Construct, common: Common, external: External) -> StageParts:
    config = common.config
    storage = Storage(scope, "Storage", stage=common.stage, config=config, bucket=external.bucket, key=external.key)
    check_alone(scope, common.stage, storage.bucket)
    ingest = Ingest(scope, "Ingest", common, storage)
    query = Query(scope, "Query", common, storage)
    feed = Feed(scope, "Feed", common, storage)
    lake = Lake(scope, "Lake", stage=common.stage)
    lifecycle = Lifecycle(scope, "Lifecycle", common, storage=storage, feed=feed, lake=lake)
    ingest.allow_watching(lifecycle.function)
    work = Work(scope, "Work", common)
    work.add_queue("Files", lifecycle.sweeper)
    work.add_queue("Archives", lifecycle.archiver)
    # A worker that ran during the stack's deletion would create tables again.
    work.add_queue("Restores", lifecycle.restorer, after=lifecycle.tables)
    work.add_queue("Lake", lifecycle.lake)
    work.allow_sends("Lake", lifecycle.archiver)
    rollups = None
    if config.is_refreshed:
        rollups = Rollups(scope, "Rollups", common, storage=storage, query=query, work=work, after=lifecycle.tables)
    doors = Doors(scope, "Doors", common, ingest) if config.doors.any else None
    console = None
    if config.api.console:
        console = Console(scope, "Console", common, lifecycle=lifecycle.function, storage=storage)
    return StageParts(storage, ingest, query, feed, lifecycle, work, rollups, lake, doors, console)
