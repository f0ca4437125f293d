"""The queues of dead letters and of the overflow, for the tests of the operator's commands."""

from typing import Any

from tidetable.events import Event
from tidetable.ingest.overflow import encode_message
from tidetable.times import EPOCH


class Queues:
    """Two queues. The connection breaks after the operation whose name is ``fails``."""

    def __init__(self, *dead: tuple[str, str | None]) -> None:
        self.fails = ""
        self.hidden: set[str] = set()
        self.messages: dict[str, dict[str, Any]] = {"overflow": {}, "dead": {}}
        for index, (body, reason) in enumerate(dead):
            attributes = {} if reason is None else {"reason": {"StringValue": reason}}
            self.messages["dead"][str(index)] = {"MessageId": str(index), "Body": body, "MessageAttributes": attributes}

    def _did(self, operation: str) -> None:
        if operation == self.fails:
            raise ConnectionError

    def receive_message(self, QueueUrl: str, **_: Any) -> Any:  # noqa: N803 - boto3's names
        visible = [id for id in self.messages[QueueUrl] if id not in self.hidden][:2]
        self.hidden |= set(visible)
        messages = [{**self.messages[QueueUrl][id], "ReceiptHandle": id} for id in visible]
        return {"Messages": messages} if messages else {}

    def change_message_visibility(self, ReceiptHandle: str, **_: Any) -> None:  # noqa: N803
        self.hidden.discard(ReceiptHandle)

    def send_message(self, QueueUrl: str, MessageBody: str) -> None:  # noqa: N803
        self.messages[QueueUrl][f"new {len(self.messages[QueueUrl])}"] = {"Body": MessageBody}
        self._did("send")

    def delete_message(self, QueueUrl: str, ReceiptHandle: str) -> None:  # noqa: N803
        del self.messages[QueueUrl][ReceiptHandle]
        self._did("delete")


def message(count: int) -> str:
    return encode_message("s", [Event("a", EPOCH, str(number), {}) for number in range(count)])
