"""The client of SQS in memory, and the overflow's adapter on this client."""

from typing import Any

from aws.overflow import SqsOverflow
from aws.zstd import Zstd
from tests.fakes import FakeValues

# AWS: a message has 1 MiB at most.
MOST = 1024 * 1024


class Sqs:
    """The operations of SQS that the adapter calls. A request that AWS would refuse fails."""

    def __init__(self) -> None:
        self.bodies: list[str] = []

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, str]]) -> dict[str, Any]:  # noqa: N803
        assert QueueUrl == "queue"
        bodies = [entry["MessageBody"] for entry in Entries]
        assert sum(len(body.encode()) for body in bodies) <= MOST
        assert not any(character in body for body in bodies for character in "\ufffe\uffff")
        self.bodies += bodies
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}


def overflow(sqs: Sqs, values: FakeValues) -> SqsOverflow:
    client: Any = sqs
    return SqsOverflow(lambda: client, "queue", values, Zstd())
