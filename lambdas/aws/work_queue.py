"""The queue of messages to workers, on SQS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aws.errors import list_aws_errors
from tidetable.work.claim import ItemName
from tidetable.work.message import write_message

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

# AWS: a batch has at most ten messages.
_MAX_MESSAGES = 10


class SqsWorkQueue:
    """A standard queue through boto3. The client is made for the first message."""

    def __init__(self, client: Callable[[], SQSClient], queue_url: str) -> None:
        self._client = client
        self._url = queue_url

    def send(self, names: Sequence[ItemName]) -> Sequence[ItemName]:
        accepted: list[ItemName] = []
        for first in range(0, len(names), _MAX_MESSAGES):
            batch = names[first : first + _MAX_MESSAGES]
            entries: Any = [
                {"Id": str(number), "MessageBody": write_message(name)} for number, name in enumerate(batch)
            ]
            try:
                answer = self._client().send_message_batch(QueueUrl=self._url, Entries=entries)
            except list_aws_errors():
                break
            accepted += [batch[int(success["Id"])] for success in answer.get("Successful", [])]
        return accepted
