"""The contract's oracle: an event store on boto3, with which the deployed store is compared."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from boto3.dynamodb.types import Binary, TypeDeserializer
from botocore.exceptions import BotoCoreError, ClientError

from aws.clients import CONCURRENCY
from aws.dynamodb.catalog_items import make_period_key
from aws.dynamodb.codes import CONDITION_FAILED, NOT_FOUND, THROTTLED, TRANSACTION_CANCELED, find_outage
from aws.dynamodb.queries import make_query
from aws.dynamodb.query_answers import find_last_key
from aws.dynamodb.wire import make_condition
from aws.errors import name_missing_table, read_error_code
from tests.fakes.store import make_field_page
from tests.worlds.codec import to_wire
from tidetable.catalog import Entry, State
from tidetable.errors import Outage, StoreUnavailable, TableMissing
from tidetable.events import Item
from tidetable.forms.field_columns import KINDS
from tidetable.layout import Key
from tidetable.ports import FieldPage, Guard, Guarded, ItemColumns, Page, Put, RangeRead, Transacted, Written

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class _Deserializer(TypeDeserializer):
    def _deserialize_n(self, value: str) -> Decimal:
        return Decimal(value)


_deserializer = _Deserializer()


def from_wire(attributes: Mapping[str, Any]) -> Item:
    """Decode an item with boto3's own reader of attribute values. The deployed store has a different reader."""
    read = {name: _deserializer.deserialize(value) for name, value in attributes.items()}
    return {name: cast("Any", value).value if isinstance(value, Binary) else value for name, value in read.items()}


# AWS: BatchWriteItem takes 25 puts.
_BATCH = 25
_GET, _GET_PARTS = 100, 40


