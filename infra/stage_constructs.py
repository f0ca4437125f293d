"""The constructs of a stage and of a reader. Each construct is made after the constructs that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from aws_cdk import Stack
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from constructs import Construct

from .alarms import Alarms, StageAlarms
from .api import Api
from .checks import check_alone
from .console import Console
from .copies import Copied
from .dashboard import Dashboard
from .deployed import Deployed
from .doors import Doors
from .feed import Feed
from .function import Common
from .ingest import Ingest
from .lake import Lake
from .lifecycle import Lifecycle
from .naming import name_alarm_prefix
from .query import Query
from .rollups import Rollups
from .storage import Storage
from .targets import Targets


class Code(Protocol):
    """The code of the functions, as assets."""

    def make_slim_code(self) -> lambda_.Code:
        """Return the code of the functions on the hot path."""

    def make_archive_code(self) -> lambda_.Code:
        """Return the code of the functions that write and read Parquet."""

    def make_doors_code(self) -> lambda_.Code:
        """Return the code of the function of the doors."""

    def make_console_code(self) -> lambda_.Code:
        """Return the code of the function that serves the console."""


@dataclass(frozen=True)
class External:
    """Resources of the user's app. Bucket and key replace the stage's own; the topic is notified beside the stage's."""

    bucket: s3.IBucket | None = None
    key: kms.IKey | None = None
    alarm_topic: sns.ITopic | None = None


@dataclass(frozen=True)
class StageConstructs:
    """The constructs that only the stage itself has. A reader does not have them."""

    storage: Storage
    ingest: Ingest
    feed: Feed
    lifecycle: Lifecycle
    rollups: Rollups | None
    lake: Lake
    doors: Doors | None
    console: Console | None
    dashboard: Dashboard


@dataclass(frozen=True)
class Constructs:
    """The constructs of a stage or of a reader; ``own`` is None for a reader."""

    storage: Storage | Copied
    query: Query
    api: Api
    targets: Targets
    alarms: Alarms
    own: StageConstructs | None = None


def make_reader(scope: Construct, common: Common, code: Code, external: External) -> Constructs:
    """Make the constructs that answer queries from the copies of a Region."""
    slim = code.make_slim_code()
    storage = Copied(scope, "Storage", common, bucket=external.bucket, key=external.key)
    check_alone(scope, common.stage, None)
    query = Query(scope, "Query", common, slim=slim, archive=code.make_archive_code(), storage=storage)
    api = Api(scope, "Api", common, query=query.function.entry, slim=slim, storage=storage)
    targets = Targets(scope, "Notify", common, topic=external.alarm_topic)
    alarms = Alarms(scope, "Alarms", stage=common.stage, api=api, targets=targets)
    return Constructs(storage, query, api, targets, alarms)


def make_stage(scope: Construct, common: Common, code: Code, external: External, present: set[str]) -> Constructs:
    """Make a whole stage. ``present`` are the ids of the children that the stack had before."""
    config, slim, archive = common.config, code.make_slim_code(), code.make_archive_code()
    storage = Storage(scope, "Storage", stage=common.stage, config=config, bucket=external.bucket, key=external.key)
    check_alone(scope, common.stage, storage.bucket)
    ingest = Ingest(scope, "Ingest", common, code=slim, storage=storage)
    query = Query(scope, "Query", common, slim=slim, archive=archive, storage=storage)
    feed = Feed(scope, "Feed", common, code=slim, storage=storage)
    lifecycle = Lifecycle(scope, "Lifecycle", common, slim=slim, archive=archive, storage=storage, feed=feed)
    rollups = None
    if config.rolled_up:
        rollups = Rollups(scope, "Rollups", common, slim=slim, storage=storage, query=query, after=lifecycle.tables)
    lake = Lake(scope, "Lake", stage=common.stage, config=config, bucket=storage.bucket)
    doors = Doors(scope, "Doors", common, code=code.make_doors_code(), ingest=ingest) if config.doors.any else None
    console = None
    if config.api.console:
        console = Console(
            scope,
            "Console",
            common,
            page=code.make_console_code(),
            slim=slim,
            lifecycle=lifecycle.function,
            storage=storage,
            alarm_prefix=name_alarm_prefix(scope, common.stage),
        )
    api = Api(
        scope,
        "Api",
        common,
        ingest=ingest.function.entry,
        query=query.function.entry,
        doors=doors,
        console=console,
        slim=slim,
        storage=storage,
        lifecycle=lifecycle,
    )
    # The API is created after the tables and deleted before them, so that every accepted event has its table.
    api.node.add_dependency(lifecycle.tables)
    targets = Targets(scope, "Notify", common, topic=external.alarm_topic)
    alarms = StageAlarms(
        scope,
        "Alarms",
        stage=common.stage,
        ingest=ingest,
        lifecycle=lifecycle,
        feed=feed,
        api=api,
        rollups=rollups,
        doors=doors,
        targets=targets,
        quota=config.lifecycle.table_quota,
        typed=any(stream.archive.columns for stream in config.streams.values()),
    )
    dashboard = Dashboard(
        scope,
        "Dashboard",
        stage=common.stage,
        ingest=ingest,
        query=query,
        lifecycle=lifecycle,
        feed=feed,
        api=api,
        rollups=rollups,
    )
    # The CDK makes the roles of schedules, and its own helpers, as children of the stack instead of the construct.
    outside = [child for child in Stack.of(scope).node.children if child.node.id not in present]
    Deployed(scope, "Standing", common, lifecycle=lifecycle, after=[*scope.node.children, *outside])
    own = StageConstructs(storage, ingest, feed, lifecycle, rollups, lake, doors, console, dashboard)
    return Constructs(storage, query, api, targets, alarms, own)
