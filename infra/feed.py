"""The feed: the function that delivers changes of period tables, and the queue of changes that a target did not accept.

Both exist in every stage, also in a stage without a feed: the lifecycle lists the function's event source mappings, and
removes the mappings whose feed has left the configuration.
"""

from __future__ import annotations

from constructs import Construct

from .function import Common, Function
from .objects import LARGE
from .queue import Queue
from .storage import Storage
from .tables import allow_tables

# The actions with which the feed sends to a target, by the service in the target's ARN.
_ACTIONS = {
    "lambda": ["InvokeFunction"],
    "sqs": ["SendMessage", "GetQueueUrl"],
    "events": ["PutEvents"],
    "kinesis": ["PutRecords"],
    "firehose": ["PutRecordBatch"],
}


class Feed(Construct):
    """The function of all feeds. The lifecycle makes its event source mappings, as tables come and go."""

    def __init__(self, scope: Construct, id: str, common: Common, storage: Storage) -> None:
        super().__init__(scope, id)
        self.dead_letters = Queue(self, "DeadLetters", key=storage.key, keep=common.config.keeps_catalog)
        letters = {"TIDETABLE_FEED_DEAD_LETTER_QUEUE_URL": self.dead_letters.queue_url}
        self.function = Function(self, "Function", common, "feed", storage.bucket_variable | letters)
        allow_tables(self.function, common, ["DescribeStream", "GetRecords", "GetShardIterator", "BatchGetItem"])
        # IAM cannot limit this action to resources, and Lambda requires it before it makes a mapping.
        self.function.allow_actions("dynamodb", ["ListStreams"], "*")
        storage.allow_catalog(self.function, "Query")
        self.function.allow_actions("sqs", ["SendMessage"], self.dead_letters.queue_arn)
        storage.allow_objects(self.function, ["GetObject"], LARGE)
        storage.allow_listing(self.function, LARGE)
        storage.allow_messages(self.function)
        feeds = [stream.feed for stream in common.config.streams.values() if stream.feed is not None]
        for target in sorted({target for feed in feeds for target in feed.targets}):
            service = target.split(":")[2]
            self.function.allow_actions(service, _ACTIONS[service], target)

    def allow_mappings(self, function: Function) -> None:
        """Let ``function`` make and remove event source mappings of the feed's function, and of no other function."""
        changes = ["CreateEventSourceMapping", "UpdateEventSourceMapping", "DeleteEventSourceMapping"]
        conditions = {"ArnEquals": {"lambda:FunctionArn": self.function.function_arn}}
        function.allow_actions("lambda", changes, "*", conditions=conditions)
        # IAM cannot limit this action to resources, and it has no condition on the function.
        function.allow_actions("lambda", ["ListEventSourceMappings"], "*")
