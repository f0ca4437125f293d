"""The refresher of rollups: its function and its schedule, in a stage whose streams have rollups."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from constructs import Construct, IConstruct

from .function import Common, Function
from .objects import LARGE
from .query import Query
from .storage import Storage
from .tables import allow_tables

EVERY_MINUTES = 1
# The time limit of a run in minutes. The lease of a run that died ends soon after this limit.
_MINUTES = 5


class Rollups(Construct):
    """The function that seals and reseals the buckets of rollups, every minute, one run at a time."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        common: Common,
        *,
        slim: lambda_.Code,
        storage: Storage,
        query: Query,
        after: IConstruct,
    ) -> None:
        super().__init__(scope, id)
        self.function = Function(
            self,
            "Function",
            common,
            handler="refresher",
            code=slim,
            timeout=Duration.minutes(_MINUTES),
            memory=1769,  # a whole processor, and memory for the sketches of a bucket's groups
            environment={
                "TIDETABLE_ARCHIVE_READER_FUNCTION": query.reader.function_name,
                "TIDETABLE_ARCHIVE_BUCKET": storage.bucket.bucket_name,
                "TIDETABLE_ROLLUPS_TABLE": storage.rollups.table_name,
            },
        )
        # The next run does the work that a failed run did not do. So Lambda must not repeat the failed run beside the
        # next one.
        self.function.configure_async_invoke(retry_attempts=0)
        allow_tables(self.function, common, ["Query", "GetItem", "BatchGetItem", "BatchWriteItem", "PutItem"])
        storage.allow_objects(self.function, ["GetObject"], LARGE)
        storage.allow_listing(self.function, LARGE)
        # The refresher puts and deletes its lease. A table may be archived at any moment, so each write to such a table
        # checks the table's entry in the catalog, as a condition.
        entries = ["Query", "PutItem", "DeleteItem", "ConditionCheckItem"]
        self.function.allow_actions([f"dynamodb:{action}" for action in entries], storage.catalog.table_arn)
        state = ["Query", "PutItem", "UpdateItem", "DeleteItem"]
        self.function.allow_actions([f"dynamodb:{action}" for action in state], storage.rollups.table_arn)
        self.function.allow_actions(["lambda:InvokeFunction"], query.reader.function_arn)
        self.schedule = scheduler.Schedule(
            self,
            "Schedule",
            description="Refreshes the rollups",
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(EVERY_MINUTES)),
            target=targets.LambdaInvoke(
                self.function,
                input=scheduler.ScheduleTargetInput.from_object({"source": "schedule"}),
                retry_attempts=0,
                max_event_age=Duration.minutes(EVERY_MINUTES),
            ),
        )
        # The schedule starts after the rollups' tables are made.
        self.schedule.node.add_dependency(after)
