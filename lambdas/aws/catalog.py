"""The catalog in a DynamoDB table of its own: one item per period, one per lease, and one horizon per stream.

``pk = stream#<stream>, sk = <start of period>#<label>``: one Query answers which periods overlap a range. An
entry stays after its table is deleted, because it leads to the archive. All tables before the horizon are deleted, so
that the lifecycle need not read their entries.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from aws import catalog_items
from aws.codec import to_wire
from aws.errors import write_if
from aws.wire import decode_item
from tidetable.catalog import ArchiveFacts, Backfill, Entry, Opened, RecordedPolicy, Seen, State
from tidetable.errors import StaleEntry
from tidetable.events import Item
from tidetable.times import from_text, to_text

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


# A condition of puts: there is no such item yet.
_NEW = "attribute_not_exists(pk)"


class DynamoCatalog:
    """The catalog through boto3's low-level client."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def entries(
        self, stream: str, start: datetime | None = None, end: datetime | None = None, *, consistent: bool = False
    ) -> Sequence[Entry]:
        """Send a Query for the periods that begin in the range, and a Query for the last period before the range:
        periods never overlap.
        """
        first, low, high = catalog_items.bound_entries(start, end)
        between, items = "pk = :pk AND sk BETWEEN :low AND :high", list[Item]()
        values = {":pk": catalog_items.make_stream_key(stream), ":low": first, ":high": high}
        if start is not None:
            newest: Any = {"ScanIndexForward": False, "Limit": 1}
            items += islice(self._query(between, values | {":high": low}, ConsistentRead=consistent, **newest), 1)
            values[":low"] = low
        items += self._query(between, values, ConsistentRead=consistent)
        return [entry for entry in map(catalog_items.read_entry, items) if start is None or start < entry.period.end]

    def entries_before(self, stream: str, end: datetime | None, limit: int) -> Sequence[Entry]:
        """Send an eventually consistent Query, from the newest entry on."""
        older = {":pk": catalog_items.make_stream_key(stream), ":end": catalog_items.bound_entries_before(end)}
        items = self._query("pk = :pk AND sk < :end", older, ScanIndexForward=False, Limit=limit)
        return list(map(catalog_items.read_entry, islice(items, limit)))

    def _query(self, condition: str, values: Item, **options: Any) -> Iterator[Item]:
        """Yield the items whose keys meet a condition. One request reads one page."""
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression=condition,
            ExpressionAttributeValues=to_wire(values),
            **options,
        )
        return (decode_item(item) for page in pages for item in page["Items"])

    def _get(self, key: Item) -> Item | None:
        """Send a consistent GetItem; None if there is no such item."""
        answer = self._client.get_item(TableName=self._table, Key=to_wire(key), ConsistentRead=True)
        return decode_item(answer["Item"]) if "Item" in answer else None

    def _put(self, item: Item) -> None:
        self._client.put_item(TableName=self._table, Item=to_wire(item))

    def _write(self, write: Callable[..., Any], condition: str, **members: Any) -> bool:
        return write_if(condition, write, TableName=self._table, **members)

    def add(self, entry: Entry) -> bool:
        """Send a conditional put: the first caller that records a period decides its layout."""
        item = to_wire(catalog_items.make_period_key(entry.stream, entry.period) | catalog_items.make_attributes(entry))
        return self._write(self._client.put_item, _NEW, Item=item)

    def move(
        self,
        entry: Entry,
        to: State,
        *,
        expected: Iterable[State],
        archive: ArchiveFacts | None = None,
        deleted_at: datetime | None = None,
        keep_until: datetime | None = None,
        opened: Opened | None = None,
    ) -> Entry:
        """Send a conditional update of only the state and the passed facts. Other callers may have changed the other
        attributes since the entry was read.
        """
        expected = sorted(expected)
        facts = {"archive": archive, "deleted_at": deleted_at, "keep_until": keep_until, "opened": opened}
        passed: dict[str, Any] = {name: fact for name, fact in facts.items() if fact is not None}
        moved = replace(entry, state=to, **passed)
        changes = {
            name: value
            for name, value in catalog_items.make_attributes(moved).items()
            if name == "state" or name in passed
        }
        states = {f":s{index}": state.value for index, state in enumerate(expected)}
        if not self._update(entry, changes, f"#state IN ({', '.join(states)})", states):
            raise StaleEntry(entry.stream, entry.period.label, expected)
        return moved

    def note(self, entry: Entry, seen: Seen) -> None:
        """Update the observed capacity and class."""
        self._set(entry, seen=catalog_items.make_seen_item(seen))

    def mark_scaled(self, entry: Entry, *, scaled: bool, policy: str = "") -> None:
        """Update both attributes, ``scaled`` and ``scaling``, in one request."""
        self._set(entry, scaled=scaled, scaling=policy)

    def mark_copies(self, entry: Entry, regions: Sequence[str]) -> None:
        """Update only the list of Regions."""
        self._set(entry, copies=list(regions))

    def mark_copying(self, entry: Entry, region: str, at: datetime) -> None:
        """Update only the mark of the copy that is being made."""
        self._set(entry, copying=[region, to_text(at)])

    def _set(self, entry: Entry, **changes: Any) -> None:
        """Send an update that never creates an entry."""
        if not self._update(entry, changes, "attribute_exists(pk)", {}):
            raise StaleEntry(entry.stream, entry.period.label, list(State))

    def _update(self, entry: Entry, changes: Item, condition: str, values: Item) -> bool:
        """Send an UpdateItem; False if its condition does not hold.

        The condition may name changed attributes as ``#name``.
        """
        return self._write(
            self._client.update_item,
            condition,
            Key=to_wire(catalog_items.make_period_key(entry.stream, entry.period)),
            UpdateExpression="SET " + ", ".join(f"#{name} = :{name}" for name in changes),
            ExpressionAttributeNames={f"#{name}": name for name in changes},
            ExpressionAttributeValues=to_wire({f":{name}": value for name, value in changes.items()} | values),
        )

    def backfills(self, stream: str) -> Sequence[Backfill]:
        """Send a consistent Query: a new backfill must hold from the next event on."""
        return list(
            map(
                catalog_items.read_backfill, self._query("pk = :pk", {":pk": f"backfill#{stream}"}, ConsistentRead=True)
            )
        )

    def put_backfill(self, backfill: Backfill) -> None:
        """Put the backfill by a PutItem."""
        self._put(
            catalog_items.make_backfill_key(backfill) | {"opened": catalog_items.make_opened_item(backfill.opened)}
        )

    def drop_backfill(self, backfill: Backfill) -> None:
        """Delete the backfill by a DeleteItem."""
        self._client.delete_item(TableName=self._table, Key=to_wire(catalog_items.make_backfill_key(backfill)))

    def secret(self) -> bytes:
        """Read the secret by a consistent GetItem."""
        item = self._get(catalog_items.SECRET_KEY)
        return catalog_items.read_secret([item] if item is not None else [])

    def ensure_secret(self) -> None:
        """Send a conditional put if the secret is missing: the first caller that creates the secret decides it."""
        if self._get(catalog_items.SECRET_KEY) is None:
            item = to_wire({**catalog_items.SECRET_KEY, "secret": os.urandom(32).hex()})
            self._write(self._client.put_item, _NEW, Item=item)

    def stands(self) -> bool:
        """Look for the mark by a consistent GetItem."""
        return self._get(catalog_items.STANDING_KEY) is not None

    def mark_standing(self) -> None:
        """Put the mark by a PutItem."""
        self._put(catalog_items.STANDING_KEY)

    def forget(self, entry: Entry) -> None:
        """Delete the entry by a DeleteItem."""
        self._client.delete_item(
            TableName=self._table, Key=to_wire(catalog_items.make_period_key(entry.stream, entry.period))
        )

    def policies(self) -> Sequence[RecordedPolicy]:
        """Send a consistent Query: a stream that was just added again must not look like a removed stream."""
        return list(
            map(
                catalog_items.read_policy, self._query("pk = :pk", {":pk": catalog_items.POLICIES}, ConsistentRead=True)
            )
        )

    def put_policy(self, recorded: RecordedPolicy) -> None:
        """Put the policy by a PutItem."""
        self._put(catalog_items.make_policy_item(recorded))

    def horizon(self, stream: str) -> datetime | None:
        """Send a consistent GetItem: a stale horizon would hide a restored period, and would then be written again."""
        item = self._get(catalog_items.make_horizon_item(stream))
        return from_text(item["at"]) if item is not None else None

    def set_horizon(self, stream: str, at: datetime) -> None:
        """Put the horizon by a PutItem."""
        self._put(catalog_items.make_horizon_item(stream) | {"at": to_text(at)})

    def acquire(self, lease: str, owner: str, now: datetime, length: timedelta) -> bool:
        """Send a put that DynamoDB refuses while another owner holds the lease."""
        return self._write(
            self._client.put_item,
            "attribute_not_exists(pk) OR #until <= :now OR #owner = :owner",
            Item=to_wire({**catalog_items.make_lease_item(lease), "owner": owner, "until": to_text(now + length)}),
            ExpressionAttributeNames={"#until": "until", "#owner": "owner"},
            ExpressionAttributeValues=to_wire({":now": to_text(now), ":owner": owner}),
        )

    def release(self, lease: str, owner: str) -> None:
        """Delete the lease, on the condition that the owner still holds it."""
        self._write(
            self._client.delete_item,
            "#owner = :owner",
            Key=to_wire(catalog_items.make_lease_item(lease)),
            ExpressionAttributeNames={"#owner": "owner"},
            ExpressionAttributeValues=to_wire({":owner": owner}),
        )
