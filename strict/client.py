"""A client that calls the strict service in this process: the methods of boto3's client that the adapters use."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError, ConnectionClosedError, EndpointConnectionError, ReadTimeoutError

from strict.faults import Kind, NoAnswer
from strict.refusals import Refusal
from strict.service import StrictDynamo

_URL = "strict://dynamodb"
_TIMES = frozenset({"LastDecreaseDateTime", "LastIncreaseDateTime", "CreationDateTime"})


class _Response(dict[str, Any]):
    """An answer as its handler receives it. Its body is written when the handler reads it; most handlers do not read
    it.
    """

    def __init__(self, answer: Any) -> None:
        super().__init__(status_code=200, headers={})
        self._answer = answer

    def __missing__(self, name: str) -> bytes:
        if name != "body":
            raise KeyError(name)
        # The service writes JSON without spaces.
        text = json.dumps(self._answer, default=_encode_binary, separators=(",", ":"))
        self["body"] = text.encode()
        return text.encode()


def _encode_binary(value: Any) -> str:
    return b64encode(bytes(value)).decode()


class StrictClient:
    """Methods with boto3's names and boto3's errors, but without retries.

    ``meta.events`` registers a handler of "before-parse.dynamodb.<operation>". It may replace the answer's body.
    """

    def __init__(self, service: StrictDynamo) -> None:
        self._service = service
        self._handlers: dict[str, Callable[..., None]] = {}
        self.meta = SimpleNamespace(events=SimpleNamespace(register=self._register))

    def _register(self, event: str, handler: Callable[..., None], **_: Any) -> None:
        self._handlers[event] = handler

    def _parse(self, operation: str, answer: Any) -> Any:
        handler = self._handlers.get(f"before-parse.dynamodb.{operation}")
        if handler is None:
            return _convert_times(answer)
        response = _Response(answer)
        handler(response_dict=response)
        return json.loads(response["body"]) if "body" in response else _convert_times(answer)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # Python itself looks for attributes with such names, for example to copy an object.
            raise AttributeError(name)
        operation = "".join(word.capitalize() for word in name.split("_"))

        def call(**payload: Any) -> Any:
            try:
                return self._parse(operation, self._service.call(operation, payload))
            except Refusal as refusal:
                answer: Any = {
                    "Error": {"Code": refusal.code, "Message": refusal.message},
                    "ResponseMetadata": {"HTTPStatusCode": refusal.status},
                    **refusal.members,
                }
                raise ClientError(answer, operation) from refusal
            except NoAnswer as lost:
                raise _UNANSWERED[lost.kind](endpoint_url=_URL) from lost

        return call

    def get_paginator(self, name: str) -> Any:
        """Return the paginator of an operation."""
        return _Paginator(getattr(self, name))


_UNANSWERED: Mapping[Kind, Any] = {
    Kind.TIMEOUT_BEFORE: ReadTimeoutError,
    Kind.TIMEOUT_AFTER: ReadTimeoutError,
    Kind.RESET: ConnectionClosedError,
    Kind.GONE: lambda endpoint_url: EndpointConnectionError(endpoint_url=endpoint_url, error="engine gone"),
}


class _Paginator:
    def __init__(self, call: Any) -> None:
        self._call = call

    def paginate(self, **payload: Any) -> Iterator[Any]:
        while True:
            page = self._call(**payload)
            yield page
            if "LastEvaluatedKey" not in page:
                return
            payload = {**payload, "ExclusiveStartKey": page["LastEvaluatedKey"]}


def _convert_times(answer: Any) -> Any:
    """Convert the times of a description to datetimes, as boto3 does."""
    for described in (answer.get("Table"), answer.get("TableDescription")):
        if described is not None:
            _convert_members(described)
            _convert_members(described["ProvisionedThroughput"])
            for index in described.get("GlobalSecondaryIndexes", ()):
                _convert_members(index["ProvisionedThroughput"])
    return answer


def _convert_members(figures: dict[str, Any]) -> None:
    for name in _TIMES & figures.keys():
        figures[name] = datetime.fromtimestamp(figures[name], UTC)
