"""The event store over the lean client."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from json.encoder import encode_basestring as quote_name
from typing import Any, cast

import msgspec

from aws.dynamodb import answers
from aws.dynamodb.catalog_items import make_period_key
from aws.dynamodb.codes import (
    COLLECTION_FULL,
    CONDITION_FAILED,
    INVALID,
    NOT_FOUND,
    THROTTLED,
    TRANSACTION_CANCELED,
    UNPROCESSED,
)
from aws.dynamodb.fields import decode_fields
from aws.dynamodb.partition_scan import scan_partitions
from aws.dynamodb.queries import make_query
from aws.dynamodb.query_answers import decode_columns, decode_query
from aws.dynamodb.reads import decode_answer, read_all, read_item, read_whole
from aws.dynamodb.wire import decode_item, encode_item, encode_put, encode_transaction_put, make_requests
from aws.http.client import LeanClient, NoAnswer, Reply, RequestRefused, ServiceRequest
from tidetable.catalog import WRITABLE, Entry, State
from tidetable.errors import CollectionFull, Outage, PutRefused, StoreUnavailable, TableMissing
from tidetable.events import Item
from tidetable.forms.field_columns import KINDS
from tidetable.large.chunks import GET_CHUNKS
from tidetable.layout import Key
from tidetable.ports import GET_ITEMS, FieldPage, Guard, Guarded, Page, Put, RangeRead, Transacted, Written

# Refusals of a whole BatchWriteItem that one of its puts causes.
_OF_ONE_PUT = INVALID | {COLLECTION_FULL}
# The reason of a transaction's action whose item DynamoDB would refuse by itself, too.
_INVALID_ACTION = "ValidationError"
# The reasons of a transaction's actions for which units are missing (API reference, *TransactWriteItems*, errors).
_THROTTLED_ACTION = frozenset({"ThrottlingError", "ProvisionedThroughputExceeded"})


class LeanStore:
    """Period tables through the lean client."""

    def __init__(self, client: LeanClient, catalog_table: str) -> None:
        self._client = client
        self._catalog_table = catalog_table

    def write(self, puts: Sequence[Put]) -> Written:
        """Try every put once, with up to 25 puts per call. All puts of a call are for one table: if a table is missing,
        DynamoDB refuses the whole call, and that must not affect the puts of other tables.
        """
        requests = list(make_requests(puts))
        total = Written()
        replies = self._client.call_all([ServiceRequest("BatchWriteItem", body, answers.WROTE) for _, body in requests])
        mixed: list[Put] = []
        for (batch, _), reply in zip(requests, replies, strict=True):
            if len(batch) > 1 and isinstance(reply, RequestRefused) and reply.code in _OF_ONE_PUT:
                # The refusal does not name the put that caused it. The other puts of the batch must still be written.
                mixed += batch
            else:
                _add_outcome(batch, reply, total)
        if mixed:
            total.add(self.write_each(mixed))
        return total

    def write_each(self, puts: Sequence[Put], guard: Guard | None = None) -> Written:
        """Send one PutItem per put, several under way at once."""
        total = Written()
        replies = self._client.call_all(
            [ServiceRequest("PutItem", encode_put(put, guard), answers.decode_put) for put in puts]
        )
        for put, reply in zip(puts, replies, strict=True):
            if isinstance(reply, RequestRefused) and reply.code == CONDITION_FAILED:
                total.conflicts.append((put, self._read_present(put, reply)))
            else:
                _add_outcome([put], reply, total)
        return total

    def transact(self, puts: Sequence[Guarded], entry: Entry | None = None, total: Written | None = None) -> Transacted:
        """Write puts by TransactWriteItems. With ``entry``, the archive changes its state only before or after."""
        actions = [encode_transaction_put(put) for put in puts]
        if entry is not None:
            actions.append(self._make_fence(entry, puts))
        body = f'{{"TransactItems":[{",".join(actions)}],"ReturnConsumedCapacity":"TOTAL"}}'
        (reply,) = self._client.call_all([ServiceRequest("TransactWriteItems", body.encode(), answers.WROTE)])
        if isinstance(reply, RequestRefused) and reply.code == TRANSACTION_CANCELED:
            outcome = _judge_canceled(reply, puts, has_fence=entry is not None)
            if outcome is not None:
                return outcome
        if isinstance(reply, RequestRefused) and reply.code in INVALID:
            raise PutRefused(_describe_refusal(reply))
        wrote: answers.Wrote = decode_answer(reply, puts[0].put.table)
        if total is not None:
            total.units += sum(units.CapacityUnits for units in wrote.ConsumedCapacity)
        return Transacted.DONE

    def _make_fence(self, entry: Entry, puts: Sequence[Guarded]) -> str:
        """Make the action for the entry, which fails if its state or its segments have changed meanwhile.

        The entry of a retained table gets the numbers of the segments that the puts change. A writer that does not know
        yet that the table is retained must not write without them.
        """
        action, change, condition, names = "ConditionCheck", "", "#state IN (:s0, :s1, :s2)", {"#state": "state"}
        values: Item = {f":s{index}": state.value for index, state in enumerate(sorted(WRITABLE - {State.RETAINED}))}
        segments = entry.segments
        if entry.state is State.RETAINED and segments is not None:
            action, change = "Update", '"UpdateExpression":"ADD marked :marked, marks :one",'
            condition = "#state = :state AND #segments.#count = :count AND #segments.slices = :slices"
            names |= {"#segments": "segments", "#count": "count"}
            marked = segments.find_changed((guarded.put.item for guarded in puts), entry.layout, entry.period)
            values = {":state": entry.state.value, ":count": segments.count, ":slices": segments.slices}
            values |= {":marked": set(map(str, marked)), ":one": 1}
        key = encode_item(make_period_key(entry.stream, entry.period))
        return (
            f'{{"{action}":{{"TableName":{quote_name(self._catalog_table)},"Key":{key},{change}'
            f'"ConditionExpression":"{condition}","ExpressionAttributeNames":{msgspec.json.encode(names).decode()},'
            f'"ExpressionAttributeValues":{encode_item(values)}}}}}'
        )

    def _read_present(self, put: Put, refused: RequestRefused) -> Item:
        """Return the present item, which made the condition fail: from the refusal, or by a read."""
        try:
            item = answers.GET_ANSWER(refused.body).Item
        except msgspec.DecodeError:
            item = None
        if item is not None:
            return decode_item(item)
        try:
            return self.get_many(put.table, [put.key]).get(put.key, {})
        except (TableMissing, StoreUnavailable):
            return {}

    def query_many(
        self,
        reads: Sequence[RangeRead],
        *,
        ascending: bool,
        consistent: bool = False,
        texts: bool = False,
        fields: Sequence[str] = (),
    ) -> Sequence[Page | None]:
        """Send one Query per read, several under way at once. A page ends at its limit or at DynamoDB's 1 MB."""
        requests = [
            ServiceRequest(
                "Query",
                msgspec.json.encode(make_query(read, ascending=ascending, consistent=consistent, fields=fields)),
                # The client decodes an answer as soon as it has come: only one undecoded answer is in memory at a time.
                partial(decode_query, read.keys, texts=texts),
            )
            for read in reads
        ]
        replies = read_all(self._client, requests)
        return [_make_page(reply, read.keys.table) for read, reply in zip(reads, replies, strict=True)]

    def query_fields(
        self, reads: Sequence[RangeRead], fields: Sequence[str], *, consistent: bool = False
    ) -> Sequence[FieldPage | Page | None]:
        """Send one Query per read, several under way at once; each answer becomes columns as soon as it has come."""
        whole, decode = KINDS in fields, partial(decode_fields, fields=tuple(fields))
        projected = () if whole else fields
        requests = [
            ServiceRequest(
                "Query",
                msgspec.json.encode(make_query(read, ascending=True, consistent=consistent, fields=projected)),
                partial(decode_columns, read.keys, columns=fields) if whole else decode,
            )
            for read in reads
        ]
        replies = read_all(self._client, requests)
        return [_make_page(reply, read.keys.table) for read, reply in zip(reads, replies, strict=True)]

    def scan_partitions(self, table: str) -> Iterator[tuple[Sequence[str], float]]:
        """Send Scans, several under way at once, each of which skips the rest of its last partition."""
        return scan_partitions(self._client, table)

    def get(self, table: str, key: Key) -> Item | None:
        """Read an item by one GetItem."""
        return read_item(self._client, table, key)

    def get_many(self, table: str, keys: Sequence[Key], *, consistent: bool = True) -> Mapping[Key, Item]:
        """Read items by BatchGetItem, with up to 100 keys per call."""
        # DynamoDB refuses a batch that repeats a key.
        names = [{"pk": {"S": key.pk}, "sk": {"S": key.sk}} for key in dict.fromkeys(keys)]
        items = [decode_item(item) for item in self._get_all(table, names, consistent=consistent)]
        return {Key(item["pk"], item["sk"]): item for item in items}

    def get_chunks(self, table: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Read chunks by BatchGetItem, with at most ``GET_CHUNKS`` keys per call, so that the chunks fit into 16 MB."""
        chunks = self._get_all(table, [{"pk": {"S": key}} for key in dict.fromkeys(keys)], GET_CHUNKS)
        return {item["pk"]["S"]: b64decode(item["b"]["B"]) for item in chunks}

    def _get_all(
        self, table: str, keys: list[dict[str, Any]], most: int = GET_ITEMS, *, consistent: bool = True
    ) -> Iterator[dict[str, dict[str, Any]]]:
        def request(chunk: list[dict[str, Any]]) -> ServiceRequest:
            body = {"RequestItems": {table: {"Keys": chunk, "ConsistentRead": consistent}}}
            return ServiceRequest("BatchGetItem", msgspec.json.encode(body), answers.BATCH_GET_ANSWER)

        def rest(answer: answers.BatchGetAnswer) -> ServiceRequest | None:
            unread = [key for unprocessed in answer.UnprocessedKeys.values() for key in unprocessed.Keys]
            return request(unread) if unread else None

        requests = [request(keys[at : at + most]) for at in range(0, len(keys), most)]
        for reply in read_whole(self._client, requests, rest):
            yield from decode_answer(reply, table).Responses.get(table, ())


def _make_page(reply: Reply, table: str) -> Any:
    """Make a page of a reply; None if there is no such table, StoreUnavailable if there is no answer."""
    try:
        return decode_answer(reply, table)
    except TableMissing:
        return None


def _add_outcome(batch: list[Put], reply: Reply, total: Written) -> None:
    """Add the outcome of some puts. A put without an answer counts as unwritten: to write it twice is harmless."""
    table = batch[0].table
    if isinstance(reply, NoAnswer):
        total.unwritten += batch
        total.troubles[table] = f"no answer: {reply.why}"
        return
    if isinstance(reply, RequestRefused):
        total.unwritten += batch
        total.troubles[table] = _describe_refusal(reply)
        if reply.code == NOT_FOUND:
            total.missing_tables.add(table)
        elif reply.code in THROTTLED:
            total.throttles[table] += len(batch)
            total.reasons.update(answers.find_throttling_reasons(reply) or [reply.code])
        elif reply.code == COLLECTION_FULL:
            total.full.update((put.table, put.item["pk"]) for put in batch)
        elif reply.code in INVALID:
            # A batch of several puts that is refused so was sent put by put.
            total.refused[batch[0].slot] = _describe_refusal(reply)
        return
    answer = cast("answers.Wrote", reply)
    total.units += sum(units.CapacityUnits for units in answer.ConsumedCapacity)
    for unprocessed in answer.UnprocessedItems.values():
        keys = {(put.PutRequest.Item.pk["S"], put.PutRequest.Item.sk.get("S", "")) for put in unprocessed}
        unwritten = [put for put in batch if put.key in keys]
        total.unwritten += unwritten
        total.throttles.update(put.table for put in unwritten)
        total.troubles[table] = f"{UNPROCESSED}: the table's units did not suffice for all of a batch"


def _judge_canceled(reply: RequestRefused, puts: Sequence[Guarded], *, has_fence: bool) -> Transacted | None:
    """Return the outcome of a transaction that is canceled; None if its reasons do not say what to do."""
    reasons = answers.read_reasons(reply).CancellationReasons
    codes = [reason.Code for reason in reasons]
    full, failed = COLLECTION_FULL.removesuffix("Exception"), CONDITION_FAILED.removesuffix("Exception")
    if full in codes:
        raise CollectionFull(puts[codes.index(full)].put.table)
    if has_fence and codes[-1:] == [failed]:
        return Transacted.FENCED
    if failed in codes:
        return Transacted.CONFLICT
    for reason in reasons:
        if reason.Code == _INVALID_ACTION:
            raise PutRefused(_describe_refusal(RequestRefused(reason.Code, reason.Message or "", b"")))
    if not _THROTTLED_ACTION.isdisjoint(codes):
        raise StoreUnavailable(Outage.THROTTLED, reply.message, reply.code)
    return None


def _describe_refusal(refused: RequestRefused) -> str:
    return f"{refused.code}: {refused.message}" if refused.message else refused.code
