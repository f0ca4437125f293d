"""The catalog in a DynamoDB table of its own: an item per period, one per lease, and a horizon per stream.

``pk = stream#<stream>, sk = <start of period>#<label>``: one Query answers which periods overlap a range. Entries are
never deleted, because they lead to the archives. The horizon spares the lifecycle the entries of deleted tables.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from aws.catalog_items import (
    POLICIES,
    SECRET_KEY,
    STANDING_KEY,
    attributes,
    backfill_key,
    backfill_of,
    before,
    entry_of,
    horizon_item,
    lease_item,
    opened_item,
    period_key,
    policy_item,
    policy_of,
    ranges,
    secret_of,
    seen_item,
    stream_key,
)
from aws.codec import from_wire, to_wire
from aws.codes import CONDITION_FAILED
from aws.errors import error_code
from tidetable.catalog import ArchiveFacts, Backfill, Entry, Opened, RecordedPolicy, Seen, State
from tidetable.errors import StaleEntry, StoreUnavailable
from tidetable.periods import Period
from tidetable.times import from_text, to_text

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def catalog_key(stream: str, period: Period) -> dict[str, Any]:
    """The primary key of a period's entry, as attribute values."""
    return to_wire(period_key(stream, period))


class DynamoCatalog:
    """The catalog through boto3's low-level client."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def entries(
        self, stream: str, start: datetime | None = None, end: datetime | None = None, *, consistent: bool = False
    ) -> Sequence[Entry]:
        """A Query for the periods that begin in the range, and a Query for the last period before:
        periods never overlap.
        """
        first, low, high = ranges(start, end)
        if start is None:
            return list(self._between(stream, first, high, consistent=consistent))
        entries = [
            *self._between(stream, first, low, consistent=consistent, last=True),
            *self._between(stream, low, high, consistent=consistent),
        ]
        return [entry for entry in entries if start < entry.period.end]

    def _between(self, stream: str, low: str, high: str, *, consistent: bool, last: bool = False) -> Iterator[Entry]:
        """Entries by a range of sort keys; with ``last``, only the last entry."""
        options: Any = {"ScanIndexForward": False, "Limit": 1} if last else {}
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression="pk = :pk AND sk BETWEEN :low AND :high",
            ExpressionAttributeValues={":pk": {"S": stream_key(stream)}, ":low": {"S": low}, ":high": {"S": high}},
            ConsistentRead=consistent,
            **options,
        )
        entries = (entry_of(from_wire(item)) for page in pages for item in page["Items"])
        return islice(entries, 1) if last else entries

    def entries_before(self, stream: str, end: datetime | None, limit: int) -> Sequence[Entry]:
        """A Query from the newest on, eventually consistent."""
        options: Any = {"ScanIndexForward": False, "Limit": limit}
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression="pk = :pk AND sk < :end",
            ExpressionAttributeValues={":pk": {"S": stream_key(stream)}, ":end": {"S": before(end)}},
            **options,
        )
        return list(islice((entry_of(from_wire(item)) for page in pages for item in page["Items"]), limit))

    def add(self, entry: Entry) -> bool:
        """A conditional put: the first caller that records a period decides its layout."""
        try:
            self._client.put_item(
                TableName=self._table,
                Item=catalog_key(entry.stream, entry.period) | to_wire(attributes(entry)),
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
        """A conditional update of the state and of the facts that the caller passes.

        It writes nothing else: another function may have changed the entry since the caller read it.
        """
        expected = sorted(expected)
        facts = {"archive": archive, "deleted_at": deleted_at, "keep_until": keep_until, "opened": opened}
        passed: dict[str, Any] = {name: fact for name, fact in facts.items() if fact is not None}
        moved = replace(entry, state=to, **passed)
        changes = {name: value for name, value in attributes(moved).items() if name == "state" or name in passed}
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
        """An update of the observed capacity and class."""
        self._set(entry, seen=seen_item(seen))

    def mark_scaled(self, entry: Entry, *, scaled: bool, policy: str = "") -> None:
        """One update of both marks."""
        self._set(entry, scaled=scaled, scaling=policy)

    def _set(self, entry: Entry, **changes: Any) -> None:
        """An update that never creates an entry."""
        try:
            self._client.update_item(
                TableName=self._table,
                Key=catalog_key(entry.stream, entry.period),
                UpdateExpression="SET " + ", ".join(f"#{name} = :{name}" for name in changes),
                ConditionExpression="attribute_exists(pk)",
                ExpressionAttributeNames={f"#{name}": name for name in changes},
                ExpressionAttributeValues=to_wire({f":{name}": value for name, value in changes.items()}),
            )
        except ClientError as error:
            if error_code(error) != CONDITION_FAILED:
                raise
            raise StaleEntry(entry.stream, entry.period.label, list(State)) from error

    def backfills(self, stream: str) -> Sequence[Backfill]:
        """A Query, consistent: a new backfill must hold from the next event on."""
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": f"backfill#{stream}"}},
            ConsistentRead=True,
        )
        return [backfill_of(from_wire(item)) for page in pages for item in page["Items"]]

    def put_backfill(self, backfill: Backfill) -> None:
        """A PutItem."""
        item = backfill_key(backfill) | {"opened": opened_item(backfill.opened)}
        self._client.put_item(TableName=self._table, Item=to_wire(item))

    def drop_backfill(self, backfill: Backfill) -> None:
        """A DeleteItem."""
        self._client.delete_item(TableName=self._table, Key=to_wire(backfill_key(backfill)))

    def secret(self) -> bytes:
        """A GetItem, consistent."""
        answer = self._client.get_item(TableName=self._table, Key=to_wire(SECRET_KEY), ConsistentRead=True)
        return secret_of([from_wire(answer["Item"])] if "Item" in answer else [])

    def ensure_secret(self) -> None:
        """A conditional put if the secret is missing: the first caller that creates the secret decides it."""
        try:
            self.secret()
        except StoreUnavailable:
            try:
                self._client.put_item(
                    TableName=self._table,
                    Item=to_wire({**SECRET_KEY, "secret": os.urandom(32).hex()}),
                    ConditionExpression="attribute_not_exists(pk)",
                )
            except ClientError as error:
                if error_code(error) != CONDITION_FAILED:
                    raise

    def stands(self) -> bool:
        """A GetItem, consistent."""
        return "Item" in self._client.get_item(TableName=self._table, Key=to_wire(STANDING_KEY), ConsistentRead=True)

    def mark_standing(self) -> None:
        """A PutItem."""
        self._client.put_item(TableName=self._table, Item=to_wire(STANDING_KEY))

    def forget(self, entry: Entry) -> None:
        """A DeleteItem."""
        self._client.delete_item(TableName=self._table, Key=catalog_key(entry.stream, entry.period))

    def policies(self) -> Sequence[RecordedPolicy]:
        """A Query, consistent: a stream that was just added again must not look like a removed stream."""
        pages = self._client.get_paginator("query").paginate(
            TableName=self._table,
            KeyConditionExpression="pk = :pk",
            ExpressionAttributeValues={":pk": {"S": POLICIES}},
            ConsistentRead=True,
        )
        return [policy_of(from_wire(item)) for page in pages for item in page["Items"]]

    def put_policy(self, recorded: RecordedPolicy) -> None:
        """A PutItem."""
        self._client.put_item(TableName=self._table, Item=to_wire(policy_item(recorded)))

    def horizon(self, stream: str) -> datetime | None:
        """A GetItem, consistent: a stale horizon would hide a restored period, and would then be written again."""
        answer = self._client.get_item(TableName=self._table, Key=to_wire(horizon_item(stream)), ConsistentRead=True)
        return from_text(from_wire(answer["Item"])["at"]) if "Item" in answer else None

    def set_horizon(self, stream: str, at: datetime) -> None:
        """A PutItem."""
        self._client.put_item(TableName=self._table, Item=to_wire(horizon_item(stream) | {"at": to_text(at)}))

    def acquire(self, lease: str, owner: str, now: datetime, length: timedelta) -> bool:
        """A put that is refused while another owner's lease has not run out."""
        try:
            self._client.put_item(
                TableName=self._table,
                Item=to_wire({**lease_item(lease), "owner": owner, "until": to_text(now + length)}),
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
        """A conditional delete: it deletes the lease only if the owner still holds it."""
        try:
            self._client.delete_item(
                TableName=self._table,
                Key=to_wire(lease_item(lease)),
                ConditionExpression="#owner = :owner",
                ExpressionAttributeNames={"#owner": "owner"},
                ExpressionAttributeValues=to_wire({":owner": owner}),
            )
        except ClientError as error:
            if error_code(error) != CONDITION_FAILED:
                raise
