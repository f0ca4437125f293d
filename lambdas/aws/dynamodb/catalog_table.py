"""Reads and changes of single items of the catalog's table, for every adapter that keeps records there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from aws.dynamodb.answers import ITEMS
from aws.dynamodb.reads import ROUNDS, is_made, make_range_body, read_all, read_item, read_pages
from aws.dynamodb.wire import decode_item, encode_item
from aws.http.client import LeanClient, ServiceRequest
from tidetable.events import Item
from tidetable.layout import Key

# A condition of puts: there is no such item yet.
NEW = "attribute_not_exists(pk)"
# The members of a change that hold attribute values.
_VALUES = frozenset({"Item", "Key", "ExpressionAttributeValues"})


class _Updated(msgspec.Struct):
    Attributes: dict[str, dict[str, Any]]


_UPDATED = msgspec.json.Decoder(_Updated).decode


class CatalogTable:
    """Reads and changes of the catalog's items. Requests whose failure may pass are sent again.

    If a change with a condition gets no answer, nobody knows whether it was made. If it was, the second request is
    refused, and the change counts as not made.
    """

    def __init__(self, client: LeanClient, table: str) -> None:
        self._client = client
        self._table = table

    def _query(self, pk: str, low: str, high: str, *, consistent: bool, **options: Any) -> Iterator[Item]:
        """Read the items of a partition in the order of their sort keys. One request reads one page."""
        body = make_range_body(self._table, pk, low, high, consistent=consistent) | options
        return (decode_item(item) for page in read_pages(self._client, body, ITEMS) for item in page.Items)

    def _read_partition(self, pk: str) -> Iterator[Item]:
        """Read the items of a partition, strongly consistent. Their sort keys begin with a digit or a letter."""
        return self._query(pk, "0", "~", consistent=True)

    def _get(self, key: Item) -> Item | None:
        """Read an item, strongly consistent; None if there is no such item."""
        return read_item(self._client, self._table, Key(key["pk"], key["sk"]), ConsistentRead=True)

    def _put(self, item: Item) -> None:
        self._change("PutItem", Item=item)

    def _put_if(self, condition: str, item: Item, **members: Any) -> bool:
        return self._change("PutItem", ConditionExpression=condition, Item=item, **members)

    def _delete(self, key: Item) -> None:
        self._change("DeleteItem", Key=key)

    def _change(self, operation: str, **members: Any) -> bool:
        """Send a change, with values of Python in its members; False if its condition does not hold."""
        return self._send_change(operation, self._encode_members(members))

    def _change_item(self, **members: Any) -> Item | None:
        """Send an UpdateItem; return the new item, or None if its condition does not hold."""
        body = self._encode_members(members) | {"ReturnValues": "ALL_NEW"}
        (reply,) = read_all(self._client, [ServiceRequest("UpdateItem", msgspec.json.encode(body), _UPDATED)], ROUNDS)
        return decode_item(reply.Attributes) if is_made(reply, self._table) else None

    def _transact(self, *actions: tuple[str, Item]) -> bool:
        """Send changes that are made together; False if a condition does not hold. Conflicts are sent again."""
        changes = [{action: self._encode_members(members)} for action, members in actions]
        return self._send_change("TransactWriteItems", {"TransactItems": changes})

    def _encode_members(self, members: Item) -> Item:
        return {"TableName": self._table} | {
            name: msgspec.Raw(encode_item(value).encode()) if name in _VALUES else value
            for name, value in members.items()
        }

    def _send_change(self, operation: str, body: Item) -> bool:
        (reply,) = read_all(self._client, [ServiceRequest(operation, msgspec.json.encode(body))], ROUNDS)
        return is_made(reply, self._table)
