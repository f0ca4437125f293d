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
from aws.lean.reads import decode_answer, make_range_body, read_all, read_pages
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
        pages = last, page, *read_pages(self._client, within, ITEMS, page)
        entries = (read_entry(decode_item(item)) for page in pages for item in page.Items)
        return [entry for entry in entries if start < entry.period.end]

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
        return make_range_body(self._table, pk, low, high, consistent=consistent)

    def _query(self, body: dict[str, Any]) -> Iterator[Item]:
        """Read the items in the order of their sort keys."""
        return (decode_item(item) for page in read_pages(self._client, body, ITEMS) for item in page.Items)


def _request(body: dict[str, Any]) -> Request:
    return Request("Query", msgspec.json.encode(body), ITEMS)
