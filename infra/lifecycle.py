"""The lifecycle: its schedule, the function that reconciles, the archiver, the custom resource of the deployment."""

from __future__ import annotations

from hashlib import sha256

import msgspec
from aws_cdk import CustomResource, Duration, custom_resources
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from constructs import Construct

from tidetable.lake.lake_tables import LAKE
from tidetable.version import CATALOG_FORMAT

from .copies import allow_catalog_copies, allow_copies
from .feed import Feed
from .function import SIZES, Common, Function, make_logs
from .lake import Lake
from .naming import make_arn
from .objects import ARCHIVES, LARGE, MANIFESTS
from .queue import Queue
from .storage import Storage
from .tables import allow_scaling, allow_tables

EVERY_MINUTES = 5


class Lifecycle(Construct):
    """The functions that create, lower, archive and delete period tables."""

    def __init__(self, scope: Construct, id: str, common: Common, *, storage: Storage, feed: Feed, lake: Lake) -> None:
        super().__init__(scope, id)
        self._lake = lake
        self._common = common
        self._storage = storage
        self._feed = feed
        # Messages of failed runs. They contain no events, so the queue uses the service's own key.
        self.dead_letters = Queue(self, "DeadLetters")
        self._on_failure = destinations.SqsDestination(self.dead_letters)
        self.archiver = self._make_archiver()
        self.restorer = self._make_restorer()
        self.function = self._make_reconciler("Function", "lifecycle", self._on_failure)
        # CloudFormation waits for this function's answer and reports its failure, so it needs no dead-letter queue.
        self.deployment = self._make_reconciler("Deployment", "deployment")
        # The deployment's function protects the catalog from deletion when the stage is complete.
        storage.allow_catalog(self.deployment, "DescribeTable", "UpdateTable")
        allow_catalog_copies(self.function, common, storage.catalog.table_arn, deletes=False)
        # The deployment's function deletes the catalog's copies before CloudFormation deletes the catalog.
        allow_catalog_copies(self.deployment, common, storage.catalog.table_arn, deletes=True)
        self.sweeper = self._make_sweeper()
        self.lake = self._make_lake()
        # The provider answers CloudFormation. Its logs are kept for the same time as the functions' logs.
        group = make_logs(self, "ProviderLogs", common)
        self._provider = custom_resources.Provider(self, "Provider", on_event_handler=self.deployment, log_group=group)
        # This resource reconciles before a deploy returns, if the stack is new or the configuration has changed. It waits
        # for the policies of its function's role and of the feed's role, too: without these rights a deploy could not
        # create tables or mappings.
        self.tables = self.make_custom_resource(self, "Tables", "Custom::TidetableTables")
        self.tables.node.add_dependency(self.deployment, self.archiver, storage, feed)
        # The schedule is created after the tables and deleted before them: a run during the stack's deletion would
        # create the tables again.
        remark = "Reconciles the period tables"
        self.schedule = self.function.schedule_runs(
            self, "Schedule", Duration.minutes(EVERY_MINUTES), remark, self.dead_letters
        )
        self.schedule.node.add_dependency(self.tables)
        # Workers wake others by themselves: this run wakes them after a failure or a lost message.
        remark = "Wakes workers for restores that are under way"
        restores = self.restorer.schedule_runs(self, "Restores", Duration.minutes(EVERY_MINUTES), remark)
        restores.node.add_dependency(self.tables)
        remark = "Removes large values that no event refers to"
        self.sweeper.schedule_runs(self, "Sweeps", Duration.days(1), remark, self.dead_letters)
        remark = "Wakes the workers of the Iceberg tables"
        tables = self.lake.schedule_runs(self, "LakeRuns", Duration.hours(1), remark, self.dead_letters)
        tables.node.add_dependency(lake)

    def _make_archiver(self) -> Function:
        variables = self._storage.bucket_variable | self._allow_time_travel()
        function = Function(self, "Archiver", self._common, "archiver", variables)
        allow_tables(function, self._common, ["Scan", "Query", "DescribeTable", "BatchGetItem"])
        self._storage.allow_catalog(function, "Query", "PutItem", "UpdateItem", "DeleteItem")
        self._storage.allow_objects(function, ["GetObject", "PutObject", "DeleteObject"], ARCHIVES)
        self._storage.allow_objects(function, ["GetObject"], LARGE)
        self._storage.allow_listing(function, ARCHIVES, LARGE)
        return function

    def _make_restorer(self) -> Function:
        function = Function(self, "Restorer", self._common, "restorer", self._storage.variables)
        # The next scheduled run wakes the workers that a failed run did not wake.
        function.configure_async_invoke(retry_attempts=0)
        # If rollups find events by series, the restorer notes the series before it writes the events.
        self._storage.allow_rollups(function, "Query", "UpdateItem")
        tables = ["CreateTable", "DescribeTable", "TagResource", "ListTagsOfResource"]
        tables += ["BatchWriteItem", "BatchGetItem", "Scan", "Query", "UpdateContinuousBackups"]
        allow_tables(function, self._common, tables)
        self._storage.allow_catalog(function, "Query", "GetItem", "PutItem", "UpdateItem", "DeleteItem")
        self._storage.allow_objects(function, ["GetObject"], ARCHIVES)
        self._storage.allow_objects(function, ["GetObject", "PutObject"], LARGE)
        self._storage.allow_listing(function, ARCHIVES, LARGE)
        return function

    def _make_sweeper(self) -> Function:
        variables = self._storage.bucket_variable
        function = Function(self, "Sweeper", self._common, "sweeper", variables, dead_letters=self._on_failure)
        allow_tables(function, self._common, ["BatchGetItem"])
        # The sweeper records expired archives in the catalog, and its own position in the bucket.
        self._storage.allow_catalog(function, "Query", "UpdateItem")
        self._storage.allow_objects(function, ["GetObject", "DeleteObject"], LARGE)
        self._storage.allow_object(function, "PutObject", f"{LARGE}_sweep.json")
        # The listing shows if S3 has deleted an expired archive.
        self._storage.allow_listing(function, ARCHIVES, LARGE)
        return function

    def _make_lake(self) -> Function:
        """Make the function of the Iceberg tables. It reads manifests, and writes nothing beside the tables' metadata."""
        variables = self._storage.bucket_variable
        function = Function(self, "Lake", self._common, "lake", variables, dead_letters=self._on_failure)
        self._storage.allow_catalog(function, "Query", "UpdateItem", "DeleteItem")
        self._storage.allow_object(function, "GetObject", MANIFESTS)
        self._storage.allow_objects(function, ["GetObject", "PutObject", "DeleteObject"], LAKE)
        self._storage.allow_listing(function, ARCHIVES, LAKE)
        self._lake.allow_tables(function)
        return function

    def _make_reconciler(self, id: str, handler: str, dead_letters: lambda_.IDestination | None = None) -> Function:
        variables = {
            "TIDETABLE_ARCHIVER_FUNCTION": self.archiver.function_name,
            "TIDETABLE_FEED_FUNCTION": self._feed.function.function_name,
            **self._storage.variables,
            **self._allow_time_travel(),
        }
        function = Function(self, id, self._common, handler, variables, dead_letters=dead_letters)
        manage = ["CreateTable", "DescribeTable", "UpdateTable", "DeleteTable", "TagResource", "ListTagsOfResource"]
        manage += ["UpdateContinuousBackups"]
        allow_tables(function, self._common, manage)
        allow_scaling(function, self._common)
        allow_copies(function, self._common)
        self._storage.allow_catalog(function, "Query", "GetItem", "PutItem", "UpdateItem", "DeleteItem")
        # The lifecycle deletes the state of a rollup that has left the configuration, and marks tables that close.
        self._storage.allow_rollups(function, "Query", "DeleteItem", "PutItem", "UpdateItem")
        function.allow_actions("lambda", ["InvokeFunction"], self.archiver.function_arn)
        self._feed.allow_mappings(function)
        function.allow_actions("events", ["PutEvents"], make_arn(self, "events", "event-bus", "default"))
        return function

    def _allow_time_travel(self) -> dict[str, str]:
        """Make the variable that allows runs for another time than now, and archives of tables that such a run closed.

        Only the local stage allows them.
        """
        return {"TIDETABLE_ALLOW_TIME_TRAVEL": "on" if self._common.stage == "local" else "off"}

    def make_custom_resource(self, scope: Construct, id: str, kind: str, **properties: str) -> CustomResource:
        """Make a custom resource for which the deployment's function runs again whenever the configuration changes, or the
        format of the catalog: the function of older code then refuses a stage of newer code.
        """
        digest = sha256(msgspec.json.encode(self._common.config, enc_hook=str)).hexdigest()
        return CustomResource(
            scope,
            id,
            service_token=self._provider.service_token,
            resource_type=kind,
            properties={"configuration": digest, "catalog_format": str(CATALOG_FORMAT), **properties},
            service_timeout=Duration.seconds(SIZES["deployment"].seconds + 120),
        )
