"""Callers' keys in the catalog's table, as the command line and a deployment change them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from aws.codec import to_wire
from aws.errors import write_if
from aws.key_items import PARTITION, make_record_item, make_record_key, read_record
from aws.wire import decode_item
from tidetable.credentials import KeyRecord
from tidetable.times import to_text

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class DynamoKeys:
    """The keys of a stage."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def all(self) -> Sequence[KeyRecord]:
        """Read all keys by a consistent Query, in order of their ids."""
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues=to_wire({":pk": PARTITION}),
            ConsistentRead=True,
        )
        return [read_record(decode_item(item)) for page in pages for item in page["Items"]]

    def find(self, id: str) -> KeyRecord | None:
        """Read the key by a consistent GetItem."""
        answer = self._client.get_item(TableName=self._table, Key=to_wire(make_record_key(id)), ConsistentRead=True)
        return read_record(decode_item(answer["Item"])) if "Item" in answer else None

    def add(self, record: KeyRecord) -> bool:
        """Put the key; False if a key with this id exists already."""
        return self._write(self._client.put_item, "attribute_not_exists(pk)", Item=to_wire(make_record_item(record)))

    def rotate(self, record: KeyRecord, before: KeyRecord) -> bool:
        """Put the key; False if it was rotated or revoked since ``before`` was read, or is gone."""
        condition = "attribute_exists(pk) AND attribute_not_exists(revoked) AND "
        if before.rotated is None:
            return self._write(
                self._client.put_item,
                condition + "attribute_not_exists(rotated)",
                Item=to_wire(make_record_item(record)),
            )
        return self._write(
            self._client.put_item,
            condition + "rotated = :before",
            Item=to_wire(make_record_item(record)),
            ExpressionAttributeValues=to_wire({":before": to_text(before.rotated)}),
        )

    def revoke(self, id: str, now: datetime) -> bool:
        """Record the time of revocation, but keep an earlier time; False if there is no such key."""
        return self._write(
            self._client.update_item,
            "attribute_exists(pk)",
            Key=to_wire(make_record_key(id)),
            UpdateExpression="SET revoked = if_not_exists(revoked, :now)",
            ExpressionAttributeValues=to_wire({":now": to_text(now)}),
        )

    def forget(self, id: str) -> bool:
        """Delete the key; False if the key was revoked, because a revoked key must stay known."""
        return self._write(self._client.delete_item, "attribute_not_exists(revoked)", Key=to_wire(make_record_key(id)))

    def _write(self, write: Callable[..., Any], condition: str, **members: Any) -> bool:
        return write_if(condition, write, TableName=self._table, **members)
