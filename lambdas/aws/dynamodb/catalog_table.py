"""The catalog's table through boto3's low-level client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from aws.dynamodb.codec import to_wire
from aws.dynamodb.wire import decode_item
from aws.errors import write_if
from tidetable.events import Item

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# A condition of puts: there is no such item yet.
NEW = "attribute_not_exists(pk)"


class CatalogTable:
    """Reads and writes of the catalog's items, as the adapters of its records need them."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def _query(self, condition: str, values: Item, **options: Any) -> Iterator[Item]:
        """Yield the items whose keys meet a condition. One request reads one page."""
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression=condition,
            ExpressionAttributeValues=to_wire(values),
            **options,
        )
        return (decode_item(item) for page in pages for item in page["Items"])

    def _read_partition(self, pk: str) -> Iterator[Item]:
        """Yield the items of a partition, strongly consistent."""
        return self._query("pk = :pk", {":pk": pk}, ConsistentRead=True)

    def _get(self, key: Item) -> Item | None:
        """Read an item, strongly consistent; None if there is no such item."""
        answer = self._client.get_item(TableName=self._table, Key=to_wire(key), ConsistentRead=True)
        return decode_item(answer["Item"]) if "Item" in answer else None

    def _put(self, item: Item) -> None:
        self._client.put_item(TableName=self._table, Item=to_wire(item))

    def _put_if(self, condition: str, item: Item, **members: Any) -> bool:
        return self._write(self._client.put_item, condition, Item=to_wire(item), **members)

    def _delete(self, key: Item) -> None:
        self._client.delete_item(TableName=self._table, Key=to_wire(key))

    def _write(self, write: Callable[..., Any], condition: str, **members: Any) -> bool:
        """Send a write with a condition; False if the condition does not hold."""
        return write_if(condition, write, TableName=self._table, **members)
