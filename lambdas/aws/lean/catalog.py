"""What writes and reads need of the catalog, over the lean client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from aws.catalog_items import SECRET_KEY, backfill_of, before, entry_of, ranges, secret_of, stream_key
from aws.lean.client import LeanClient
from aws.lean.reads import read
from aws.wire import item_of
from tidetable.catalog import Backfill, Entry
from tidetable.events import Item


class _Found(msgspec.Struct):
    Items: list[dict[str, dict[str, Any]]]
    LastEvaluatedKey: dict[str, Any] | None = None


_DECODE = msgspec.json.Decoder(_Found).decode


class LeanCatalog:
    """The catalog, to be read."""

    def __init__(self, client: LeanClient, table: str) -> None:
        self._client = client
        self._table = table

    def entries(
        self, stream: str, start: datetime | None = None, end: datetime | None = None, *, consistent: bool = False
    ) -> Sequence[Entry]:
        """A Query for those that begin in the range, and one for the last that began before it."""
        first, low, high = ranges(start, end)
        key = stream_key(stream)
        if start is None:
            return [entry_of(item) for item in self._query(key, first, high, consistent=consistent)]
        found = [
            *islice(self._query(key, first, low, consistent=consistent, newest=1), 1),
            *self._query(key, low, high, consistent=consistent),
        ]
        return [entry for entry in map(entry_of, found) if start < entry.period.end]

    def entries_before(self, stream: str, end: datetime | None, limit: int) -> Sequence[Entry]:
        """A Query from the newest on."""
        found = self._query(stream_key(stream), "0", before(end), consistent=False, newest=limit)
        return [entry_of(item) for item in islice(found, limit)]

    def backfills(self, stream: str) -> Sequence[Backfill]:
        """A Query, consistent: what was requested holds from the next event on."""
        return [backfill_of(item) for item in self._query(f"backfill#{stream}", "0", "~", consistent=True)]

    def secret(self) -> bytes:
        """A Query, as that is what readers may ask of the catalog."""
        return secret_of(self._query(SECRET_KEY["pk"], "0", "~", consistent=True))

    def _query(self, pk: str, low: str, high: str, *, consistent: bool, newest: int = 0) -> Iterator[Item]:
        """Items by their sort keys in order, or the last first, ``newest`` per request."""
        body: dict[str, Any] = {
            "TableName": self._table,
            "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
            "ExpressionAttributeValues": {":pk": {"S": pk}, ":low": {"S": low}, ":high": {"S": high}},
            "ConsistentRead": consistent,
            **({"ScanIndexForward": False, "Limit": newest} if newest else {}),
        }
        while True:
            found = _DECODE(read(self._client, "Query", body, self._table))
            yield from map(item_of, found.Items)
            if found.LastEvaluatedKey is None:
                return
            body["ExclusiveStartKey"] = found.LastEvaluatedKey
