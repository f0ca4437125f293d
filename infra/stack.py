"""The stack: composes the constructs and names what a user needs of them."""

from __future__ import annotations

from aws_cdk import CfnOutput, Stack, Tags
from constructs import Construct

from infra.acknowledgements import acknowledge
from infra.alarms import Alarms
from infra.api import Api
from infra.assets import Assets
from infra.dashboard import Dashboard
from infra.function import Common
from infra.ingest import Ingest
from infra.lake import Lake
from infra.lifecycle import Lifecycle
from infra.query import Query
from infra.storage import Storage
from infra.tables import scales
from tidetable.config import Config


class TidetableStack(Stack):
    """One stage of the pipeline in one account and Region."""

    def __init__(self, scope: Construct, id: str, *, stage: str, config: Config, assets: Assets) -> None:
        super().__init__(scope, id, description="Tidetable: time-series events in DynamoDB tables by period")
        common = Common(stage, config)
        slim, archive = assets.slim(), assets.archive()
        storage = Storage(self, "Storage", stage=stage, config=config)
        ingest = Ingest(self, "Ingest", common, code=slim, storage=storage)
        query = Query(self, "Query", common, slim=slim, archive=archive, storage=storage)
        lifecycle = Lifecycle(self, "Lifecycle", common, slim=slim, archive=archive, storage=storage)
        lake = Lake(self, "Lake", stage=stage, config=config, bucket=storage.bucket)
        api = Api(self, "Api", common, ingest=ingest.function.entry, query=query.function.entry)
        quota = config.lifecycle.table_quota
        Alarms(self, "Alarms", stage=stage, ingest=ingest, lifecycle=lifecycle, api=api, quota=quota)
        Dashboard(self, "Dashboard", stage=stage, ingest=ingest, query=query, lifecycle=lifecycle, api=api)
        Tags.of(self).add("project", "tidetable")
        Tags.of(self).add("stage", stage)
        acknowledge(
            self,
            stage=stage,
            tracing=config.observability.tracing,
            scaling=scales(common),
            bucket=storage.bucket,
            invoked=[lifecycle.function, lifecycle.deployment, lifecycle.sweeper],
        )
        outputs = {
            "ApiUrl": api.rest.url,
            "ArchiveBucket": storage.bucket.bucket_name,
            "ArchiveDatabase": lake.name,
            "CatalogTable": storage.catalog.table_name,
            "LifecycleFunction": lifecycle.function.function_name,
            "ArchiverFunction": lifecycle.archiver.function_name,
            "RestorerFunction": lifecycle.restorer.function_name,
            "SweeperFunction": lifecycle.sweeper.function_name,
            "OverflowQueueUrl": ingest.overflow.queue_url,
            "DeadLetterQueueUrl": ingest.dead_letters.queue_url,
        }
        if api.key is not None:
            outputs["ApiKeyId"] = api.key.key_id
        for name, value in outputs.items():
            CfnOutput(self, name, value=value)
