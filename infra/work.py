"""Work in the background: for each kind of function a queue of messages, which wake its workers.

The queues are in order of nothing, and may deliver a message twice: the records of the work say what is to be done
(docs/inside/work.md). Their messages are names of streams, so they use the service's own key.
"""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct, IConstruct

from .function import SIZES, Common, Function
from .queue import Queue

# AWS, "Creating and configuring an Amazon SQS event source mapping": at least five, so that no message becomes a dead letter
# because the function was throttled.
_TRIES = 5
# The same page: six times the function's time-out; Lambda refuses a mapping whose queue hides messages for less than once.
_HIDDEN = 6


class Work(Construct):
    """The dead letters of all work: messages whose workers died again and again."""

    def __init__(self, scope: Construct, id: str, common: Common) -> None:
        super().__init__(scope, id)
        self._workers = common.config.work.workers
        self.dead_letters = Queue(self, "DeadLetters")
        self.queues: dict[str, Queue] = {}

    def add_queue(self, id: str, function: Function, after: IConstruct | None = None) -> None:
        """Make a queue, and let Lambda call the function with its messages. The function may send messages, too.

        Lambda does so ``after`` something is made, and until it is deleted.
        """
        hidden = Duration.seconds(_HIDDEN * SIZES[function.handler_name].seconds)
        letters = sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=_TRIES)
        queue = Queue(self, id, visibility_timeout=hidden, dead_letter_queue=letters)
        function.allow_actions("sqs", ["SendMessage"], queue.queue_arn)
        function.add_environment("TIDETABLE_WORK_QUEUE_URL", queue.queue_url)
        # An item may take five minutes, so each message has an execution of its own.
        mapping = function.receive_messages(f"{id}Messages", queue, batch_size=1, most=self._workers)
        if after is not None:
            mapping.node.add_dependency(after)
        self.queues[id] = queue

    def allow_sends(self, id: str, function: Function) -> None:
        """Let another function send messages to a queue, which wake the workers there."""
        function.allow_actions("sqs", ["SendMessage"], self.queues[id].queue_arn)
        function.add_environment(f"TIDETABLE_{id.upper()}_QUEUE_URL", self.queues[id].queue_url)
