"""The catalog in a DynamoDB table of its own: one item per period, one per lease, and one horizon per stream.

``pk = stream#<stream>, sk = <start of period>#<label>``: one Query answers which periods overlap a range. An
entry stays after its table is deleted, because it leads to the archive. All tables before the horizon are deleted, so
that the lifecycle need not read their entries.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Unpack

from msgspec.structs import replace

from aws.dynamodb import catalog_items
from aws.dynamodb.catalog_table import NEW, CatalogTable
from aws.dynamodb.codec import to_wire
from tidetable.catalog import Backfill, Entry, EntryFacts, RecordedPolicy, SeenTable, State
from tidetable.errors import StaleEntry
from tidetable.events import Item
from tidetable.times import from_text, to_text
from tidetable.version import CATALOG_FORMAT


class DynamoCatalog(CatalogTable):
    """The catalog, for functions that change it."""

    def entries(
        self, stream: str, start: datetime | None = None, end: datetime | None = None, *, consistent: bool = False
    ) -> Sequence[Entry]:
        """Send two Queries: for the periods that begin in the range, and for the last period before the range."""
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

    def add(self, entry: Entry) -> bool:
        key = catalog_items.make_period_key(entry.stream, entry.period)
        return self._put_if(NEW, key | catalog_items.make_attributes(entry))

    def move(self, entry: Entry, to: State, *, expected: Iterable[State], **facts: Unpack[EntryFacts]) -> Entry:
        """Update only the state and these facts: other callers may have changed other attributes meanwhile."""
        expected = sorted(expected)
        moved = replace(entry, state=to, **facts)
        attributes = catalog_items.make_attributes(moved)
        changes = {name: attributes[name] for name in ("state", "format", *facts)}
        states = {f":s{index}": state.value for index, state in enumerate(expected)}
        if not self._update(entry, changes, f"#state IN ({', '.join(states)})", states):
            raise StaleEntry(entry.stream, entry.period.label, expected)
        return moved

    def note(self, entry: Entry, seen: SeenTable) -> None:
        self._set(entry, seen=catalog_items.make_seen_item(seen))

    def mark_scaled(self, entry: Entry, *, scaled: bool, policy: str = "") -> None:
        self._set(entry, scaled=scaled, scaling=policy)

    def mark_copies(self, entry: Entry, regions: Sequence[str]) -> None:
        self._set(entry, copies=list(regions))

    def mark_copying(self, entry: Entry, region: str, at: datetime) -> None:
        self._set(entry, copying=[region, to_text(at)])

    def _set(self, entry: Entry, **changes: Any) -> None:
        """Update attributes, but never create an entry."""
        if not self._update(entry, changes, "attribute_exists(pk)", {}):
            raise StaleEntry(entry.stream, entry.period.label, list(State))

    def _update(self, entry: Entry, changes: Item, condition: str, values: Item) -> bool:
        """Send an UpdateItem; False if its condition does not hold. It may name changed attributes as ``#name``."""
        return self._write(
            self._client.update_item,
            condition,
            Key=to_wire(catalog_items.make_period_key(entry.stream, entry.period)),
            UpdateExpression="SET " + ", ".join(f"#{name} = :{name}" for name in changes),
            ExpressionAttributeNames={f"#{name}": name for name in changes},
            ExpressionAttributeValues=to_wire({f":{name}": value for name, value in changes.items()} | values),
        )

    def forget(self, entry: Entry) -> None:
        self._delete(catalog_items.make_period_key(entry.stream, entry.period))

    def backfills(self, stream: str) -> Sequence[Backfill]:
        """Send a consistent Query: a new backfill must hold from the next event on."""
        return list(map(catalog_items.read_backfill, self._read_partition(f"backfill#{stream}")))

    def put_backfill(self, backfill: Backfill) -> None:
        opened = catalog_items.make_opened_item(backfill.opened)
        self._put(catalog_items.make_backfill_key(backfill) | {"opened": opened})

    def drop_backfill(self, backfill: Backfill) -> None:
        self._delete(catalog_items.make_backfill_key(backfill))

    def secret(self) -> bytes:
        item = self._get(catalog_items.SECRET_KEY)
        return catalog_items.read_secret([item] if item is not None else [])

    def ensure_secret(self) -> None:
        """Put a secret on the condition that there is none: the first caller that creates the secret decides it."""
        if self._get(catalog_items.SECRET_KEY) is None:
            self._put_if(NEW, {**catalog_items.SECRET_KEY, "secret": os.urandom(32).hex()})

    def is_deployed(self) -> bool:
        return self._get(catalog_items.DEPLOYED_KEY) is not None

    def mark_deployed(self) -> None:
        self._put({**catalog_items.DEPLOYED_KEY, "format": CATALOG_FORMAT})

    def require_known_format(self) -> None:
        catalog_items.refuse_newer("the catalog", self._get(catalog_items.DEPLOYED_KEY) or {})

    def list_policies(self) -> Sequence[RecordedPolicy]:
        """Send a consistent Query: a stream that was just added again must not look like a removed stream."""
        return list(map(catalog_items.read_policy, self._read_partition(catalog_items.POLICIES)))

    def put_policy(self, recorded: RecordedPolicy) -> None:
        self._put(catalog_items.make_policy_item(recorded))

    def read_horizon(self, stream: str) -> datetime | None:
        """Send a consistent GetItem: a stale horizon would hide a restored period, and would then be written again."""
        item = self._get(catalog_items.make_horizon_item(stream))
        return from_text(item["at"]) if item is not None else None

    def set_horizon(self, stream: str, at: datetime) -> None:
        self._put(catalog_items.make_horizon_item(stream) | {"at": to_text(at)})

    def acquire(self, lease: str, owner: str, now: datetime, length: timedelta) -> bool:
        return self._put_if(
            "attribute_not_exists(pk) OR #until <= :now OR #owner = :owner",
            {**catalog_items.make_lease_item(lease), "owner": owner, "until": to_text(now + length)},
            ExpressionAttributeNames={"#until": "until", "#owner": "owner"},
            ExpressionAttributeValues=to_wire({":now": to_text(now), ":owner": owner}),
        )

    def release(self, lease: str, owner: str) -> None:
        self._write(
            self._client.delete_item,
            "#owner = :owner",
            Key=to_wire(catalog_items.make_lease_item(lease)),
            ExpressionAttributeNames={"#owner": "owner"},
            ExpressionAttributeValues=to_wire({":owner": owner}),
        )
