"""The stack: composes the constructs, and outputs the names that users need."""

from __future__ import annotations

from aws_cdk import CfnOutput, Environment, Stack, Tags
from constructs import Construct

from infra.acknowledgements import acknowledge
from infra.alarms import Alarms
from infra.api import Api
from infra.assets import Assets
from infra.console import Console
from infra.dashboard import Dashboard
from infra.doors import Doors
from infra.feed import Feed
from infra.function import Common
from infra.ingest import Ingest
from infra.lake import Lake
from infra.lifecycle import Lifecycle
from infra.query import Query
from infra.rollups import Rollups
from infra.standing import Standing
from infra.storage import Storage
from infra.targets import Targets
from tidetable.config import Config


class TidetableStack(Stack):
    """One stage of the pipeline in one account and Region."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        stage: str,
        config: Config,
        assets: Assets,
        env: Environment | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            description="Tidetable: time-series events in DynamoDB tables by period",
            env=env,
            termination_protection=config.storage.termination_protection,
        )
        common = Common(stage, config)
        slim, archive = assets.slim(), assets.archive()
        storage = Storage(self, "Storage", stage=stage, config=config)
        ingest = Ingest(self, "Ingest", common, code=slim, storage=storage)
        query = Query(self, "Query", common, slim=slim, archive=archive, storage=storage)
        feed = Feed(self, "Feed", common, code=slim, storage=storage)
        lifecycle = Lifecycle(self, "Lifecycle", common, slim=slim, archive=archive, storage=storage, feed=feed)
        rollups = None
        if config.rolled_up:
            rollups = Rollups(self, "Rollups", common, slim=slim, storage=storage, query=query, after=lifecycle.tables)
        lake = Lake(self, "Lake", stage=stage, config=config, bucket=storage.bucket)
        functions = {"ingest": ingest.function.entry, "query": query.function.entry}
        doors = None
        if config.doors.any:
            doors = Doors(self, "Doors", common, code=assets.doors(), ingest=ingest)
        console = None
        if config.api.console:
            page = assets.console()
            console = Console(self, "Console", common, page=page, slim=slim, lifecycle=lifecycle.function, storage=storage)
        api = Api(
            self,
            "Api",
            common,
            **functions,
            doors=doors,
            console=console,
            slim=slim,
            storage=storage,
            lifecycle=lifecycle,
        )
        # The API is created after the tables and deleted before them, so that every accepted event has its table.
        api.node.add_dependency(lifecycle.tables)
        targets = Targets(self, "Notify", common)
        Alarms(
            self,
            "Alarms",
            stage=stage,
            ingest=ingest,
            lifecycle=lifecycle,
            feed=feed,
            api=api,
            rollups=rollups,
            doors=doors,
            targets=targets,
            quota=config.lifecycle.table_quota,
        )
        Dashboard(
            self,
            "Dashboard",
            stage=stage,
            ingest=ingest,
            query=query,
            lifecycle=lifecycle,
            feed=feed,
            api=api,
            rollups=rollups,
        )
        Standing(self, "Standing", common, lifecycle=lifecycle, after=self.node.children)
        Tags.of(self).add("project", "tidetable")
        Tags.of(self).add("stage", stage)
        acknowledge(
            self,
            stage=stage,
            tracing=config.observability.tracing,
            bucket=storage.bucket,
            invoked=[
                *(lifecycle.function, lifecycle.deployment, lifecycle.sweeper),
                *([rollups.function] if rollups is not None else []),
            ],
            watching=[console.operations] if console is not None else [],
            mapping=[feed.function, lifecycle.function, lifecycle.deployment],
        )
        outputs = {
            "ApiUrl": api.rest.url,
            **({"ConsoleUrl": api.rest.url_for_path("/console")} if console is not None else {}),
            "ArchiveBucket": storage.bucket.bucket_name,
            "ArchiveDatabase": lake.name,
            "CatalogTable": storage.catalog.table_name,
            "LifecycleFunction": lifecycle.function.function_name,
            "ArchiverFunction": lifecycle.archiver.function_name,
            "RestorerFunction": lifecycle.restorer.function_name,
            "SweeperFunction": lifecycle.sweeper.function_name,
            "OverflowQueueUrl": ingest.overflow.queue_url,
            "DeadLetterQueueUrl": ingest.dead_letters.queue_url,
            "FeedFunction": feed.function.function_name,
            "FeedDeadLetterQueueUrl": feed.dead_letters.queue_url,
        }
        if rollups is not None:
            outputs["RefresherFunction"] = rollups.function.function_name
        if api.key is not None and api.plan is not None:
            outputs |= {
                "ApiKeyId": api.key.key_id,
                "ApiUsagePlan": api.plan.usage_plan_id,
                "ApiId": api.rest.rest_api_id,
            }
        if api.signed is not None:
            outputs["IamApiUrl"] = api.signed.url
        if targets.topic is not None:
            outputs["AlarmTopic"] = targets.topic.topic_arn
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
