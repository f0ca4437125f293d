"""The catalog in a DynamoDB table of its own: an item per period, one per lease, and a horizon per stream.

``pk = stream#<stream>, sk = <start of period>#<label>``: one Query answers which periods meet a range. Entries stay for
ever, as the archive is found by them; the horizon spares the lifecycle those of tables that are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from aws.codec import from_wire, to_wire
from aws.errors import CONDITION_FAILED, error_code
from tidetable.catalog import ArchiveFacts, Backfill, Entry, Opened, Seen, State
from tidetable.config import TableClass
from tidetable.errors import StaleEntry
from tidetable.events import Item
from tidetable.keys import Index, Layout
from tidetable.periods import Period, from_label
from tidetable.times import EPOCH, from_text, to_text

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def catalog_key(stream: str, period: Period) -> dict[str, Any]:
    """The primary key of a period's entry, as attribute values."""
    return to_wire({"pk": f"stream#{stream}", "sk": f"{to_text(period.start)}#{period.label}"})


class DynamoCatalog:
    """The catalog through boto3's low-level client."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def entries(
        self, stream: str, start: datetime | None = None, end: datetime | None = None, *, consistent: bool = False
    ) -> Sequence[Entry]:
        """A Query for those that begin in the range, and one for the last that began before it: periods never overlap."""
        # "~" sorts after every label, so a period that begins at ``end`` is found.
        high = (to_text(end) if end is not None else "9999") + "~"
        if start is None:
            return list(self._between(stream, to_text(EPOCH), high, consistent=consistent))
        low = to_text(start)
        found = [
            *self._between(stream, to_text(EPOCH), low, consistent=consistent, last=True),
            *self._between(stream, low, high, consistent=consistent),
        ]
        return [entry for entry in found if start < entry.period.end]

    def _between(self, stream: str, low: str, high: str, *, consistent: bool, last: bool = False) -> Iterator[Entry]:
        """Entries by their sort keys, or only the last of them."""
        options: Any = {"ScanIndexForward": False, "Limit": 1} if last else {}
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression="pk = :pk AND sk BETWEEN :low AND :high",
            ExpressionAttributeValues={":pk": {"S": f"stream#{stream}"}, ":low": {"S": low}, ":high": {"S": high}},
            ConsistentRead=consistent,
            **options,
        )
        found = (_entry(from_wire(item)) for page in pages for item in page["Items"])
        return islice(found, 1) if last else found

    def add(self, entry: Entry) -> bool:
        """A conditional put: the first to record a period decides its layout."""
        try:
            self._client.put_item(
                TableName=self._table,
                Item=catalog_key(entry.stream, entry.period) | to_wire(_attributes(entry)),
                ConditionExpression="attribute_not_exists(pk)",
            )
        except ClientError as error:
            if error_code(error) != CONDITION_FAILED:
                raise
            return False
        return True

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
        """A conditional update of the state."""
        expected = sorted(expected)
        moved = replace(
            entry,
            state=to,
            archive=archive or entry.archive,
            deleted_at=deleted_at or entry.deleted_at,
            keep_until=keep_until or entry.keep_until,
            opened=opened or entry.opened,
        )
        changes = {name: value for name, value in _attributes(moved).items() if name in _MUTABLE}
        names = {f"#{name}": name for name in changes} | {"#state": "state"}
        values = {f":{name}": value for name, value in changes.items()}
        states = {f":s{index}": state.value for index, state in enumerate(expected)}
        try:
            self._client.update_item(
                TableName=self._table,
                Key=catalog_key(entry.stream, entry.period),
                UpdateExpression="SET " + ", ".join(f"#{name} = :{name}" for name in changes),
                ConditionExpression=f"#state IN ({', '.join(states)})",
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=to_wire(values | states),
            )
        except ClientError as error:
            if error_code(error) != CONDITION_FAILED:
                raise
            raise StaleEntry(entry.stream, entry.period.label, expected) from error
        return moved

    def note(self, entry: Entry, seen: Seen) -> None:
        """An update of what was seen."""
        self._set(entry, "seen", _seen_item(seen))

    def mark_scaled(self, entry: Entry, *, scaled: bool) -> None:
        """An update of the mark."""
        self._set(entry, "scaled", scaled)

    def _set(self, entry: Entry, name: str, value: Any) -> None:
        """An update that does not make an entry which is not there."""
        try:
            self._client.update_item(
                TableName=self._table,
                Key=catalog_key(entry.stream, entry.period),
                UpdateExpression="SET #name = :value",
                ConditionExpression="attribute_exists(pk)",
                ExpressionAttributeNames={"#name": name},
                ExpressionAttributeValues=to_wire({":value": value}),
            )
        except ClientError as error:
            if error_code(error) != CONDITION_FAILED:
                raise
            raise StaleEntry(entry.stream, entry.period.label, list(State)) from error

    def backfills(self, stream: str) -> Sequence[Backfill]:
        """A Query, consistent: what was requested holds from the next event on."""
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": f"backfill#{stream}"}},
            ConsistentRead=True,
        )
        return [_backfill(from_wire(item)) for page in pages for item in page["Items"]]

    def put_backfill(self, backfill: Backfill) -> None:
        """A PutItem."""
        item = _backfill_key(backfill) | {"opened": _opened_item(backfill.opened)}
        self._client.put_item(TableName=self._table, Item=to_wire(item))

    def drop_backfill(self, backfill: Backfill) -> None:
        """A DeleteItem."""
        self._client.delete_item(TableName=self._table, Key=to_wire(_backfill_key(backfill)))

    def horizon(self, stream: str) -> datetime | None:
        """A GetItem, eventually consistent: an older horizon only costs a longer look."""
        found = self._client.get_item(TableName=self._table, Key=to_wire(_horizon(stream)))
        return from_text(from_wire(found["Item"])["at"]) if "Item" in found else None

    def set_horizon(self, stream: str, at: datetime) -> None:
        """A PutItem."""
        self._client.put_item(TableName=self._table, Item=to_wire(_horizon(stream) | {"at": to_text(at)}))

    def acquire(self, lease: str, owner: str, now: datetime, length: timedelta) -> bool:
        """A put that is refused while another owner's lease has not run out."""
        try:
            self._client.put_item(
                TableName=self._table,
                Item=to_wire({**_lease(lease), "owner": owner, "until": to_text(now + length)}),
                ConditionExpression="attribute_not_exists(pk) OR #until <= :now OR #owner = :owner",
                ExpressionAttributeNames={"#until": "until", "#owner": "owner"},
                ExpressionAttributeValues=to_wire({":now": to_text(now), ":owner": owner}),
            )
        except ClientError as error:
            if error_code(error) != CONDITION_FAILED:
                raise
            return False
        return True

    def release(self, lease: str, owner: str) -> None:
        """A delete that only the owner's own lease obeys."""
        try:
            self._client.delete_item(
                TableName=self._table,
                Key=to_wire(_lease(lease)),
                ConditionExpression="#owner = :owner",
                ExpressionAttributeNames={"#owner": "owner"},
                ExpressionAttributeValues=to_wire({":owner": owner}),
            )
        except ClientError as error:
            if error_code(error) != CONDITION_FAILED:
                raise


