"""A stand-in for the lean client, with scripted replies."""

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from aws.dynamodb.store import LeanStore
from aws.http.client import LeanClient, NoAnswer, Reply, RequestRefused, ServiceRequest

# The longest allowed duration of each pause that the code under test made.
PAUSES: list[float] = []


def answer_in_turn(
    requests: Sequence[ServiceRequest], answer: Callable[[ServiceRequest], Reply], *, insist: bool
) -> list[Reply]:
    """The replies to requests that are sent one after another.

    Eight requests are under way, so without ``insist`` seven more are sent after a request without an answer.
    """
    replies: list[Reply] = []
    for request in requests:
        unsent = not insist and any(isinstance(reply, NoAnswer) for reply in replies[: max(0, len(replies) - 7)])
        replies.append(NoAnswer("not sent") if unsent else answer(request))
    return replies


class Script:
    """A client whose replies come from a function of the request's number and body."""

    def __init__(self, reply: Callable[[int, dict[str, Any]], Any]) -> None:
        self._reply = reply
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def pause(self, most: float) -> None:
        PAUSES.append(most)

    def call_all(self, requests: Sequence[ServiceRequest], *, insist: bool = True) -> list[Reply]:
        return answer_in_turn(requests, self._one, insist=insist)

    def call(self, operation: str, body: bytes) -> Reply:
        return self.call_all([ServiceRequest(operation, body)])[0]

    def _one(self, request: ServiceRequest) -> Reply:
        body = json.loads(request.body)
        self.sent.append((request.operation, body))
        reply = self._reply(len(self.sent), body)
        if isinstance(reply, NoAnswer | RequestRefused):
            return reply
        text = json.dumps(reply).encode()
        return text if request.decode is None else request.decode(text)

    @property
    def client(self) -> LeanClient:
        return cast("LeanClient", self)

    @property
    def store(self) -> LeanStore:
        return LeanStore(self.client, "catalog")