class DynamoStore:
    """Period tables through boto3's low-level client."""

    def __init__(self, client: DynamoDBClient, catalog_table: str) -> None:
        self._client = client
        self._catalog_table = catalog_table
        self._pool = ThreadPoolExecutor(CONCURRENCY)

    def write(self, puts: Sequence[Put]) -> Written:
        """Try each put once. A call has up to 25 puts of one table, because a missing table refuses the whole batch."""
        total = Written()
        for outcome in self._pool.map(self._write_batch, _batches(puts)):
            total.add(outcome)
        return total

    def _write_batch(self, puts: list[Put]) -> Written:
        table = puts[0].table
        requests: list[Any] = [{"PutRequest": {"Item": to_wire(put.item)}} for put in puts]
        try:
            answer = self._client.batch_write_item(RequestItems={table: requests}, ReturnConsumedCapacity="TOTAL")
        except ClientError as error:
            code = read_error_code(error)
            if code == NOT_FOUND:
                return Written(unwritten=puts, missing_tables={table})
            # Puts that are refused for another reason are not written either; the caller queues them.
            return Written(unwritten=puts, throttles=Counter({table: len(puts)} if code in THROTTLED else {}))
        except BotoCoreError:
            # There was no answer: the puts may be written or not. To write a put again is harmless, as its key is
            # calculated.
            return Written(unwritten=puts)
        left = {
            (request["PutRequest"]["Item"]["pk"]["S"], request["PutRequest"]["Item"].get("sk", {}).get("S", ""))
            for request in answer.get("UnprocessedItems", {}).get(table, [])
        }
        unwritten = [put for put in puts if put.key in left]
        units = sum(capacity.get("CapacityUnits", 0.0) for capacity in answer.get("ConsumedCapacity", []))
        return Written(unwritten=unwritten, units=units, throttles=Counter(put.table for put in unwritten))

    def write_each(self, puts: Sequence[Put], guard: Guard) -> Written:
        """Write each put by its own PutItem."""
        total = Written()
        for outcome in self._pool.map(lambda put: self._write_one(put, guard), puts):
            total.add(outcome)
        return total

    def _write_one(self, put: Put, guard: Guard) -> Written:
        try:
            answer = self._client.put_item(
                TableName=put.table,
                Item=to_wire(put.item),
                ReturnConsumedCapacity="TOTAL",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **_guarded(Guarded(put, guard)),
            )
        except ClientError as error:
            code = read_error_code(error)
            if code == CONDITION_FAILED:
                shown: Any = error.response.get("Item")
                held = from_wire(shown) if shown else self.get_many(put.table, [put.key]).get(put.key, {})
                return Written(conflicts=[(put, held)])
            missing = {put.table} if code == NOT_FOUND else set()
            return Written(
                unwritten=[put], throttles=Counter({put.table} if code in THROTTLED else ()), missing_tables=missing
            )
        except BotoCoreError:
            return Written(unwritten=[put])
        return Written(units=answer.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0))

    def transact(self, puts: Sequence[Guarded], entry: Entry | None = None, total: Written | None = None) -> Transacted:
        """Write all puts in one TransactWriteItems. The archive changes the entry's state either before or after it."""
        actions: list[Any] = [
            {"Put": {"TableName": put.put.table, "Item": to_wire(put.put.item), **_guarded(put)}} for put in puts
        ]
        if entry is not None:
            actions.append(self._fence(entry, puts))
        table = puts[0].put.table
        try:
            with name_missing_table(table):
                answer = self._client.transact_write_items(TransactItems=actions, ReturnConsumedCapacity="TOTAL")
        except ClientError as error:
            reasons: Any = error.response.get("CancellationReasons", [])
            codes = [reason.get("Code") for reason in reasons]
            failed = CONDITION_FAILED.removesuffix("Exception")
            if read_error_code(error) != TRANSACTION_CANCELED or failed not in codes:
                raise StoreUnavailable(
                    find_outage(read_error_code(error)), str(error), read_error_code(error)
                ) from error
            fenced = entry is not None and codes[-1] == failed
            return Transacted.FENCED if fenced else Transacted.CONFLICT
        except BotoCoreError as error:
            raise StoreUnavailable(Outage.NO_ANSWER, str(error)) from error
        if total is not None:
            total.units += sum(consumed.get("CapacityUnits", 0.0) for consumed in answer.get("ConsumedCapacity", ()))
        return Transacted.DONE

    def _fence(self, entry: Entry, puts: Sequence[Guarded]) -> dict[str, Any]:
        of_entry = {
            "TableName": self._catalog_table,
            "Key": to_wire(make_period_key(entry.stream, entry.period)),
        }
        if entry.state is State.RETAINED:
            assert entry.segments is not None
            numbers = entry.segments.find_changed((put.item for put, _ in puts), entry.layout, entry.period)
            return {
                "Update": {
                    **of_entry,
                    "UpdateExpression": "ADD marked :marked, marks :one",
                    "ConditionExpression": "#state = :state AND #segments.#count = :count AND #segments.slices = :slices",
                    "ExpressionAttributeNames": {"#state": "state", "#segments": "segments", "#count": "count"},
                    "ExpressionAttributeValues": {
                        ":state": {"S": "retained"},
                        ":count": {"N": str(entry.segments.count)},
                        ":slices": {"N": str(entry.segments.slices)},
                        ":marked": {"SS": list(map(str, numbers))},
                        ":one": {"N": "1"},
                    },
                }
            }
        states = {f":s{index}": {"S": state} for index, state in enumerate(("closed", "creating", "open"))}
        return {
            "ConditionCheck": {
                **of_entry,
                "ConditionExpression": f"#state IN ({', '.join(states)})",
                "ExpressionAttributeNames": {"#state": "state"},
                "ExpressionAttributeValues": states,
            }
        }

    def _query(self, read: RangeRead, **options: Any) -> Page:
        keys = read.keys
        with name_missing_table(keys.table):
            answer: Any = self._client.query(**make_query(read, **options))
        items = [from_wire(item) for item in answer["Items"]]
        if keys.index is not None and keys.after is not None:
            items = [item for item in items if item[keys.index.sk] != keys.after]
        last = find_last_key(answer.get("LastEvaluatedKey"))
        units = answer.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0)
        return Page(ItemColumns.of(items), last is not None, units, last, answer.get("ScannedCount", 0))

    def query_many(
        self,
        reads: Sequence[RangeRead],
        *,
        ascending: bool,
        consistent: bool = False,
        texts: bool = False,
        fields: Sequence[str] = (),
    ) -> Sequence[Page | None]:
        """Read each range by its own Query."""

        def ask(keys: RangeRead) -> Page | None:
            try:
                return self._query(keys, ascending=ascending, consistent=consistent, fields=fields)
            except TableMissing:
                return None

        return list(self._pool.map(ask, reads))

    def query_fields(
        self, reads: Sequence[RangeRead], fields: Sequence[str], *, consistent: bool = False
    ) -> Sequence[FieldPage | None]:
        """Read each range by its own Query, and make columns of its items."""
        projected = () if KINDS in fields else fields
        pages = self.query_many(reads, ascending=True, consistent=consistent, fields=projected)
        return [None if page is None else make_field_page(page, fields) for page in pages]

    def scan_partitions(self, table: str) -> Iterator[tuple[Sequence[str], float]]:
        """Scan the whole table."""
        with name_missing_table(table):
            for page in self._client.get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
                yield [cast("Any", item)["pk"]["S"] for item in page["Items"]], 1.0

    def get(self, table: str, key: Key) -> Item | None:
        """Read an item by GetItem."""
        with name_missing_table(table):
            answer = self._client.get_item(TableName=table, Key={"pk": {"S": key.pk}, "sk": {"S": key.sk}})
        return from_wire(answer["Item"]) if "Item" in answer else None

    def get_many(self, table: str, keys: Sequence[Key], *, consistent: bool = True) -> Mapping[Key, Item]:
        """Read items by BatchGetItem, 100 keys at a time."""
        # AWS refuses a batch that has a key twice.
        names = [{"pk": {"S": key.pk}, "sk": {"S": key.sk}} for key in dict.fromkeys(keys)]
        items = [from_wire(found) for found in self._get_all(table, names, _GET, consistent=consistent)]
        return {Key(item["pk"], item["sk"]): item for item in items}

    def get_chunks(self, table: str, keys: Sequence[str]) -> Mapping[str, bytes]:
        """Read chunks by BatchGetItem. A call has so few keys that the answer stays below 16 MB."""
        chunks = self._get_all(table, [{"pk": {"S": key}} for key in dict.fromkeys(keys)], _GET_PARTS)
        return {item["pk"]["S"]: bytes(item["b"]["B"]) for item in chunks}

    def _get_all(self, table: str, keys: list[Any], most: int, *, consistent: bool = True) -> Iterator[Any]:
        for at in range(0, len(keys), most):
            wanted: Any = {table: {"Keys": keys[at : at + most], "ConsistentRead": consistent}}
            while wanted:
                with name_missing_table(table):
                    answer = self._client.batch_get_item(RequestItems=wanted)
                yield from answer["Responses"].get(table, [])
                wanted = answer.get("UnprocessedKeys")


def _guarded(put: Guarded) -> Any:
    members = make_condition(put)
    if "ExpressionAttributeValues" in members:
        members["ExpressionAttributeValues"] = to_wire(members["ExpressionAttributeValues"])
    return members


def _batches(puts: Sequence[Put]) -> Iterator[list[Put]]:
    by_table: defaultdict[str, list[Put]] = defaultdict(list)
    for put in puts:
        by_table[put.table].append(put)
    for queue in by_table.values():
        for start in range(0, len(queue), _BATCH):
            yield queue[start : start + _BATCH]
