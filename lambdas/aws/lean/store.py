"""The event store over the lean client."""

from __future__ import annotations

import random
import time
from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from json.encoder import encode_basestring as quoted
from typing import Any

import msgspec

from aws.catalog_items import period_key
from aws.codes import CONDITION_FAILED, NOT_FOUND, THROTTLED, TRANSACTION_CANCELED
from aws.guards import guarded
from aws.lean.client import LeanClient, NoAnswer, Refused, Reply, Request
from aws.lean.reads import body_of, read, read_all
from aws.lean.rows import Quick, quick_items
from aws.wire import item_of, item_text
from tidetable.catalog import WRITABLE, Entry
from tidetable.errors import StoreUnavailable, TableMissing
from tidetable.events import Item
from tidetable.keys import Key
from tidetable.ports import Asked, Guard, Guarded, KeyRange, Page, Put, Transacted, Written

# AWS: BatchWriteItem takes 25 puts and 16 MB, BatchGetItem 100 keys and answers 16 MB: parts are up to 400 KB each.
_BATCH = 25
_GET, _GET_PARTS = 100, 40
_PAUSE, _ROUNDS = 0.05, 8


class _Units(msgspec.Struct):
    CapacityUnits: float = 0.0


class _Keys(msgspec.Struct):
    pk: dict[str, str]
    sk: dict[str, str] = {}


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


class _Quick(msgspec.Struct):
    Items: list[Quick]
    LastEvaluatedKey: dict[str, Any] | None = None
    ConsumedCapacity: _Units | None = None


class _Got(msgspec.Struct):
    Item: dict[str, dict[str, Any]] | None = None


class _KeysLeft(msgspec.Struct):
    Keys: list[dict[str, Any]]


class _GotMany(msgspec.Struct):
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


