"""The lifecycle: its schedule, the function that reconciles, the archiver, the custom resource of the deployment."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType

import msgspec
from aws_cdk import CustomResource, Duration, RemovalPolicy, Stack, custom_resources
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_logs as logs
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct

from tidetable.version import CATALOG_FORMAT

from .copies import allow_catalog_copies, allow_copies
from .feed import Feed
from .function import Common, Function, convert_retention, make_own_metric
from .objects import ARCHIVES, LARGE
from .queue import Queue
from .storage import Storage
from .tables import allow_scaling, allow_tables

EVERY_MINUTES = 5
# The time limit of the deployment's function, within the 15 minutes of the provider's own function.
_DEPLOYMENT_MINUTES = 14


class Lifecycle(Construct):
    """The functions that create, lower, archive and delete period tables."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        common: Common,
        *,
        slim: lambda_.Code,
        archive: lambda_.Code,
        storage: Storage,
        feed: Feed,
    ) -> None:
        super().__init__(scope, id)
        self._common = common
        self._slim = slim
        self._storage = storage
        self._feed = feed
        # Messages of failed runs. They contain no events, so the queue uses the service's own key.
        self.dead_letters = Queue(self, "DeadLetters")
        self.archiver = self._make_archiver(archive)
        self.restorer = self._make_restorer(archive)
        on_failure = destinations.SqsDestination(self.dead_letters)
        self.function = self._make_reconciler("Function", "lifecycle", minutes=5, dead_letters=on_failure)
        # CloudFormation waits for this function's answer and reports its failure, so it needs no dead-letter queue.
        self.deployment = self._make_reconciler("Deployment", "deployment", minutes=_DEPLOYMENT_MINUTES)
        # The deployment's function protects the catalog from deletion when the stage is complete.
        self.deployment.allow_actions(["dynamodb:DescribeTable", "dynamodb:UpdateTable"], storage.catalog.table_arn)
        allow_catalog_copies(self.function, common, storage.catalog.table_arn, deletes=False)
        # The deployment's function deletes the catalog's copies before CloudFormation deletes the catalog.
        allow_catalog_copies(self.deployment, common, storage.catalog.table_arn, deletes=True)
        self.sweeper = self._make_sweeper()
        self._provider = self._create_provider()
        self.tables = self._make_resource()
        # The schedule is created after the tables and deleted before them: a run during the stack's deletion would
        # create the tables again.
        self.schedule = self._make_schedule()
        self.schedule.node.add_dependency(self.tables)
        self._schedule_daily_runs()

    @property
    def health(self) -> cloudwatch.Metric:
        """1 for a run whose actions all succeeded, 0 for a run with failed actions.

        A failed action is not an error of the function.
        """
        return make_own_metric(self._common.stage, "lifecycle", "LifecycleHealthy", "Minimum")

    def _make_parquet_function(
        self, id: str, handler: str, code: lambda_.Code, environment: Mapping[str, str] = MappingProxyType({})
    ) -> Function:
        """Make a function that reads or writes Parquet: it has the memory and the time that an export needs."""
        return Function(
            self,
            id,
            self._common,
            handler=handler,
            code=code,
            timeout=Duration.minutes(15),
            memory=3008,
            environment={"TIDETABLE_ARCHIVE_BUCKET": self._storage.bucket.bucket_name, **environment},
        )

    def _make_archiver(self, code: lambda_.Code) -> Function:
        function = self._make_parquet_function("Archiver", "archiver", code, self._allow_time_travel())
        allow_tables(function, self._common, ["Scan", "Query", "DescribeTable", "BatchGetItem"])
        entries = ["dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"]
        function.allow_actions(entries, self._storage.catalog.table_arn)
        self._storage.allow_objects(function, ["GetObject", "PutObject", "DeleteObject"], ARCHIVES)
        self._storage.allow_objects(function, ["GetObject"], LARGE)
        self._storage.allow_listing(function, ARCHIVES, LARGE)
        return function

    def _make_restorer(self, code: lambda_.Code) -> Function:
        # If rollups find events by series, the restorer writes notes of the series before it writes the events.
        rollups = self._storage.rollups
        notes = {"TIDETABLE_ROLLUPS_TABLE": rollups.table_name}
        function = self._make_parquet_function("Restorer", "restorer", code, notes)
        function.allow_actions(["dynamodb:BatchWriteItem"], rollups.table_arn)
        tables = ["CreateTable", "DescribeTable", "TagResource", "ListTagsOfResource"]
        tables += ["BatchWriteItem", "BatchGetItem", "Scan", "Query", "UpdateContinuousBackups"]
        allow_tables(function, self._common, tables)
        entries = ["Query", "GetItem", "PutItem", "UpdateItem", "DeleteItem"]
        function.allow_actions([f"dynamodb:{action}" for action in entries], self._storage.catalog.table_arn)
        self._storage.allow_objects(function, ["GetObject"], ARCHIVES)
        self._storage.allow_objects(function, ["GetObject", "PutObject"], LARGE)
        self._storage.allow_listing(function, ARCHIVES, LARGE)
        return function

    def _make_sweeper(self) -> Function:
        bucket = self._storage.bucket
        function = Function(
            self,
            "Sweeper",
            self._common,
            handler="sweeper",
            code=self._slim,
            timeout=Duration.minutes(15),
            memory=512,
            environment={"TIDETABLE_ARCHIVE_BUCKET": bucket.bucket_name},
            dead_letters=destinations.SqsDestination(self.dead_letters),
        )
        allow_tables(function, self._common, ["BatchGetItem"])
        # The sweeper records expired archives in the catalog, and its own position in the bucket.
        function.allow_actions(["dynamodb:Query", "dynamodb:UpdateItem"], self._storage.catalog.table_arn)
        self._storage.allow_objects(function, ["GetObject", "DeleteObject"], LARGE)
        self._storage.allow_object(function, "PutObject", f"{LARGE}_sweep.json")
        # The listing shows if S3 has deleted an expired archive.
        self._storage.allow_listing(function, ARCHIVES, LARGE)
        return function

    def _make_reconciler(
        self, id: str, handler: str, *, minutes: int, dead_letters: lambda_.IDestination | None = None
    ) -> Function:
        function = Function(
            self,
            id,
            self._common,
            handler=handler,
            code=self._slim,
            timeout=Duration.minutes(minutes),
            memory=512,
            environment={
                "TIDETABLE_ARCHIVER_FUNCTION": self.archiver.function_name,
                "TIDETABLE_FEED_FUNCTION": self._feed.function.function_name,
                "TIDETABLE_ROLLUPS_TABLE": self._storage.rollups.table_name,
                **self._allow_time_travel(),
            },
            dead_letters=dead_letters,
        )
        manage = ["CreateTable", "DescribeTable", "UpdateTable", "DeleteTable", "TagResource", "ListTagsOfResource"]
        manage += ["UpdateContinuousBackups"]
        allow_tables(function, self._common, manage)
        allow_scaling(function, self._common)
        allow_copies(function, self._common)
        entries = ["Query", "GetItem", "PutItem", "UpdateItem", "DeleteItem"]
        function.allow_actions([f"dynamodb:{action}" for action in entries], self._storage.catalog.table_arn)
        # The lifecycle deletes the state of a rollup that has left the configuration.
        state = ["dynamodb:Query", "dynamodb:DeleteItem", "dynamodb:PutItem"]
        function.allow_actions(state, self._storage.rollups.table_arn)
        function.allow_actions(["lambda:InvokeFunction"], self.archiver.function_arn)
        self._feed.allow_mappings(function)
        bus = Stack.of(self).format_arn(service="events", resource="event-bus", resource_name="default")
        function.allow_actions(["events:PutEvents"], bus)
        return function

    def _allow_time_travel(self) -> dict[str, str]:
        """Make the variable that allows runs for another time than now, and archives of tables that such a run closed.

        Only the local stage allows them.
        """
        return {"TIDETABLE_ALLOW_TIME_TRAVEL": "on" if self._common.stage == "local" else "off"}

    def _make_schedule(self) -> scheduler.Schedule:
        return scheduler.Schedule(
            self,
            "Schedule",
            description="Reconciles the period tables",
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(EVERY_MINUTES)),
            target=targets.LambdaInvoke(
                self.function,
                dead_letter_queue=self.dead_letters,
                input=scheduler.ScheduleTargetInput.from_object({"source": "schedule"}),
                retry_attempts=2,
                max_event_age=Duration.minutes(EVERY_MINUTES),
            ),
        )

    def _schedule_daily_runs(self) -> None:
        scheduler.Schedule(
            self,
            "Sweeps",
            description="Removes large values that no event refers to",
            schedule=scheduler.ScheduleExpression.rate(Duration.days(1)),
            target=targets.LambdaInvoke(
                self.sweeper,
                dead_letter_queue=self.dead_letters,
                input=scheduler.ScheduleTargetInput.from_object({"source": "schedule"}),
                retry_attempts=2,
            ),
        )

    def _create_provider(self) -> custom_resources.Provider:
        """Create the provider that answers CloudFormation.

        Its logs are kept for the same time as the functions' logs.
        """
        days = self._common.config.observability.log_retention_days
        group = logs.LogGroup(
            self, "ProviderLogs", retention=convert_retention(days), removal_policy=RemovalPolicy.DESTROY
        )
        return custom_resources.Provider(self, "Provider", on_event_handler=self.deployment, log_group=group)

    def _make_resource(self) -> CustomResource:
        """Make a resource that reconciles before a deploy returns, if the stack is new or the configuration has
        changed.
        """
        resource = self.make_custom_resource(self, "Tables", "Custom::TidetableTables")
        # The resource also waits for the policies of its function's role and of the feed's role: without these rights a
        # deploy could not create tables or mappings.
        resource.node.add_dependency(self.deployment, self.archiver, self._storage, self._feed)
        return resource

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
            service_timeout=Duration.minutes(_DEPLOYMENT_MINUTES + 2),
        )
