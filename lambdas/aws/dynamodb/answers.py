"""The answers of DynamoDB's data plane: the members that this project reads."""

from __future__ import annotations

from typing import Any

import msgspec

from aws.http.client import RequestRefused


class _Units(msgspec.Struct):
    CapacityUnits: float = 0.0


class _Keys(msgspec.Struct):
    pk: dict[str, str]
    sk: dict[str, str] = {}


class _PutRequest(msgspec.Struct):
    Item: _Keys


class _WriteRequest(msgspec.Struct):
    PutRequest: _PutRequest


class Wrote(msgspec.Struct):
    UnprocessedItems: dict[str, list[_WriteRequest]] = {}
    ConsumedCapacity: list[_Units] = []


class QueryAnswer(msgspec.Struct):
    LastEvaluatedKey: dict[str, Any] | None = None
    ConsumedCapacity: _Units | None = None
    ScannedCount: int = 0


class ItemsAnswer(QueryAnswer, kw_only=True):
    Items: list[dict[str, dict[str, Any]]]


class _GetAnswer(msgspec.Struct):
    Item: dict[str, dict[str, Any]] | None = None


class _KeysLeft(msgspec.Struct):
    Keys: list[dict[str, Any]]


class BatchGetAnswer(msgspec.Struct):
    Responses: dict[str, list[dict[str, dict[str, Any]]]] = {}
    UnprocessedKeys: dict[str, _KeysLeft] = {}


class _PutAnswer(msgspec.Struct):
    ConsumedCapacity: _Units | None = None


class _Reason(msgspec.Struct):
    Code: str = ""
    Message: str | None = None
    reason: str = ""


class _Why(msgspec.Struct):
    """The reasons of a refusal: of a cancelled transaction, or of throttling, which AWS spells in two ways."""

    CancellationReasons: list[_Reason] = []
    ThrottlingReasons: list[_Reason] = []
    other_reasons: list[_Reason] = msgspec.field(name="throttlingReasons", default_factory=list)


WROTE = msgspec.json.Decoder(Wrote).decode
ITEMS = msgspec.json.Decoder(ItemsAnswer).decode
GET_ANSWER = msgspec.json.Decoder(_GetAnswer).decode
BATCH_GET_ANSWER = msgspec.json.Decoder(BatchGetAnswer).decode
_PUT_ANSWER = msgspec.json.Decoder(_PutAnswer).decode
_WHY = msgspec.json.Decoder(_Why).decode


def decode_put(body: bytes) -> Wrote:
    """Decode PutItem's answer into the form of BatchWriteItem's answer."""
    capacity = _PUT_ANSWER(body).ConsumedCapacity
    return Wrote(ConsumedCapacity=[capacity] if capacity is not None else [])


def find_throttling_reasons(refused: RequestRefused) -> list[str]:
    """DynamoDB's names of the reasons for throttling, such as ``TableWriteKeyRangeThroughputExceeded``."""
    why = read_reasons(refused)
    return [reason.reason for reason in (*why.ThrottlingReasons, *why.other_reasons) if reason.reason]


def read_reasons(refused: RequestRefused) -> _Why:
    """Read the reasons of a refusal; empty if their form is unknown."""
    try:
        return _WHY(refused.body)
    except msgspec.DecodeError:
        return _Why()
