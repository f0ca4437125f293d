"""Callers' keys in the catalog's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from aws.dynamodb.catalog_table import NEW, CatalogTable
from aws.dynamodb.credential_items import (
    CHANGES_KEY,
    FORMER_PARTITION,
    PARTITIONS,
    list_record_keys,
    make_record_item,
    read_record,
)
from tidetable.credentials import CredentialRecord
from tidetable.credentials.text import find_slot
from tidetable.events import Item
from tidetable.times import to_text


class LeanCredentials(CatalogTable):
    """The keys of a stage."""

    def all(self) -> Sequence[CredentialRecord]:
        items = (item for partition in (*PARTITIONS, FORMER_PARTITION) for item in self._read_partition(partition))
        return sorted(map(read_record, items), key=lambda record: record.id)

    def find(self, id: str) -> CredentialRecord | None:
        """Find a key by a consistent GetItem, or by a second if it is none or a key of older versions.

        An eventually consistent read would save half a read unit, but a revoked key could work for longer than the
        documentation says.
        """
        items = map(self._get, list_record_keys(id))
        return next((read_record(item) for item in items if item is not None), None)

    def count_changes(self) -> Mapping[str, int]:
        """Send a consistent GetItem."""
        counts = self._get(CHANGES_KEY) or {}
        return {slot: int(count) for slot, count in counts.items() if slot not in CHANGES_KEY}

    def add(self, record: CredentialRecord) -> bool:
        former = self._get(list_record_keys(record.id)[1])
        return former is None and self._put_if(NEW, make_record_item(record))

    def rotate(self, record: CredentialRecord, before: CredentialRecord) -> bool:
        condition, members = "attribute_not_exists(rotated)", dict[str, Any]()
        if before.rotated is not None:
            condition = "rotated = :before"
            members["ExpressionAttributeValues"] = {":before": to_text(before.rotated)}
        condition = f"attribute_not_exists(revoked) AND {condition}"
        return any(
            self._change_key("Put", key, condition, Item=make_record_item(record) | key, **members)
            for key in list_record_keys(record.id)
        )

    def revoke(self, id: str, now: datetime) -> bool:
        """Record the time of revocation, but keep an earlier time."""
        update = "SET revoked = if_not_exists(revoked, :now)"
        values = {":now": to_text(now)}
        return any(
            self._change_key("Update", key, "", Key=key, UpdateExpression=update, ExpressionAttributeValues=values)
            for key in list_record_keys(id)
        )

    def forget(self, id: str) -> bool:
        """Delete the key, unless it was revoked: a revoked key must stay known."""
        condition = "attribute_not_exists(revoked)"
        return any(self._change_key("Delete", key, condition, Key=key) for key in list_record_keys(id))

    def _change_key(self, action: str, key: Item, condition: str, **members: Any) -> bool:
        """Change an existing key, and count the change, in one transaction. False if the condition does not hold."""
        exists = "attribute_exists(pk)"
        members["ConditionExpression"] = f"{exists} AND {condition}" if condition else exists
        counted = {
            "Key": CHANGES_KEY,
            "UpdateExpression": "ADD #slot :one",
            "ExpressionAttributeNames": {"#slot": find_slot(key["sk"])},
            "ExpressionAttributeValues": {":one": 1},
        }
        return self._transact((action, members), ("Update", counted))
