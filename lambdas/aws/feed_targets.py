"""The targets of a feed, through boto3. A target states the limits of one request. ``send`` says of messages that were
not accepted if they were refused for themselves (ChangesRefused), or may pass later (TargetBusy).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

from aws.errors import list_aws_errors, read_error_code, read_error_message
from aws.messages import REASON, make_reason
from tidetable.errors import ChangesRefused, TargetBusy
from tidetable.feed.targets import FeedMessage, Target
from tidetable.groups import group_by_size

# A client of a service in a Region.
Clients = Callable[[str, str], Any]

_KB, _MB = 1_000, 1_000_000
_DETAIL_TYPE = "Event changed"
_SOURCE = "tidetable"
# The codes with which the services refuse a request, or one of its entries, for its content. Every other code may pass
# with time: throttling, an error of the service, a missing right or target.
_CONTENT = frozenset(
    {
        "AWS.SimpleQueueService.BatchRequestTooLong",
        "AWS.SimpleQueueService.InvalidMessageContents",
        "BatchRequestTooLong",
        "InvalidArgument",
        "InvalidArgumentException",
        "InvalidMessageContents",
        "InvalidParameterValue",
        "InvalidParameterValueException",
        "InvalidRequestContentException",
        "MalformedDetail",
        "RequestEntityTooLargeException",
        "RequestTooLargeException",
        "ValidationException",
    }
)
# The attributes of a dead letter.
FEED, TARGET = "feed", "target"


def make_target(arn: str, stream: str, clients: Clients) -> Target:
    """Make the target of an ARN. The configuration's check has made sure that ``_TARGETS`` has its service."""
    service = arn.split(":")[2]
    return _TARGETS[service](arn, stream, clients)


class _Target:
    """A target by its ARN; the client is created for the first change."""

    most_bytes: int
    most_messages: int
    most_together: int

    def __init__(self, arn: str, stream: str, clients: Clients) -> None:
        self.arn = arn
        self._stream = stream
        _, _, self._service, self._region, self._account, self._name = arn.split(":", 5)
        self._clients = clients

    @property
    def _client(self) -> Any:
        return self._clients(self._service, self._region)

    def send(self, messages: Sequence[FeedMessage]) -> None:
        """Send messages in one request. Errors but the refusal of a request for its content rise unchanged."""
        try:
            results = self._put(messages)
        except list_aws_errors() as error:
            code = read_error_code(error)
            if code not in _CONTENT:
                raise
            raise ChangesRefused(f"{code}: {read_error_message(error)}", range(len(messages))) from error
        left = {number: result for number, result in enumerate(results) if "ErrorCode" in result}
        if left:
            first = next(iter(left.values()))
            reason = f"the target did not take {len(left)} of its messages: {first['ErrorCode']}"
            reason += f": {first['ErrorMessage']}" if first.get("ErrorMessage") else ""
            refused = all(result.get("SenderFault", result["ErrorCode"] in _CONTENT) for result in left.values())
            raise (ChangesRefused if refused else TargetBusy)(reason, list(left))

    def _put(self, messages: Sequence[FeedMessage]) -> Any:
        """Make the request. Return a sequence of results, each with an ``ErrorCode`` if its message was not taken."""
        raise NotImplementedError


class _LambdaTarget(_Target):
    """A function that is called with a list of changes. The call waits for an answer, to see failures and keep order.

    AWS: 6 MB for a call that waits for the answer. One change is at most as large as a dead letter may be.
    """

    most_bytes, most_messages, most_together = 900 * _KB, 1_000, 5 * _MB

    def _put(self, messages: Sequence[FeedMessage]) -> Any:
        changes = b",".join(message.body for message in messages)
        payload = (
            b'{"source":"tidetable","stream":' + json.dumps(self._stream).encode() + b',"changes":[' + changes + b"]}"
        )
        answer = self._client.invoke(FunctionName=self.arn, Payload=payload)
        if "FunctionError" in answer:
            reason = answer["Payload"].read()[:300].decode(errors="replace")
            raise ChangesRefused(reason, range(len(messages)))
        return ()


