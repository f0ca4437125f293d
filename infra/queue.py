"""A queue as every one of this project is made."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_sqs as sqs
from constructs import Construct


class Queue(sqs.Queue):
    """Encrypted, over TLS only, and kept as long as SQS keeps: 14 days."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        visibility_timeout: Duration | None = None,
        dead_letter_queue: sqs.DeadLetterQueue | None = None,
    ) -> None:
        super().__init__(
            scope,
            id,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=Duration.days(14),
            visibility_timeout=visibility_timeout,
            dead_letter_queue=dead_letter_queue,
        )
