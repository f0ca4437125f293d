"""Callers' keys as the authorizer reads them, over the lean client."""

from __future__ import annotations

from typing import Any

import msgspec

from aws.key_items import PARTITION, read_record
from aws.lean.answers import GET_ANSWER
from aws.lean.client import LeanClient, Request
from aws.lean.reads import decode_answer, read_all
from aws.wire import decode_item
from tidetable.credentials import KeyRecord


class LeanKeys:
    """The keys of a stage, for the authorizer, which only reads them."""

    def __init__(self, client: LeanClient, table: str) -> None:
        self._client = client
        self._table = table

    def find(self, id: str) -> KeyRecord | None:
        """Send a consistent GetItem. An eventually consistent read would save half a read unit, but a revoked key could
        work for longer than the documentation says.
        """
        body: dict[str, Any] = {
            "TableName": self._table,
            "Key": {"pk": {"S": PARTITION}, "sk": {"S": id}},
            "ConsistentRead": True,
        }
        (reply,) = read_all(self._client, [Request("GetItem", msgspec.json.encode(body), GET_ANSWER)])
        item = decode_answer(reply, self._table).Item
        return None if item is None else read_record(decode_item(item))
