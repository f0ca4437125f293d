"""The catalog as writes and reads use it, over the lean client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, cast

import msgspec

from aws.catalog_items import SECRET_KEY, backfill_of, before, entry_of, ranges, secret_of, stream_key
from aws.lean.answers import ITEMS, ItemsAnswer
from aws.lean.client import LeanClient, Request
from aws.lean.reads import answered, read_all
from aws.wire import item_of
from tidetable.catalog import Backfill, Entry
from tidetable.events import Item


class LeanCatalog:
    """The catalog, to be read."""

    def __init__(self, client: LeanClient, table: str) -> None:
        self._client = client
        self._table = table

    def entries(
        self, stream: str, start: datetime | None = None, end: datetime | None = None, *, consistent: bool = False
    ) -> Sequence[Entry]:
        """Two Queries at the same time: the periods that begin in the range, and the last that began before it."""
        first, low, high = ranges(start, end)
        key = stream_key(stream)
        if start is None:
            return [entry_of(item) for item in self._query(self._body(key, first, high, consistent=consistent))]
        last_before = self._body(key, first, low, consistent=consistent) | {"ScanIndexForward": False, "Limit": 1}
        within = self._body(key, low, high, consistent=consistent)
        replies = read_all(self._client, [_request(last_before), _request(within)])
        last, page = [cast("ItemsAnswer", answered(reply, self._table)) for reply in replies]
        items = [*map(item_of, last.Items), *self._items(within, page)]
        return [entry for entry in map(entry_of, items) if start < entry.period.end]

    def entries_before(self, stream: str, end: datetime | None, limit: int) -> Sequence[Entry]:
        """A Query from the newest on."""
        body = self._body(stream_key(stream), "0", before(end), consistent=False)
        items = self._query(body | {"ScanIndexForward": False, "Limit": limit})
        return [entry_of(item) for item in islice(items, limit)]

    def backfills(self, stream: str) -> Sequence[Backfill]:
        """A Query, consistent: what was requested holds from the next event on."""
        return [backfill_of(item) for item in self._query(self._body(f"backfill#{stream}", "0", "~", consistent=True))]

    def secret(self) -> bytes:
        """A Query, as that is what readers may ask of the catalog."""
        return secret_of(self._query(self._body(SECRET_KEY["pk"], "0", "~", consistent=True)))

    def _body(self, pk: str, low: str, high: str, *, consistent: bool) -> dict[str, Any]:
        return {
            "TableName": self._table,
            "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
            "ExpressionAttributeValues": {":pk": {"S": pk}, ":low": {"S": low}, ":high": {"S": high}},
            "ConsistentRead": consistent,
        }

    def _query(self, body: dict[str, Any]) -> Iterator[Item]:
        """Items by their sort keys in order."""
        return self._items(body, self._page(body))

    def _items(self, body: dict[str, Any], page: ItemsAnswer) -> Iterator[Item]:
        """The items of a page, and of those that follow it."""
        yield from map(item_of, page.Items)
        while page.LastEvaluatedKey is not None:
            page = self._page(body | {"ExclusiveStartKey": page.LastEvaluatedKey})
            yield from map(item_of, page.Items)

    def _page(self, body: dict[str, Any]) -> ItemsAnswer:
        (reply,) = read_all(self._client, [_request(body)])
        return cast("ItemsAnswer", answered(reply, self._table))


def _request(body: dict[str, Any]) -> Request:
    return Request("Query", msgspec.json.encode(body), ITEMS)
