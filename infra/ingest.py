"""The write path: the ingest function, the overflow queue, and the drain that empties it."""

from __future__ import annotations

from aws_cdk import Duration, Names
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tidetable.ingest.drain import TRIES

from .function import SIZES, Common, Function
from .objects import LARGE, OVERFLOW, SAVED
from .queue import Queue
from .storage import Storage
from .tables import allow_tables

_EVERY = Duration.minutes(1)
# Marks of rollups, also in transactions with new late events, and notes of series.
_STATE = "Query", "PutItem", "UpdateItem"


class Ingest(Construct):
    """The functions and queues that accept events and store them durably."""

    def __init__(self, scope: Construct, id: str, common: Common, storage: Storage) -> None:
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
            visibility_timeout=Duration.seconds(6 * SIZES["drain"].seconds),
            # Many tries, six minutes apart: an event becomes a dead letter after half a day without its table.
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=TRIES),
        )
        self.environment = storage.variables | {"TIDETABLE_OVERFLOW_QUEUE_URL": self.overflow.queue_url}
        self.function = Function(self, "Function", common, "ingest", self.environment)
        self.allow_writing(self.function)
        letters = {"TIDETABLE_DEAD_LETTER_QUEUE_URL": self.dead_letters.queue_url}
        self.drain = Function(self, "Drain", common, "drain", self.environment | letters)
        # Messages to the overflow wake further workers for saved messages.
        self.drain.allow_actions("sqs", ["SendMessage"], self.dead_letters.queue_arn, self.overflow.queue_arn)
        storage.allow_messages(self.drain)
        allow_tables(self.drain, common, ["BatchWriteItem", "PutItem", "GetItem", "BatchGetItem"])
        storage.allow_objects(self.drain, ["PutObject"], LARGE, OVERFLOW, SAVED)
        storage.allow_objects(self.drain, ["GetObject"], OVERFLOW, SAVED)
        storage.allow_objects(self.drain, ["DeleteObject"], SAVED)
        storage.allow_listing(self.drain, OVERFLOW, SAVED)
        storage.allow_catalog(self.drain, "Query", "ConditionCheckItem")
        # A write into a retained table marks its segment in the period's entry.
        entries = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["stream#*"]}}
        self.drain.allow_actions("dynamodb", ["UpdateItem"], storage.catalog.table_arn, conditions=entries)
        storage.allow_rollups(self.drain, *_STATE)
        # The mapping has the id that the CDK's ``SqsEventSource`` once gave it: under another id a deploy would make a
        # second mapping beside the first, which Lambda refuses.
        mapping = f"SqsEventSource:{Names.node_unique_id(self.overflow.node)}"
        self.drain.receive_messages(mapping, self.overflow, batch_size=100, most=common.config.work.consumers)
        remark = "Writes the events of messages that were too old for the overflow queue"
        self.drain.schedule_runs(self, "SavedMessages", _EVERY, remark)

    def allow_writing(self, function: Function) -> None:
        """Let a function write events, or send them to the overflow queue."""
        storage = self._storage
        # In a stream that keeps versions, each event is written by a conditional put, and the stored version is read.
        # The stream's tables keep versions until they are deleted, even after the configuration changed.
        allow_tables(function, self._common, ["BatchWriteItem", "PutItem", "BatchGetItem"])
        storage.allow_objects(function, ["PutObject"], LARGE, OVERFLOW, SAVED)
        storage.allow_catalog(function, "Query")
        # The function has these rights also in a stage without rollups, so a new rollup changes no role.
        storage.allow_rollups(function, *_STATE)
        function.allow_actions("sqs", ["SendMessage"], self.overflow.queue_arn)
        storage.allow_messages(function)

    def allow_watching(self, function: Function) -> None:
        """Let a function send beats to the drain, and save the messages of both queues while the drain stands still."""
        storage = self._storage
        function.add_environment("TIDETABLE_OVERFLOW_QUEUE_URL", self.overflow.queue_url)
        function.add_environment("TIDETABLE_DEAD_LETTER_QUEUE_URL", self.dead_letters.queue_url)
        function.allow_actions("sqs", ["SendMessage"], self.overflow.queue_arn)
        takes = ["ReceiveMessage", "DeleteMessage"]
        function.allow_actions("sqs", takes, self.overflow.queue_arn, self.dead_letters.queue_arn)
        storage.allow_messages(function)
        storage.allow_objects(function, ["PutObject"], SAVED)
        storage.allow_objects(function, ["GetObject"], OVERFLOW)
        storage.allow_listing(function, OVERFLOW)
