"""A stand-in for the lean client that calls the strict service. Requests and answers are JSON, as in a function."""

import random
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from aws.http.client import NoAnswer, Reply, RequestRefused, ServiceRequest
from strict.faults import NoAnswer as Lost
from strict.refusals import Refusal
from strict.service import StrictDynamo
from tests.fakes.script import answer_in_turn


class StrictTransport:
    """Answers the lean client's requests one after another.

    ``count`` is called after each request, with its operation. It may stop the function.
    """

    def __init__(self, service: StrictDynamo, count: Callable[[str], None] = lambda _: None) -> None:
        self._service = service
        self._count = count
        self._chance = random.Random(0)

    def pause(self, most: float) -> None:
        self._service.clock.sleep(self._chance.uniform(0, most))

    def call(self, operation: str, body: bytes) -> Reply:
        return self.call_all([ServiceRequest(operation, body)])[0]

    def call_all(self, requests: Sequence[ServiceRequest], *, insist: bool = True) -> list[Reply]:
        return answer_in_turn(requests, self._reply, insist=insist)

    def _reply(self, request: ServiceRequest) -> Reply:
        try:
            answer = self._service.call(request.operation, _read_body(request.body))
        except Refusal as refusal:
            body = msgspec.json.encode(refusal.document())
            reply: Reply = RequestRefused(refusal.code, refusal.message, body)
        except Lost as lost:
            reply = NoAnswer(str(lost))
        else:
            # The engine in memory keeps binary values as bytes. On the wire they are Base64: msgspec writes bytes so.
            body = msgspec.json.encode(answer)
            reply = body if request.decode is None else request.decode(body)
        self._count(request.operation)
        return reply


def _read_body(body: bytes) -> Any:
    """Decode a request, with its binary values as bytes. Most requests have no binary values."""
    request = msgspec.json.decode(body)
    return _decode_binary(request) if b'"B"' in body else request


def _decode_binary(value: Any) -> Any:
    if isinstance(value, dict):
        if len(value) == 1 and isinstance(inner := value.get("B"), str):
            return {"B": b64decode(inner)}
        return {name: _decode_binary(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_decode_binary(inner) for inner in value]
    return value
