"""The write path: the ingest function, the overflow queue, and the drain that empties it."""

from __future__ import annotations

from aws_cdk import Duration, Names
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tidetable.ingest.drain import TRIES
from tidetable.ingest.pace import CONSUMERS

from . import allocator
from .function import Common, Function
from .objects import LARGE, OVERFLOW, SAVED
from .queue import Queue
from .storage import Storage
from .tables import allow_tables

_DRAIN_SECONDS = 60
_EVERY_MINUTES = 1
# Marks of rollups, and notes of series.
_STATE = ["dynamodb:UpdateItem", "dynamodb:BatchWriteItem"]


class Ingest(Construct):
    """The functions and queues that accept events and store them durably."""

    def __init__(self, scope: Construct, id: str, common: Common, *, code: lambda_.Code, storage: Storage) -> None:
        super().__init__(scope, id)
        self._common, self._storage = common, storage
        # The messages of these queues are acknowledged events. So the queues are deleted with the stack only if the
        # stack's data is deleted, too.
        keep = common.config.keeps_catalog
        self.dead_letters = Queue(self, "DeadLetters", key=storage.key, keep=keep)
        self.overflow = Queue(
            self,
            "Overflow",
            key=storage.key,
            keep=keep,
            # Six times the consumer's time-out, as AWS advises for queues that call a Lambda function.
            visibility_timeout=Duration.seconds(6 * _DRAIN_SECONDS),
            # Many tries, six minutes apart: an event becomes a dead letter after half a day without its table.
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=TRIES),
        )
        self.environment = {
            "TIDETABLE_OVERFLOW_QUEUE_URL": self.overflow.queue_url,
            "TIDETABLE_ARCHIVE_BUCKET": storage.bucket.bucket_name,
            "TIDETABLE_ROLLUPS_TABLE": storage.rollups.table_name,
        }
        self.function = Function(
            self,
            "Function",
            common,
            handler="ingest",
            code=code,
            timeout=Duration.seconds(28),
            memory=512,
            environment={**allocator.ENVIRONMENT, **self.environment},
            snap_start=common.config.api.snap_start,
            answers=True,
        )
        self.allow_writing(self.function)
        self.drain = Function(
            self,
            "Drain",
            common,
            handler="drain",
            code=code,
            timeout=Duration.seconds(_DRAIN_SECONDS),
            memory=256,
            environment={
                "TIDETABLE_DEAD_LETTER_QUEUE_URL": self.dead_letters.queue_url,
                "TIDETABLE_ARCHIVE_BUCKET": storage.bucket.bucket_name,
                "TIDETABLE_ROLLUPS_TABLE": storage.rollups.table_name,
            },
        )
        self.drain.allow_actions(["sqs:SendMessage"], self.dead_letters.queue_arn)
        storage.allow_messages(self.drain)
        allow_tables(self.drain, common, ["BatchWriteItem", "PutItem", "GetItem", "BatchGetItem"])
        storage.allow_objects(self.drain, ["PutObject"], LARGE, OVERFLOW, SAVED)
        storage.allow_objects(self.drain, ["GetObject"], OVERFLOW, SAVED)
        storage.allow_objects(self.drain, ["DeleteObject"], SAVED)
        storage.allow_listing(self.drain, OVERFLOW, SAVED)
        self.drain.allow_actions(["dynamodb:Query", "dynamodb:ConditionCheckItem"], storage.catalog.table_arn)
        self.drain.allow_actions(_STATE, storage.rollups.table_arn)
        self._call_drain()
        self._schedule_drain()

    def _call_drain(self) -> None:
        """Let Lambda call the drain with the messages of the overflow queue.

        The CDK's ``SqsEventSource`` would also allow the drain to decrypt with the queue's key without SQS. The mapping has
        the id that ``SqsEventSource`` gave it: under another id a deploy would make a second mapping beside the first, which
        Lambda refuses.
        """
        takes = ["ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes", "GetQueueUrl"]
        self.drain.allow_actions([f"sqs:{action}" for action in takes], self.overflow.queue_arn)
        self.drain.add_event_source_mapping(
            f"SqsEventSource:{Names.node_unique_id(self.overflow.node)}",
            event_source_arn=self.overflow.queue_arn,
            batch_size=5,
            max_concurrency=CONSUMERS,
            report_batch_item_failures=True,
        )

    def _schedule_drain(self) -> None:
        """Let a schedule call the drain for saved messages. If a call is lost, the next one does its work."""
        scheduler.Schedule(
            self,
            "SavedMessages",
            description="Writes the events of messages that were too old for the overflow queue",
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(_EVERY_MINUTES)),
            target=targets.LambdaInvoke(
                self.drain,
                input=scheduler.ScheduleTargetInput.from_object({"source": "schedule"}),
                retry_attempts=0,
                max_event_age=Duration.minutes(_EVERY_MINUTES),
            ),
        )

    def allow_writing(self, function: Function) -> None:
        """Let a function write events, or send them to the overflow queue."""
        storage = self._storage
        # In a stream that keeps versions, each event is written by a conditional put, and the stored version is read.
        # The stream's tables keep versions until they are deleted, even after the configuration changed.
        allow_tables(function, self._common, ["BatchWriteItem", "PutItem", "BatchGetItem"])
        storage.allow_objects(function, ["PutObject"], LARGE, OVERFLOW)
        function.allow_actions(["dynamodb:Query"], storage.catalog.table_arn)
        # The function has these rights also in a stage without rollups, so a new rollup changes no role.
        function.allow_actions(_STATE, storage.rollups.table_arn)
        function.allow_actions(["sqs:SendMessage"], self.overflow.queue_arn)
        storage.allow_messages(function)
