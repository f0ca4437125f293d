"""The catalog for requests that write and read events, over the lean client."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import msgspec

from aws.dynamodb.answers import ITEMS
from aws.dynamodb.catalog_items import (
    SECRET_KEY,
    bound_entries,
    bound_entries_before,
    make_stream_key,
    read_backfill,
    read_entry,
    read_secret,
)
from aws.dynamodb.reads import decode_answer, make_range_body, read_all, read_pages
from aws.dynamodb.wire import decode_item
from aws.http.client import LeanClient, ServiceRequest
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
        """Send two Queries at once: for periods that begin in the range, and for the last period before it."""
        first, low, high = bound_entries(start, end)
        key = make_stream_key(stream)
        if start is None:
            return [read_entry(item) for item in self._query(key, first, high, consistent=consistent)]
        before = make_range_body(self._table, key, first, low, consistent=consistent)
        within = make_range_body(self._table, key, low, high, consistent=consistent)
        requests = [
            ServiceRequest("Query", msgspec.json.encode(body), ITEMS)
            for body in (before | {"ScanIndexForward": False, "Limit": 1}, within)
        ]
        last, page = [decode_answer(reply, self._table) for reply in read_all(self._client, requests)]
        pages = last, page, *read_pages(self._client, within, ITEMS, page)
        entries = (read_entry(decode_item(item)) for page in pages for item in page.Items)
        return [entry for entry in entries if start < entry.period.end]

    def entries_before(self, stream: str, end: datetime | None, limit: int) -> Sequence[Entry]:
        """Send a Query, from the newest entry on."""
        options = {"ScanIndexForward": False, "Limit": limit}
        items = self._query(make_stream_key(stream), "0", bound_entries_before(end), consistent=False, **options)
        return [read_entry(item) for item in islice(items, limit)]

    def backfills(self, stream: str) -> Sequence[Backfill]:
        """Send a consistent Query: a new backfill must hold from the next event on."""
        return [read_backfill(item) for item in self._query(f"backfill#{stream}", "0", "~", consistent=True)]

    def secret(self) -> bytes:
        """Send a Query, because the functions that read events have no right to GetItem in the catalog."""
        return read_secret(self._query(SECRET_KEY["pk"], "0", "~", consistent=True))

    def _query(self, pk: str, low: str, high: str, *, consistent: bool, **options: Any) -> Iterator[Item]:
        """Read the items of a partition in the order of their sort keys."""
        body = make_range_body(self._table, pk, low, high, consistent=consistent) | options
        return (decode_item(item) for page in read_pages(self._client, body, ITEMS) for item in page.Items)
