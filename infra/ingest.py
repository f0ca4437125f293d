"""The write path: the ingest function, the overflow queue, and the drain that empties it."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra import allocator
from infra.function import Common, Function
from infra.queue import Queue
from infra.storage import LARGE, OVERFLOW, Storage, objects
from infra.tables import reach
from tidetable.ingest.drain import CONSUMERS

_DRAIN_SECONDS = 60


class Ingest(Construct):
    """What takes events and makes them durable."""

    def __init__(self, scope: Construct, id: str, common: Common, *, code: lambda_.Code, storage: Storage) -> None:
        super().__init__(scope, id)
        self.dead_letters = Queue(self, "DeadLetters")
        self.overflow = Queue(
            self,
            "Overflow",
            # Six times the consumer's time-out, as AWS advises for Lambda sources.
            visibility_timeout=Duration.seconds(6 * _DRAIN_SECONDS),
            # Many tries, six minutes apart: an event waits out half a day without its table before it counts as dead.
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=120),
        )
        self.function = Function(
            self,
            "Function",
            common,
            handler="ingest",
            code=code,
            timeout=Duration.seconds(28),
            memory=512,
            environment={
                **allocator.ENVIRONMENT,
                "TIDETABLE_OVERFLOW_QUEUE_URL": self.overflow.queue_url,
                "TIDETABLE_ARCHIVE_BUCKET": storage.bucket.bucket_name,
            },
            snap_start=common.config.api.snap_start,
        )
        # What keeps versions puts on condition, one by one, and looks at what is there.
        streams = common.config.streams.values()
        versions = ["PutItem", "BatchGetItem"] if any(one.versions == "keep" for one in streams) else []
        reach(self.function, common, ["BatchWriteItem", *versions])
        self.function.allow(["s3:PutObject"], objects(storage, LARGE), objects(storage, OVERFLOW))
        self.function.allow(["dynamodb:Query"], storage.catalog.table_arn)
        self.function.allow(["sqs:SendMessage"], self.overflow.queue_arn)
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
            },
        )
        self.drain.allow(["sqs:SendMessage"], self.dead_letters.queue_arn)
        reach(self.drain, common, ["BatchWriteItem", "PutItem", *(["GetItem", "BatchGetItem"] if versions else [])])
        self.drain.allow(["s3:PutObject"], objects(storage, LARGE))
        self.drain.allow(["s3:GetObject"], objects(storage, OVERFLOW))
        # Without it S3 says "denied" of an object that is not there.
        self.drain.allow(["s3:ListBucket"], storage.bucket.bucket_arn)
        self.drain.allow(["dynamodb:Query", "dynamodb:ConditionCheckItem"], storage.catalog.table_arn)
        self.drain.add_event_source(
            sources.SqsEventSource(
                self.overflow,
                batch_size=5,
                max_concurrency=CONSUMERS,  # the least there is: live traffic has the tables' capacity first
                report_batch_item_failures=True,
            )
        )
