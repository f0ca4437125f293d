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
from .tables import reach

EVERY_MINUTES = 1
# A run ends before it, and the lease of a run that died soon after it.
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
            memory=1769,  # a whole processor, and room for the sketches of a bucket's groups
            environment={
                "TIDETABLE_ARCHIVE_READER_FUNCTION": query.reader.function_name,
                "TIDETABLE_ARCHIVE_BUCKET": storage.bucket.bucket_name,
                "TIDETABLE_ROLLUPS_TABLE": storage.rollups.table_name,
            },
        )
        # The next run does what this run did not: Lambda must not repeat it beside that one.
        self.function.configure_async_invoke(retry_attempts=0)
        reach(self.function, common, ["Query", "GetItem", "BatchGetItem", "BatchWriteItem", "PutItem"])
        storage.allow_objects(self.function, ["GetObject"], LARGE)
        storage.allow_listing(self.function, LARGE)
        # The lease is put and deleted. A table that may be archived at any moment is written on condition of its entry.
        entries = ["Query", "PutItem", "DeleteItem", "ConditionCheckItem"]
        self.function.allow([f"dynamodb:{action}" for action in entries], storage.catalog.table_arn)
        state = ["Query", "PutItem", "DeleteItem"]
        self.function.allow([f"dynamodb:{action}" for action in state], storage.rollups.table_arn)
        self.function.allow(["lambda:InvokeFunction"], query.reader.function_arn)
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
        # The rollups' tables are made first.
        self.schedule.node.add_dependency(after)