class _QueueTarget(_Target):
    """A queue. In a FIFO queue, the changes of an event are a message group; SQS drops a change that repeats one of the
    last 5 minutes.

    AWS: at most 1 MiB per message and per batch, and at most ten messages per batch.
    """

    most_bytes, most_messages, most_together = 900 * _KB, 10, 900 * _KB

    @cached_property
    def _url(self) -> Any:
        return self._client.get_queue_url(QueueName=self._name, QueueOwnerAWSAccountId=self._account)["QueueUrl"]

    def _put(self, messages: Sequence[FeedMessage]) -> Any:
        entries = [
            {"Id": str(number), "MessageBody": message.body.decode(), **self._order(message)}
            for number, message in enumerate(messages)
        ]
        answer = self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
        found: dict[str, Any] = {success["Id"]: {} for success in answer.get("Successful", ())}
        # AWS: SenderFault says if the sender is at fault, that is, if the same message fails again.
        for failure in answer.get("Failed", ()):
            known = {"ErrorMessage": failure.get("Message"), "SenderFault": failure.get("SenderFault", False)}
            found[failure["Id"]] = {"ErrorCode": failure.get("Code", "no answer"), **known}
        return [found.get(entry["Id"], {"ErrorCode": "no answer"}) for entry in entries]

    def _order(self, message: FeedMessage) -> dict[str, str]:
        if not self._name.endswith(".fifo"):
            return {}
        return {"MessageGroupId": _hash_identity(message), "MessageDeduplicationId": sha256(message.body).hexdigest()}


class _BusTarget(_Target):
    """An event bus. AWS: a request has at most ten entries, and these have 1 MB together; it was 256 KB until 2026.

    Source: AWS Compute Blog, *More room to build: serverless services now support payloads up to 1 MB*. The
    documentation of the Regions in China still has 256 KB.
    """

    most_messages = 10

    def __init__(self, arn: str, stream: str, clients: Clients) -> None:
        super().__init__(arn, stream, clients)
        self.most_bytes = self.most_together = (900 if arn.startswith("arn:aws:") else 200) * _KB

    def _put(self, messages: Sequence[FeedMessage]) -> Any:
        common = {"Source": _SOURCE, "DetailType": _DETAIL_TYPE, "EventBusName": self.arn, "Resources": [self._stream]}
        entries = [{**common, "Detail": message.body.decode()} for message in messages]
        return self._client.put_events(Entries=entries)["Entries"]


class _KinesisTarget(_Target):
    """A Kinesis stream. AWS: a request has at most 500 records, 1 MiB per record, 5 MiB together."""

    most_bytes, most_messages, most_together = 900 * _KB, 500, 4 * _MB

    def _put(self, messages: Sequence[FeedMessage]) -> Any:
        records = [{"Data": message.body, "PartitionKey": _hash_identity(message)} for message in messages]
        return self._client.put_records(StreamARN=self.arn, Records=records)["Records"]


class _FirehoseTarget(_Target):
    """A Firehose stream, whose records are lines. AWS: at most 500 records, 1,000 KiB per record, 4 MiB together."""

    most_bytes, most_messages, most_together = 900 * _KB, 500, 3 * _MB

    def _put(self, messages: Sequence[FeedMessage]) -> Any:
        name = self._name.removeprefix("deliverystream/")
        records = [{"Data": message.body + b"\n"} for message in messages]
        return self._client.put_record_batch(DeliveryStreamName=name, Records=records)["RequestResponses"]


def _hash_identity(message: FeedMessage) -> str:
    """Compute a hash that identifies a message's event: the event's own identity may be longer than AWS accepts."""
    return sha256("\0".join(message.identity).encode()).hexdigest()[:32]


_TARGETS: dict[str, Callable[[str, str, Clients], Target]] = {
    "lambda": _LambdaTarget,
    "sqs": _QueueTarget,
    "events": _BusTarget,
    "kinesis": _KinesisTarget,
    "firehose": _FirehoseTarget,
}


class FeedDeadLetters:
    """The queue of changes that a target did not accept: lines of JSON, with stream, target and reason as attributes."""

    def __init__(self, client: Callable[[], Any], queue_url: str) -> None:
        self._client = client
        self._url = queue_url

    def bury(self, stream: str, target: str, reason: str, bodies: Sequence[bytes]) -> None:
        """Send the changes, as many per message as fit into it (SendMessage); errors of AWS are raised."""
        texts = {FEED: stream, TARGET: target, REASON: make_reason(reason)}
        attributes = {name: {"DataType": "String", "StringValue": text} for name, text in texts.items() if text}
        # Even the largest body fits into one message: no target accepts more than 900 KB.
        for lines in group_by_size(bodies, lambda body: len(body) + 1, 900 * _KB):
            body = b"\n".join(lines).decode()
            self._client().send_message(QueueUrl=self._url, MessageBody=body, MessageAttributes=attributes)
