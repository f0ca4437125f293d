"""The event store on DynamoDB's data plane."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from aws.catalog import catalog_key
from aws.clients import CONCURRENCY
from aws.codec import from_wire, to_wire
from aws.codes import CONDITION_FAILED, NOT_FOUND, THROTTLED, TRANSACTION_CANCELED
from aws.errors import error_code, naming_table
from tidetable.catalog import WRITABLE, Entry
from tidetable.events import Item
from tidetable.keys import Index, Key
from tidetable.ports import KeyRange, Page, Put, Written

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# AWS: BatchWriteItem takes 25 puts.
_BATCH = 25


class DynamoStore:
    """Period tables through boto3's low-level client."""

    def __init__(self, client: DynamoDBClient, catalog_table: str) -> None:
        self._client = client
        self._catalog_table = catalog_table
        self._pool = ThreadPoolExecutor(CONCURRENCY)

    def write(self, puts: Sequence[Put]) -> Written:
        """Try each put once, 25 to a call and one table to a call: a missing table refuses its whole batch, not others'."""
        total = Written()
        for one in self._pool.map(self._write_batch, _batches(puts)):
            total.unwritten += one.unwritten
            total.units += one.units
            total.throttled += one.throttled
            total.missing_tables |= one.missing_tables
        return total

    def _write_batch(self, puts: list[Put]) -> Written:
        table = puts[0].table
        requests: list[Any] = [{"PutRequest": {"Item": to_wire(put.item)}} for put in puts]
        try:
            answer = self._client.batch_write_item(RequestItems={table: requests}, ReturnConsumedCapacity="TOTAL")
        except ClientError as error:
            code = error_code(error)
            if code == NOT_FOUND:
                return Written(unwritten=puts, missing_tables={table})
            # Whatever else was refused is not written either; the caller keeps it safe.
            return Written(unwritten=puts, throttled=len(puts) if code in THROTTLED else 0)
        except BotoCoreError:
            # No answer: it may be written or not. Writing it again is harmless, as the key is calculated.
            return Written(unwritten=puts)
        left = {
            (request["PutRequest"]["Item"]["pk"]["S"], request["PutRequest"]["Item"]["sk"]["S"])
            for request in answer.get("UnprocessedItems", {}).get(table, [])
        }
        unwritten = [put for put in puts if put.key in left]
        units = sum(one.get("CapacityUnits", 0.0) for one in answer.get("ConsumedCapacity", []))
        return Written(unwritten=unwritten, units=units, throttled=len(unwritten))

    def write_fenced(self, put: Put, entry: Entry) -> bool:
        """Put and check the catalog in one transaction, which the archive's change of state can only precede or follow."""
        states = {f":s{index}": {"S": state.value} for index, state in enumerate(sorted(WRITABLE))}
        try:
            with naming_table(put.table):
                self._client.transact_write_items(
                    TransactItems=[
                        {
                            "ConditionCheck": {
                                "TableName": self._catalog_table,
                                "Key": catalog_key(entry.stream, entry.period),
                                "ConditionExpression": f"#state IN ({', '.join(states)})",
                                "ExpressionAttributeNames": {"#state": "state"},
                                "ExpressionAttributeValues": states,
                            }
                        },
                        {"Put": {"TableName": put.table, "Item": to_wire(put.item)}},
                    ]
                )
        except ClientError as error:
            if error_code(error) != TRANSACTION_CANCELED:
                raise
            reasons: Any = error.response.get("CancellationReasons", [])
            if reasons and reasons[0].get("Code") == CONDITION_FAILED.removesuffix("Exception"):
                return False
            raise
        return True

    def query(self, keys: KeyRange, *, limit: int, ascending: bool, consistent: bool = False) -> Page:
        """One Query call; its page may end before ``limit`` at DynamoDB's 1 MB."""
        if keys.index is not None:
            return self._query_index(keys, keys.index, limit=limit, ascending=ascending)
        more: dict[str, Any] = {}
        if keys.after is not None:
            more["ExclusiveStartKey"] = {"pk": {"S": keys.pk}, "sk": {"S": keys.after}}
        with naming_table(keys.table):
            answer = self._client.query(
                TableName=keys.table,
                KeyConditionExpression="pk = :pk AND sk BETWEEN :low AND :high",
                ExpressionAttributeValues={":pk": {"S": keys.pk}, ":low": {"S": keys.low}, ":high": {"S": keys.high}},
                Limit=limit,
                ScanIndexForward=ascending,
                ConsistentRead=consistent,
                ReturnConsumedCapacity="TOTAL",
                **more,
            )
        return _page(answer)

    def _query_index(self, keys: KeyRange, index: Index, *, limit: int, ascending: bool) -> Page:
        """One Query call of an index.

        It begins at ``after`` and leaves that item out, as to begin behind it would take the table's key as well.
        """
        low, high = keys.low, keys.high
        if keys.after is not None:
            low, high = (keys.after, high) if ascending else (low, keys.after)
        with naming_table(keys.table):
            answer = self._client.query(
                TableName=keys.table,
                IndexName=index.name,
                KeyConditionExpression="#pk = :pk AND #sk BETWEEN :low AND :high",
                ExpressionAttributeNames={"#pk": index.pk, "#sk": index.sk},
                ExpressionAttributeValues={":pk": {"S": keys.pk}, ":low": {"S": low}, ":high": {"S": high}},
                Limit=limit + (keys.after is not None),
                ScanIndexForward=ascending,
                ReturnConsumedCapacity="TOTAL",
            )
        page = _page(answer)
        return replace(page, items=[item for item in page.items if item[index.sk] != keys.after])

    def get(self, table: str, key: Key) -> Item | None:
        """One GetItem."""
        with naming_table(table):
            answer = self._client.get_item(TableName=table, Key={"pk": {"S": key.pk}, "sk": {"S": key.sk}})
        return from_wire(answer["Item"]) if "Item" in answer else None


def _page(answer: Any) -> Page:
    return Page(
        items=[from_wire(item) for item in answer["Items"]],
        more="LastEvaluatedKey" in answer,
        units=answer.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0),
    )


def _batches(puts: Sequence[Put]) -> Iterator[list[Put]]:
    by_table: defaultdict[str, list[Put]] = defaultdict(list)
    for put in puts:
        by_table[put.table].append(put)
    for queue in by_table.values():
        for start in range(0, len(queue), _BATCH):
            yield queue[start : start + _BATCH]