_MUTABLE = frozenset({"state", "archive", "deleted_at", "keep_until", "opened"})


def _lease(name: str) -> Item:
    return {"pk": f"lease#{name}", "sk": "lease"}


def _horizon(stream: str) -> Item:
    return {"pk": f"horizon#{stream}", "sk": "horizon"}


def _attributes(entry: Entry) -> Item:
    layout = entry.layout
    item: Item = {
        "stream": entry.stream,
        "label": entry.period.label,
        "table": entry.table,
        "state": entry.state.value,
        "created_at": to_text(entry.created_at),
        "layout": {
            "partition_by": layout.partition_by,
            "shards": layout.shards,
            "shard_by": layout.shard_by,
            "bucket": layout.bucket,
            "indexes": [[one.name, one.partition_by, one.shards] for one in layout.indexes],
        },
    }
    if entry.archive is not None:
        facts = entry.archive
        item["archive"] = {
            "manifest": facts.manifest,
            "events": facts.events,
            "bytes": facts.bytes,
            "at": to_text(facts.at),
        }
    if entry.deleted_at is not None:
        item["deleted_at"] = to_text(entry.deleted_at)
    if entry.keep_until is not None:
        item["keep_until"] = to_text(entry.keep_until)
    if entry.opened is not None:
        item["opened"] = _opened_item(entry.opened)
    return item


def _entry(item: Item) -> Entry:
    return Entry(
        stream=item["stream"],
        period=from_label(item["label"]),
        table=item["table"],
        layout=_layout(item["layout"]),
        state=State(item["state"]),
        created_at=from_text(item["created_at"]),
        archive=_archive(item["archive"]) if "archive" in item else None,
        deleted_at=from_text(item["deleted_at"]) if "deleted_at" in item else None,
        keep_until=from_text(item["keep_until"]) if "keep_until" in item else None,
        seen=_seen(item["seen"]) if "seen" in item else None,
        scaled=item.get("scaled", False),
        opened=_opened(item["opened"]) if "opened" in item else None,
    )


def _layout(item: Mapping[str, Any]) -> Layout:
    return Layout(
        partition_by=item["partition_by"],
        shards=int(item["shards"]),
        shard_by=item["shard_by"],
        bucket=int(item["bucket"]),
        indexes=tuple(Index(name, field, int(shards)) for name, field, shards in item.get("indexes", ())),
    )


def _backfill_key(backfill: Backfill) -> Item:
    edges = f"{to_text(backfill.start)}#{to_text(backfill.end)}"
    return {"pk": f"backfill#{backfill.stream}", "sk": edges}


def _backfill(item: Item) -> Backfill:
    start, end = item["sk"].split("#")
    stream = item["pk"].removeprefix("backfill#")
    return Backfill(stream, from_text(start), from_text(end), _opened(item["opened"]))


def _opened_item(opened: Opened) -> Item:
    return {"until": to_text(opened.until), "write": opened.write, "read": opened.read}


def _opened(item: Mapping[str, Any]) -> Opened:
    write, read = (None if item[name] is None else int(item[name]) for name in ("write", "read"))
    return Opened(from_text(item["until"]), write, read)


def _seen_item(seen: Seen) -> Item:
    units = {"write": seen.write, "read": seen.read, "class": seen.table_class.value}
    return units | {"indexes": [[name, *units] for name, units in seen.indexes]}


def _seen(item: Mapping[str, Any]) -> Seen:
    write, read = (None if item[name] is None else int(item[name]) for name in ("write", "read"))
    indexes = tuple((name, (int(wr), int(rd))) for name, wr, rd in item.get("indexes", ()))
    return Seen(write, read, TableClass(item["class"]), indexes)


def _archive(item: Mapping[str, Any]) -> ArchiveFacts:
    return ArchiveFacts(item["manifest"], int(item["events"]), int(item["bytes"]), from_text(item["at"]))
