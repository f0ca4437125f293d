"""The answers of DynamoDB's data plane: the members that this project reads."""

from __future__ import annotations

from typing import Any

import msgspec

from aws.dynamodb.item_texts import PlainItem, render_texts
from aws.dynamodb.queries import find_last_key
from aws.dynamodb.wire import decode_item
from aws.http.client import RequestRefused
from tidetable.ports import ItemColumns, KeyRange, Page


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


class ItemsAnswer(_Read, kw_only=True):
    Items: list[dict[str, dict[str, Any]]]


class _Plain(_Read, kw_only=True):
    Items: list[PlainItem]


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
_PLAIN = msgspec.json.Decoder(_Plain).decode
GET_ANSWER = msgspec.json.Decoder(_GetAnswer).decode
BATCH_GET_ANSWER = msgspec.json.Decoder(BatchGetAnswer).decode
_PUT_ANSWER = msgspec.json.Decoder(_PutAnswer).decode
_WHY = msgspec.json.Decoder(_Why).decode


def decode_query(keys: KeyRange, body: bytes, *, texts: bool) -> Page:
    """Decode Query's answer. If an index's page begins at the item ``keys.after``, that item is left out.

    With ``texts``, the data of the items is JSON text if all items are plain events.
    """
    index = keys.index
    if texts and (index is None or index.replica):
        read = _PLAIN(body)
        contents = render_texts(read.Items)
        if contents is not None:
            return _make_page(
                read, ItemColumns([keys.pk] * len(contents), [item.sk.S for item in read.Items], contents)
            )
    answer = ITEMS(body)
    items = [decode_item(item) for item in answer.Items]
    if index is not None and keys.after is not None:
        items = [item for item in items if item[index.sk] != keys.after]
    return _make_page(answer, ItemColumns.of(items))


def _make_page(read: _Read, columns: ItemColumns) -> Page:
    units = read.ConsumedCapacity.CapacityUnits if read.ConsumedCapacity is not None else 0.0
    last = find_last_key(read.LastEvaluatedKey)
    return Page(columns, read.LastEvaluatedKey is not None, units, last, read.ScannedCount)


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