_WROTE = msgspec.json.Decoder(_Wrote).decode
_FOUND = msgspec.json.Decoder(_Found).decode
_QUICK = msgspec.json.Decoder(_Quick).decode
_GOT = msgspec.json.Decoder(_Got).decode
_GOT_MANY = msgspec.json.Decoder(_GotMany).decode
_PUT_ANSWER = msgspec.json.Decoder(_PutAnswer).decode
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

    def write_each(self, puts: Sequence[Put], guard: Guard) -> Written:
        """PutItem for each, several under way at once."""
        total = Written()
        replies = self._client.call_all([Request("PutItem", _put_body(put, guard)) for put in puts])
        for put, reply in zip(puts, replies, strict=True):
            if isinstance(reply, Refused) and reply.code == CONDITION_FAILED:
                total.held.append((put, self._held(put, reply)))
            else:
                _account([put], reply, total, _wrote_one)
        return total

    def transact(self, puts: Sequence[Guarded], entry: Entry | None = None) -> Transacted:
        """TransactWriteItems, which the archive's change of the entry's state can only precede or follow."""
        actions = [_put_text(one) for one in puts]
        if entry is not None:
            actions.append(f'{{"ConditionCheck":{self._fence(entry)}}}')
        body = f'{{"TransactItems":[{",".join(actions)}]}}'
        reply = self._client.call("TransactWriteItems", body.encode())
        if isinstance(reply, Refused) and reply.code == TRANSACTION_CANCELED:
            codes = [one.Code for one in _why(reply).CancellationReasons]
            failed = CONDITION_FAILED.removesuffix("Exception")
            if entry is not None and codes[-1:] == [failed]:
                return Transacted.FENCED
            if failed in codes:
                return Transacted.HELD
        body_of(reply, puts[0].put.table)
        return Transacted.DONE

    def _fence(self, entry: Entry) -> str:
        states = {f":s{index}": state.value for index, state in enumerate(sorted(WRITABLE))}
        key = item_text(period_key(entry.stream, entry.period))
        return (
            f'{{"TableName":{quoted(self._catalog_table)},"Key":{key},'
            f'"ConditionExpression":"#state IN ({", ".join(states)})","ExpressionAttributeNames":{{"#state":"state"}},'
            f'"ExpressionAttributeValues":{item_text(states)}}}'
        )

    def _held(self, put: Put, refused: Refused) -> Item:
        """What is there instead: DynamoDB shows it with its refusal, if the engine can."""
        try:
            shown = _GOT(refused.body).Item
        except msgspec.DecodeError:
            shown = None
        if shown is not None:
            return item_of(shown)
        try:
            return self.get_many(put.table, [put.key]).get(put.key, {})
        except (TableMissing, StoreUnavailable):
            return {}

    def query(self, keys: KeyRange, *, limit: int, ascending: bool, consistent: bool = False) -> Page:
        """One Query call; its page may end before ``limit`` at DynamoDB's 1 MB."""
        (page,) = self.query_many([Asked(keys, limit)], ascending=ascending, consistent=consistent)
        if page is None:
            raise TableMissing(keys.table)
        return page

    def query_many(
        self, asked: Sequence[Asked], *, ascending: bool, consistent: bool = False, quick: bool = False
    ) -> Sequence[Page | None]:
        """One Query call for each, several under way at once."""
        requests = [
            Request("Query", msgspec.json.encode(_query_body(one, ascending=ascending, consistent=consistent)))
            for one in asked
        ]
        replies = read_all(self._client, requests)
        return [
            None
            if isinstance(reply, Refused) and reply.code == NOT_FOUND
            else _page(one.keys, body_of(reply, one.keys.table), quick=quick)
            for one, reply in zip(asked, replies, strict=True)
        ]

    def get(self, table: str, key: Key) -> Item | None:
        """One GetItem."""
        body = {"TableName": table, "Key": {"pk": {"S": key.pk}, "sk": {"S": key.sk}}}
        found = _GOT(read(self._client, "GetItem", body, table)).Item
        return None if found is None else item_of(found)

    def get_many(self, table: str, keys: Sequence[Key]) -> Mapping[Key, Item]:
        """BatchGetItem, 100 keys at a time."""
        names = [{"pk": {"S": key.pk}, "sk": {"S": key.sk}} for key in keys]
        items = [item_of(found) for found in self._get_all(table, names)]
        return {Key(item["pk"], item["sk"]): item for item in items}

    def get_parts(self, table: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        """BatchGetItem, as many keys at a time as 16 MB may hold."""
        found = self._get_all(table, [{"pk": {"S": key}} for key in keys], _GET_PARTS)
        return {item["pk"]["S"]: b64decode(item["b"]["B"]) for item in found}

    def _get_all(self, table: str, keys: list[dict[str, Any]], most: int = _GET) -> Iterator[dict[str, dict[str, Any]]]:
        waiting = keys
        pause = _PAUSE
        for _ in range(_ROUNDS):
            left: list[dict[str, Any]] = []
            bodies = [
                msgspec.json.encode(
                    {"RequestItems": {table: {"Keys": waiting[at : at + most], "ConsistentRead": True}}}
                )
                for at in range(0, len(waiting), most)
            ]
            for reply in self._client.call_all([Request("BatchGetItem", body) for body in bodies]):
                if isinstance(reply, Refused) and reply.code in THROTTLED:
                    left = waiting
                    break
                answer = _GOT_MANY(body_of(reply, table))
                yield from answer.Responses.get(table, ())
                for one in answer.UnprocessedKeys.values():
                    left += one.Keys
            if not left:
                return
            waiting = left
            time.sleep(random.uniform(0, pause))  # noqa: S311 - spreading retries needs no secrecy
            pause *= 2
        raise StoreUnavailable("throttled", f"{len(waiting)} items of {table} could not be read")


def _query_body(asked: Asked, *, ascending: bool, consistent: bool) -> dict[str, Any]:
    keys, limit = asked
    body: dict[str, Any] = {
        "TableName": keys.table,
        "ScanIndexForward": ascending,
        "ReturnConsumedCapacity": "TOTAL",
    }
    low, high = keys.low, keys.high
    if keys.index is not None:
        # It begins at ``after`` and leaves that item out, as to begin behind it would take the table's key as well.
        if keys.after is not None:
            low, high = (keys.after, high) if ascending else (low, keys.after)
        return body | {
            "IndexName": keys.index.name,
            "KeyConditionExpression": "#pk = :pk AND #sk BETWEEN :low AND :high",
            "ExpressionAttributeNames": {"#pk": keys.index.pk, "#sk": keys.index.sk},
            "ExpressionAttributeValues": _edges(keys.pk, low, high),
            "Limit": limit + (keys.after is not None),
        }
    if keys.after is not None:
        body["ExclusiveStartKey"] = {"pk": {"S": keys.pk}, "sk": {"S": keys.after}}
    return body | {
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
        "ExpressionAttributeValues": _edges(keys.pk, low, high),
        "Limit": limit,
        "ConsistentRead": consistent,
    }


def _page(keys: KeyRange, body: bytes, *, quick: bool) -> Page:
    index = keys.index
    if quick and index is None:
        rows = _QUICK(body)
        items = quick_items(rows.Items)
        if items is not None:
            return Page(items, rows.LastEvaluatedKey is not None, _units(rows.ConsumedCapacity))
    found = _FOUND(body)
    items = [item_of(item) for item in found.Items]
    if index is not None and keys.after is not None:
        items = [item for item in items if item[index.sk] != keys.after]
    return Page(items, more=found.LastEvaluatedKey is not None, units=_units(found.ConsumedCapacity))


def _units(consumed: _Units | None) -> float:
    return consumed.CapacityUnits if consumed is not None else 0.0


def _wrote_batch(body: bytes) -> _Wrote:
    return _WROTE(body)


def _wrote_one(body: bytes) -> _Wrote:
    capacity = _PUT_ANSWER(body).ConsumedCapacity
    return _Wrote(ConsumedCapacity=[capacity] if capacity is not None else [])


def _account(batch: list[Put], reply: Reply, total: Written, decode: Callable[[bytes], _Wrote] = _wrote_batch) -> None:
    """Add what became of a batch, or of one put. What has no answer is written or not: to write it again is harmless."""
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
    answer = decode(reply)
    total.units += sum(one.CapacityUnits for one in answer.ConsumedCapacity)
    for unprocessed in answer.UnprocessedItems.values():
        left = {(one.PutRequest.Item.pk["S"], one.PutRequest.Item.sk.get("S", "")) for one in unprocessed}
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


def _put_text(one: Guarded) -> str:
    """A put of a transaction."""
    return f'{{"Put":{{"TableName":{quoted(one.put.table)},"Item":{item_text(one.put.item)}{_guard_text(one)}}}}}'


def _put_body(put: Put, guard: Guard) -> bytes:
    options = '"ReturnConsumedCapacity":"TOTAL","ReturnValuesOnConditionCheckFailure":"ALL_OLD"'
    text = _guard_text(Guarded(put, guard))
    return f'{{"TableName":{quoted(put.table)},"Item":{item_text(put.item)}{text},{options}}}'.encode()


def _guard_text(one: Guarded) -> str:
    members = guarded(one)
    values = members.pop("ExpressionAttributeValues", None)
    text = "".join(f",{quoted(name)}:{msgspec.json.encode(member).decode()}" for name, member in members.items())
    return text + (f',"ExpressionAttributeValues":{item_text(values)}' if values is not None else "")


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
