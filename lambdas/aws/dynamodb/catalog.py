"""The catalog in a DynamoDB table of its own: one item per period, one per lease, and one horizon per stream.

``pk = stream#<stream>, sk = <start of period>#<label>``: one Query answers which periods overlap a range. An
entry stays after its table is deleted, because it leads to the archive. The tables before the horizon are deleted, so
that the lifecycle need not read their entries, except for those of far periods, each of which has a small record beside
the horizon: it is written by the transaction that records or restores the period, and deleted by the one that marks its
table as deleted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, Unpack

import msgspec
from msgspec.structs import replace

from aws.dynamodb import catalog_items
from aws.dynamodb.answers import QueryAnswer
from aws.dynamodb.catalog_table import NEW, CatalogTable
from aws.dynamodb.reads import decode_answer, make_range_body, read_all, read_pages
from aws.dynamodb.wire import decode_item
from aws.http.client import ServiceRequest
from tidetable.catalog import Backfill, Entry, EntryFacts, Horizon, RecordedPolicy, SeenTable, State
from tidetable.errors import StaleEntry
from tidetable.events import Item
from tidetable.ports import WALKED_AT_ONCE
from tidetable.segmentation import Segmentation, SegmentMarks
from tidetable.times import from_text, to_text
from tidetable.version import CATALOG_FORMAT

# A walk reads at most this many entries by one request, about 250 KB.
_MOST_AT_ONCE = 512
# No page of 1 MB has more entries (AWS: 1 MB).
_WHOLE_PAGE = 4_096


class _EncodedAnswer(QueryAnswer, kw_only=True):
    Items: list[msgspec.Raw]


_ENCODED = msgspec.json.Decoder(_EncodedAnswer).decode
_ITEM = msgspec.json.Decoder(dict[str, dict[str, Any]]).decode


def _encode_query(body: Mapping[str, Any]) -> ServiceRequest:
    return ServiceRequest("Query", msgspec.json.encode(body), _ENCODED)


@lru_cache(maxsize=1_000)
def _read_encoded(item: bytes) -> Entry:
    """Read a period's entry from an item of an answer.

    An entry changes a few times in its life, and each request reads all entries of its range, 365 for a year of days.
    A warm function decodes an entry only after it changed. An entry without indexes takes 1.3 KB (measured), so all kept
    entries take a few megabytes.
    """
    return catalog_items.read_entry(decode_item(_ITEM(item)))


class LeanCatalog(CatalogTable):
    """The catalog, for every function and for the command line."""

    def entries(
        self, stream: str, start: datetime | None = None, end: datetime | None = None, *, consistent: bool = False
    ) -> Sequence[Entry]:
        """Send a Query per page of 1 MB; with ``start``, also one for the last period that begins before it."""
        return list(self.walk(stream, start, end, ascending=True, consistent=consistent, at_once=_WHOLE_PAGE))

    def walk(
        self,
        stream: str,
        start: datetime | None = None,
        end: datetime | None = None,
        *,
        ascending: bool = False,
        consistent: bool = False,
        at_once: int = WALKED_AT_ONCE,
    ) -> Iterator[Entry]:
        """Send a Query per page; an ascending walk sends with the first one for the last period before ``start``."""
        first, low, high = catalog_items.bound_entries(start, end)
        key, before = catalog_items.make_stream_key(stream), list[ServiceRequest]()
        if ascending and start is not None:
            body = make_range_body(self._table, key, first, low, consistent=consistent)
            before = [_encode_query(body | {"ScanIndexForward": False, "Limit": 1})]
            first = low
        body = make_range_body(self._table, key, first, high, consistent=consistent) | {"ScanIndexForward": ascending}
        requests = [*before, _encode_query(body | {"Limit": at_once})]
        pages = [decode_answer(reply, self._table) for reply in read_all(self._client, requests)]
        while pages:
            for entry in map(_read_encoded, [bytes(item) for page in pages for item in page.Items]):
                if start is None or start < entry.period.end:
                    yield entry
                elif not ascending:
                    return
            last, at_once = pages[-1], max(at_once, min(2 * at_once, _MOST_AT_ONCE))
            pages = list(islice(read_pages(self._client, body | {"Limit": at_once}, _ENCODED, last), 1))

    def entries_from(self, stream: str, start: datetime) -> Sequence[Entry]:
        """Send one consistent Query."""
        _, low, high = catalog_items.bound_entries(start, None)
        items = self._query(catalog_items.make_stream_key(stream), low, high, consistent=True)
        return [catalog_items.read_entry(item) for item in items]

    def backfills(self, stream: str) -> Sequence[Backfill]:
        """Send a consistent Query: a new backfill must hold from the next event on."""
        low = f"{stream}#"
        items = self._query(catalog_items.BACKFILLS, low, f"{low}~", consistent=True)
        return list(map(catalog_items.read_backfill, items))

    def list_backfills(self) -> Sequence[Backfill]:
        """Send a consistent Query for the backfills of all streams."""
        return list(map(catalog_items.read_backfill, self._read_partition(catalog_items.BACKFILLS)))

    def secret(self) -> bytes:
        """Send a Query, because the functions that read events have no right to GetItem in the catalog."""
        return catalog_items.read_secret(self._read_partition(catalog_items.SECRET_KEY["pk"]))

    def add(self, entry: Entry) -> bool:
        key = catalog_items.make_period_key(entry.stream, entry.period)
        item = key | catalog_items.make_attributes(entry)
        if not entry.is_far:
            return self._put_if(NEW, item)
        far = catalog_items.make_far_item(entry.stream, entry.period)
        return self._transact(("Put", {"Item": item, "ConditionExpression": NEW}), ("Put", {"Item": far}))

    def move(self, entry: Entry, to: State, *, expected: Iterable[State], **facts: Unpack[EntryFacts]) -> Entry:
        """Update only the state and these facts: other callers may have changed other attributes meanwhile.

        StoreUnavailable if newer code wrote the entry: with the format of this code, other old code would misread it.
        """
        expected = sorted(expected)
        moved = replace(entry, state=to, **facts)
        attributes = catalog_items.make_attributes(moved)
        changes = {name: attributes[name] for name in ("state", "format", *facts)}
        states = {f":s{index}": state.value for index, state in enumerate(expected)}
        known = "(attribute_not_exists(#format) OR #format <= :format)"
        update = self._make_update(entry, changes, f"#state IN ({', '.join(states)}) AND {known}", states)
        far: tuple[str, Item] | None = None
        if to is State.RESTORING:
            far = "Put", {"Item": catalog_items.make_far_item(entry.stream, entry.period)}
        elif to is State.DELETED:
            far = "Delete", {"Key": catalog_items.make_far_key(entry.stream, entry.period)}
        if not (self._transact(("Update", update), far) if far else self._change("UpdateItem", **update)):
            key = catalog_items.make_period_key(entry.stream, entry.period)
            for item in self._query(key["pk"], key["sk"], key["sk"], consistent=True):
                catalog_items.refuse_newer_entry(item)
            raise StaleEntry(entry.stream, entry.period.label, expected)
        return moved

    def begin_segments(self, entry: Entry, to: State, segments: Segmentation) -> Entry | None:
        begun = replace(entry, state=to, segments=segments, marks=SegmentMarks((), entry.marks.writes))
        attributes = catalog_items.make_attributes(begun)
        changes = {name: attributes[name] for name in ("state", "format", "segments")}
        condition, values = "#state = :from AND attribute_not_exists(marks)", Item({":from": entry.state.value})
        if entry.marks.writes:
            condition, values = "#state = :from AND marks = :marks", values | {":marks": entry.marks.writes}
        update = self._make_update(entry, changes, condition, values, remove=" REMOVE marked")
        return begun if self._change("UpdateItem", **update) else None

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
        if not self._change("UpdateItem", **self._make_update(entry, changes, "attribute_exists(pk)", {})):
            raise StaleEntry(entry.stream, entry.period.label, list(State))

    def _make_update(self, entry: Entry, changes: Item, condition: str, values: Item, remove: str = "") -> Item:
        """Make the members of an UpdateItem. Its condition may name changed attributes as ``#name``."""
        return {
            "ConditionExpression": condition,
            "Key": catalog_items.make_period_key(entry.stream, entry.period),
            "UpdateExpression": "SET " + ", ".join(f"#{name} = :{name}" for name in changes) + remove,
            "ExpressionAttributeNames": {f"#{name}": name for name in changes},
            "ExpressionAttributeValues": {f":{name}": value for name, value in changes.items()} | values,
        }

    def forget(self, entry: Entry) -> None:
        keys = [
            make(entry.stream, entry.period) for make in (catalog_items.make_period_key, catalog_items.make_far_key)
        ]
        self._transact(*(("Delete", {"Key": key}) for key in keys))

    def put_backfill(self, backfill: Backfill) -> None:
        opened = catalog_items.make_opened_item(backfill.opened)
        self._put(catalog_items.make_backfill_key(backfill) | {"opened": opened})

    def drop_backfill(self, backfill: Backfill) -> None:
        self._delete(catalog_items.make_backfill_key(backfill))

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

    def read_horizon(self, stream: str) -> Horizon:
        """Send a consistent Query: a stale answer would hide a restored period."""
        items = self._query(catalog_items.HORIZONS, stream, f"{stream}#~", consistent=True)
        return catalog_items.read_horizons(items).get(stream, Horizon())

    def list_horizons(self) -> Mapping[str, Horizon]:
        """Send a consistent Query for the horizons of all streams."""
        return catalog_items.read_horizons(self._read_partition(catalog_items.HORIZONS))

    def note_far(self, entry: Entry) -> None:
        self._put(catalog_items.make_far_item(entry.stream, entry.period))

    def set_horizon(self, stream: str, at: datetime) -> None:
        self._put(catalog_items.make_horizon_item(stream) | {"at": to_text(at)})

    def acquire(self, lease: str, owner: str, now: datetime, length: timedelta) -> bool:
        return self._put_if(
            "attribute_not_exists(pk) OR #until <= :now OR #owner = :owner",
            {**catalog_items.make_lease_item(lease), "owner": owner, "until": to_text(now + length)},
            ExpressionAttributeNames={"#until": "until", "#owner": "owner"},
            ExpressionAttributeValues={":now": to_text(now), ":owner": owner},
        )

    def share_lease(self, lease: str, owner: str, now: datetime, length: timedelta) -> datetime | None:
        """Send an UpdateItem, which keeps the attribute ``since``. Other owners put the whole item, without it."""
        held = self._change_item(
            Key=catalog_items.make_lease_item(lease),
            UpdateExpression="SET #until = :until, #owner = :owner, #since = if_not_exists(#since, :now)",
            ConditionExpression="attribute_not_exists(pk) OR #until <= :now OR #owner = :owner",
            ExpressionAttributeNames={"#until": "until", "#owner": "owner", "#since": "since"},
            ExpressionAttributeValues={":now": to_text(now), ":owner": owner, ":until": to_text(now + length)},
        )
        return None if held is None else from_text(held["since"])

    def read_share(self, lease: str) -> datetime | None:
        """Send a Query, because the functions that read events have no right to GetItem in the catalog."""
        items = list(self._read_partition(catalog_items.make_lease_item(lease)["pk"]))
        return from_text(items[0]["since"]) if items and "since" in items[0] else None

    def release(self, lease: str, owner: str) -> None:
        self._change(
            "DeleteItem",
            ConditionExpression="#owner = :owner",
            Key=catalog_items.make_lease_item(lease),
            ExpressionAttributeNames={"#owner": "owner"},
            ExpressionAttributeValues={":owner": owner},
        )
