"""The event store over the lean client."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from json.encoder import encode_basestring as quoted
from typing import Any

import msgspec

from aws.catalog_items import period_key
from aws.codes import CONDITION_FAILED, NOT_FOUND, THROTTLED, TRANSACTION_CANCELED
from aws.lean.client import LeanClient, NoAnswer, Refused, Reply, Request
from aws.lean.reads import body_of, read
from aws.wire import item_of, item_text
from tidetable.catalog import WRITABLE, Entry
from tidetable.events import Item
from tidetable.keys import Index, Key
from tidetable.ports import KeyRange, Page, Put, Written

# AWS: BatchWriteItem takes 25 puts.
_BATCH = 25


class _Units(msgspec.Struct):
    CapacityUnits: float = 0.0


class _Keys(msgspec.Struct):
    pk: dict[str, str]
    sk: dict[str, str]


class _PutRequest(msgspec.Struct):
    Item: _Keys


class _WriteRequest(msgspec.Struct):
    PutRequest: _PutRequest


class _Wrote(msgspec.Struct):
    UnprocessedItems: dict[str, list[_WriteRequest]] = {}
    ConsumedCapacity: list[_Units] = []


class _Found(msgspec.Struct):
    Items: list[dict[str, dict[str, Any]]]
    LastEvaluatedKey: dict[str, Any] | None = None
    ConsumedCapacity: _Units | None = None


class _Got(msgspec.Struct):
    Item: dict[str, dict[str, Any]] | None = None


class _Reason(msgspec.Struct):
    Code: str = ""
    reason: str = ""


class _Why(msgspec.Struct):
    """What a refusal may say besides its code: of a transaction, or of throttling (with one spelling or the other)."""

    CancellationReasons: list[_Reason] = []
    ThrottlingReasons: list[_Reason] = []
    other_reasons: list[_Reason] = msgspec.field(name="throttlingReasons", default_factory=list)


_WROTE = msgspec.json.Decoder(_Wrote).decode
_FOUND = msgspec.json.Decoder(_Found).decode
_GOT = msgspec.json.Decoder(_Got).decode
_WHY = msgspec.json.Decoder(_Why).decode


class LeanStore:
    """Period tables through the lean client."""

    def __init__(self, client: LeanClient, catalog_table: str) -> None:
        self._client = client
        self._catalog_table = catalog_table

    def write(self, puts: Sequence[Put]) -> Written:
        """Try each put once, 25 to a call and one table to a call: a missing table refuses its whole batch, not others'."""
        batches = list(_batches(puts))
        total = Written()
        replies = self._client.call_all([Request("BatchWriteItem", _batch_body(batch)) for batch in batches])
        for batch, reply in zip(batches, replies, strict=True):
            _account(batch, reply, total)
        return total

    def write_fenced(self, put: Put, entry: Entry) -> bool:
        """Put and check the catalog in one transaction, which the archive's change of state can only precede or follow."""
        states = {f":s{index}": state.value for index, state in enumerate(sorted(WRITABLE))}
        key = item_text(period_key(entry.stream, entry.period))
        check = (
            f'{{"ConditionCheck":{{"TableName":{quoted(self._catalog_table)},"Key":{key},'
            f'"ConditionExpression":"#state IN ({", ".join(states)})","ExpressionAttributeNames":{{"#state":"state"}},'
            f'"ExpressionAttributeValues":{item_text(states)}}}}}'
        )
        body = (
            f'{{"TransactItems":[{check},{{"Put":{{"TableName":{quoted(put.table)},"Item":{item_text(put.item)}}}}}]}}'
        )
        reply = self._client.call("TransactWriteItems", body.encode())
        if isinstance(reply, Refused) and reply.code == TRANSACTION_CANCELED:
            reasons = _why(reply).CancellationReasons
            if reasons and reasons[0].Code == CONDITION_FAILED.removesuffix("Exception"):
                return False
        body_of(reply, put.table)
        return True

    def query(self, keys: KeyRange, *, limit: int, ascending: bool, consistent: bool = False) -> Page:
        """One Query call; its page may end before ``limit`` at DynamoDB's 1 MB."""
        if keys.index is not None:
            return self._query_index(keys, keys.index, limit=limit, ascending=ascending)
        body: dict[str, Any] = {
            "TableName": keys.table,
            "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
            "ExpressionAttributeValues": _edges(keys.pk, keys.low, keys.high),
            "Limit": limit,
            "ScanIndexForward": ascending,
            "ConsistentRead": consistent,
            "ReturnConsumedCapacity": "TOTAL",
        }
        if keys.after is not None:
            body["ExclusiveStartKey"] = {"pk": {"S": keys.pk}, "sk": {"S": keys.after}}
        return self._page(keys.table, body)

    def _query_index(self, keys: KeyRange, index: Index, *, limit: int, ascending: bool) -> Page:
        """One Query call of an index.

        It begins at ``after`` and leaves that item out, as to begin behind it would take the table's key as well.
        """
        low, high = keys.low, keys.high
        if keys.after is not None:
            low, high = (keys.after, high) if ascending else (low, keys.after)
        body = {
            "TableName": keys.table,
            "IndexName": index.name,
            "KeyConditionExpression": "#pk = :pk AND #sk BETWEEN :low AND :high",
            "ExpressionAttributeNames": {"#pk": index.pk, "#sk": index.sk},
            "ExpressionAttributeValues": _edges(keys.pk, low, high),
            "Limit": limit + (keys.after is not None),
            "ScanIndexForward": ascending,
            "ReturnConsumedCapacity": "TOTAL",
        }
        page = self._page(keys.table, body)
        return replace(page, items=[item for item in page.items if item[index.sk] != keys.after])

    def get(self, table: str, key: Key) -> Item | None:
        """One GetItem."""
        body = {"TableName": table, "Key": {"pk": {"S": key.pk}, "sk": {"S": key.sk}}}
        found = _GOT(read(self._client, "GetItem", body, table)).Item
        return None if found is None else item_of(found)

    def _page(self, table: str, body: dict[str, Any]) -> Page:
        found = _FOUND(read(self._client, "Query", body, table))
        units = found.ConsumedCapacity.CapacityUnits if found.ConsumedCapacity is not None else 0.0
        return Page([item_of(item) for item in found.Items], more=found.LastEvaluatedKey is not None, units=units)


