"""DynamoDB's answers to the data plane, as far as the store looks at them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from aws.lean.client import Refused
from aws.lean.rows import PlainItem, texts_of
from aws.queries import last_of
from aws.wire import item_of
from tidetable.events import Item
from tidetable.ports import KeyRange, Page, Plain


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


class _Read(msgspec.Struct):
    LastEvaluatedKey: dict[str, Any] | None = None
    ConsumedCapacity: _Units | None = None
    ScannedCount: int = 0


class _Found(_Read, kw_only=True):
    Items: list[dict[str, dict[str, Any]]]


class _Plain(_Read, kw_only=True):
    Items: list[PlainItem]


class _Got(msgspec.Struct):
    Item: dict[str, dict[str, Any]] | None = None


class _KeysLeft(msgspec.Struct):
    Keys: list[dict[str, Any]]


class GotMany(msgspec.Struct):
    Responses: dict[str, list[dict[str, dict[str, Any]]]] = {}
    UnprocessedKeys: dict[str, _KeysLeft] = {}


class _PutAnswer(msgspec.Struct):
    ConsumedCapacity: _Units | None = None


class _Reason(msgspec.Struct):
    Code: str = ""
    reason: str = ""


class _Why(msgspec.Struct):
    """What a refusal may say besides its code: of a transaction, or of throttling (with one spelling or the other)."""

    CancellationReasons: list[_Reason] = []
    ThrottlingReasons: list[_Reason] = []
    other_reasons: list[_Reason] = msgspec.field(name="throttlingReasons", default_factory=list)


WROTE = msgspec.json.Decoder(Wrote).decode
_FOUND = msgspec.json.Decoder(_Found).decode
_PLAIN = msgspec.json.Decoder(_Plain).decode
GOT = msgspec.json.Decoder(_Got).decode
GOT_MANY = msgspec.json.Decoder(GotMany).decode
_PUT_ANSWER = msgspec.json.Decoder(_PutAnswer).decode
_WHY = msgspec.json.Decoder(_Why).decode


def page_of(keys: KeyRange, body: bytes, *, plain: bool) -> Page:
    """What Query answers; an index's page leaves out the item that it begins at."""
    index = keys.index
    if plain and (index is None or index.replica):
        read = _PLAIN(body)
        texts = texts_of(read.Items)
        if texts is not None:
            return _page(read, (), Plain([keys.pk] * len(texts), [one.sk.S for one in read.Items], texts))
    found = _FOUND(body)
    items = [item_of(item) for item in found.Items]
    if index is not None and keys.after is not None:
        items = [item for item in items if item[index.sk] != keys.after]
    return _page(found, items)


def _page(read: _Read, items: Sequence[Item], plain: Plain | None = None) -> Page:
    units = read.ConsumedCapacity.CapacityUnits if read.ConsumedCapacity is not None else 0.0
    return Page(
        items, read.LastEvaluatedKey is not None, units, last_of(read.LastEvaluatedKey), read.ScannedCount, plain
    )


def wrote_one(body: bytes) -> Wrote:
    """What PutItem answers, as BatchWriteItem would."""
    capacity = _PUT_ANSWER(body).ConsumedCapacity
    return Wrote(ConsumedCapacity=[capacity] if capacity is not None else [])


def throttling_reasons(refused: Refused) -> list[str]:
    """Why a request was throttled, as DynamoDB names it, such as ``TableWriteKeyRangeThroughputExceeded``."""
    why = why_of(refused)
    return [one.reason for one in (*why.ThrottlingReasons, *why.other_reasons) if one.reason]


def why_of(refused: Refused) -> _Why:
    """What a refusal says of its reasons; nothing, if it says so in no form that is known."""
    try:
        return _WHY(refused.body)
    except msgspec.DecodeError:
        return _Why()
