"""The catalog for requests that write and read events, over the lean client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, cast

import msgspec

from aws.catalog_items import (
    SECRET_KEY,
    bound_entries,
    bound_entries_before,
    make_stream_key,
    read_backfill,
    read_entry,
    read_secret,
)
from aws.lean.answers import ITEMS, ItemsAnswer
from aws.lean.client import LeanClient, Request
from aws.lean.reads import decode_answer, read_all
from aws.wire import decode_item
from tidetable.catalog import Backfill, Entry
from tidetable.events import Item


class LeanCatalog:
    """The catalog for functions that only read it."""

    def __init__(self, client: LeanClient, table: str) -> None:
        self._client = client
        self._table = table

    def entries(
        self, stream: str, start: datetime | None = None, end: datetime | None = None, *, consistent: bool = False
    ) -> Sequence[Entry]:
        """Send two Queries at the same time: for the periods that begin in the range, and for the last period before
        the range.
        """
        first, low, high = bound_entries(start, end)
        key = make_stream_key(stream)
        if start is None:
            return [read_entry(item) for item in self._query(self._make_body(key, first, high, consistent=consistent))]
        last_before = self._make_body(key, first, low, consistent=consistent) | {"ScanIndexForward": False, "Limit": 1}
        within = self._make_body(key, low, high, consistent=consistent)
        replies = read_all(self._client, [_request(last_before), _request(within)])
        last, page = [cast("ItemsAnswer", decode_answer(reply, self._table)) for reply in replies]
        items = [*map(decode_item, last.Items), *self._read_items(within, page)]
        return [entry for entry in map(read_entry, items) if start < entry.period.end]

    def entries_before(self, stream: str, end: datetime | None, limit: int) -> Sequence[Entry]:
        """Send a Query, from the newest entry on."""
        body = self._make_body(make_stream_key(stream), "0", bound_entries_before(end), consistent=False)
        items = self._query(body | {"ScanIndexForward": False, "Limit": limit})
        return [read_entry(item) for item in islice(items, limit)]

    def backfills(self, stream: str) -> Sequence[Backfill]:
        """Send a consistent Query: a new backfill must hold from the next event on."""
        return [
            read_backfill(item)
            for item in self._query(self._make_body(f"backfill#{stream}", "0", "~", consistent=True))
        ]

    def secret(self) -> bytes:
        """Send a Query, because the functions that read events have no right to GetItem in the catalog."""
        return read_secret(self._query(self._make_body(SECRET_KEY["pk"], "0", "~", consistent=True)))

    def _make_body(self, pk: str, low: str, high: str, *, consistent: bool) -> dict[str, Any]:
        return {
            "TableName": self._table,
            "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
            "ExpressionAttributeValues": {":pk": {"S": pk}, ":low": {"S": low}, ":high": {"S": high}},
            "ConsistentRead": consistent,
        }

    def _query(self, body: dict[str, Any]) -> Iterator[Item]:
        """Read the items in order of their sort keys."""
        return self._read_items(body, self._fetch_page(body))

    def _read_items(self, body: dict[str, Any], page: ItemsAnswer) -> Iterator[Item]:
        """Read the items of a page and of all pages that follow it."""
        yield from map(decode_item, page.Items)
        while page.LastEvaluatedKey is not None:
            page = self._fetch_page(body | {"ExclusiveStartKey": page.LastEvaluatedKey})
            yield from map(decode_item, page.Items)

    def _fetch_page(self, body: dict[str, Any]) -> ItemsAnswer:
        (reply,) = read_all(self._client, [_request(body)])
        return cast("ItemsAnswer", decode_answer(reply, self._table))


def _request(body: dict[str, Any]) -> Request:
    return Request("Query", msgspec.json.encode(body), ITEMS)
