"""The construct of the project's queues."""

from __future__ import annotations

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct


class Queue(sqs.Queue):
    """A queue with encryption, TLS only, SQS's largest messages, and its longest retention: 14 days.

    With ``keep`` the queue outlives the stack, because its messages are acknowledged events. CloudFormation generates
    the queue's name: so the queue that a destroyed stack left behind does not block a new queue.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        key: kms.IKey | None = None,
        keep: bool = False,
        visibility_timeout: Duration | None = None,
        dead_letter_queue: sqs.DeadLetterQueue | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            encryption=sqs.QueueEncryption.KMS if key is not None else sqs.QueueEncryption.SQS_MANAGED,
            encryption_master_key=key,
            enforce_ssl=True,
            retention_period=Duration.days(14),
            # AWS allows 1 MiB. Until August 2025 a queue was made with 256 KB by default, and such a queue keeps its
            # limit.
            max_message_size_bytes=1_048_576,
            visibility_timeout=visibility_timeout,
            dead_letter_queue=dead_letter_queue,
            removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if keep else RemovalPolicy.DESTROY,
        )