def _account(batch: list[Put], reply: Reply, total: Written) -> None:
    """Add what became of a batch. What has no answer is written or not: to write it again is harmless."""
    if isinstance(reply, NoAnswer):
        total.unwritten += batch
        return
    if isinstance(reply, Refused):
        total.unwritten += batch
        if reply.code == NOT_FOUND:
            total.missing_tables.add(batch[0].table)
        elif reply.code in THROTTLED:
            total.throttled += len(batch)
            total.reasons.update(throttling_reasons(reply) or [reply.code])
        return
    answer = _WROTE(reply)
    total.units += sum(one.CapacityUnits for one in answer.ConsumedCapacity)
    for unprocessed in answer.UnprocessedItems.values():
        left = {(one.PutRequest.Item.pk["S"], one.PutRequest.Item.sk["S"]) for one in unprocessed}
        unwritten = [put for put in batch if put.key in left]
        total.unwritten += unwritten
        total.throttled += len(unwritten)


def throttling_reasons(refused: Refused) -> list[str]:
    """Why a request was throttled, as DynamoDB names it, such as ``TableWriteKeyRangeThroughputExceeded``."""
    why = _why(refused)
    return [one.reason for one in (*why.ThrottlingReasons, *why.other_reasons) if one.reason]


def _why(refused: Refused) -> _Why:
    try:
        return _WHY(refused.body)
    except msgspec.DecodeError:
        return _Why()


def _edges(pk: str, low: str, high: str) -> dict[str, dict[str, str]]:
    return {":pk": {"S": pk}, ":low": {"S": low}, ":high": {"S": high}}


def _batch_body(batch: list[Put]) -> bytes:
    puts = ",".join([f'{{"PutRequest":{{"Item":{item_text(put.item)}}}}}' for put in batch])
    return f'{{"RequestItems":{{{quoted(batch[0].table)}:[{puts}]}},"ReturnConsumedCapacity":"TOTAL"}}'.encode()


def _batches(puts: Sequence[Put]) -> Iterator[list[Put]]:
    """Batches of one table each, in turn over the tables and, within one, over its partitions.

    A request is often in the order of its series or times; written in that order, each batch would hit one partition.
    """
    by_table: defaultdict[str, defaultdict[str, list[Put]]] = defaultdict(lambda: defaultdict(list))
    for put in puts:
        by_table[put.table][put.item["pk"]].append(put)
    queues = [_interleaved(list(partitions.values())) for partitions in by_table.values()]
    batches = [[queue[start : start + _BATCH] for start in range(0, len(queue), _BATCH)] for queue in queues]
    yield from _interleaved(batches)


def _interleaved(queues: list[list[Any]]) -> list[Any]:
    """One of each queue in turn, until all are empty."""
    if len(queues) == 1:
        return queues[0]
    longest = max(map(len, queues))
    return [queue[place] for place in range(longest) for queue in queues if place < len(queue)]
