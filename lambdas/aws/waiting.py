"""The messages of a queue that wait, on SQS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from aws.errors import require_answer
from aws.messages import REASON
from tidetable.ingest.saving import Received
from tidetable.ingest.standstill import BATCH, Taken
from tidetable.times import EPOCH

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_HIDDEN_SECONDS = 120


class SqsMessages:
    """A standard queue through boto3."""

    def __init__(self, client: Callable[[], SQSClient], queue_url: str) -> None:
        self._client = client
        self._url = queue_url

    def receive(self) -> Sequence[Taken]:
        """Wait a second for messages: AWS then asks all of its servers, and an empty answer means an empty queue."""
        with require_answer("sqs", "SQS"):
            answer = self._client().receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=BATCH,
                VisibilityTimeout=_HIDDEN_SECONDS,
                WaitTimeSeconds=1,
                MessageSystemAttributeNames=["SentTimestamp"],
                MessageAttributeNames=[REASON],
            )
        found = []
        for message in answer.get("Messages", []):
            sent = EPOCH + timedelta(milliseconds=int(message["Attributes"]["SentTimestamp"]))
            reason = message.get("MessageAttributes", {}).get(REASON)
            received = Received(message["Body"], sent, message["MessageId"])
            found.append(Taken(received, message["ReceiptHandle"], reason and reason.get("StringValue")))
        return found

    def delete(self, taken: Taken) -> None:
        with require_answer("sqs", "SQS"):
            self._client().delete_message(QueueUrl=self._url, ReceiptHandle=taken.receipt)
