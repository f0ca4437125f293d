"""A stand-in for the lean client, with scripted replies."""

import json
from collections.abc import Callable, Sequence
from typing import Any, cast

from aws.lean.client import LeanClient, NoAnswer, Refused, Reply, Request
from aws.lean.store import LeanStore

# The longest allowed duration of each pause that the code under test made.
PAUSES: list[float] = []


class Script:
    """A client whose replies come from a function of the request's number and body."""

    def __init__(self, reply: Callable[[int, dict[str, Any]], Any]) -> None:
        self._reply = reply
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def pause(self, most: float) -> None:
        PAUSES.append(most)

    def call_all(self, requests: Sequence[Request]) -> list[Reply]:
        return [self._one(request) for request in requests]

    def call(self, operation: str, body: bytes) -> Reply:
        return self.call_all([Request(operation, body)])[0]

    def _one(self, request: Request) -> Reply:
        body = json.loads(request.body)
        self.sent.append((request.operation, body))
        reply = self._reply(len(self.sent), body)
        if isinstance(reply, NoAnswer | Refused):
            return reply
        text = json.dumps(reply).encode()
        return text if request.decode is None else request.decode(text)

    @property
    def client(self) -> LeanClient:
        return cast("LeanClient", self)

    @property
    def store(self) -> LeanStore:
        return LeanStore(self.client, "catalog")
