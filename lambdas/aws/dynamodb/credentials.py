"""Callers' keys in the catalog's table."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from aws.dynamodb.catalog import NEW, CatalogTable
from aws.dynamodb.credential_items import PARTITION, make_record_item, make_record_key, read_record
from tidetable.credentials import CredentialRecord
from tidetable.times import to_text


class LeanCredentials(CatalogTable):
    """The keys of a stage."""

    def all(self) -> Sequence[CredentialRecord]:
        return list(map(read_record, self._read_partition(PARTITION)))

    def find(self, id: str) -> CredentialRecord | None:
        """Find a key by a consistent GetItem.

        An eventually consistent read would save half a read unit, but a revoked key could work for longer than the
        documentation says.
        """
        item = self._get(make_record_key(id))
        return None if item is None else read_record(item)

    def add(self, record: CredentialRecord) -> bool:
        return self._put_if(NEW, make_record_item(record))

    def rotate(self, record: CredentialRecord, before: CredentialRecord) -> bool:
        condition, members = "attribute_not_exists(rotated)", dict[str, Any]()
        if before.rotated is not None:
            condition = "rotated = :before"
            members["ExpressionAttributeValues"] = {":before": to_text(before.rotated)}
        condition = f"attribute_exists(pk) AND attribute_not_exists(revoked) AND {condition}"
        return self._put_if(condition, make_record_item(record), **members)

    def revoke(self, id: str, now: datetime) -> bool:
        """Record the time of revocation, but keep an earlier time."""
        return self._change(
            "UpdateItem",
            ConditionExpression="attribute_exists(pk)",
            Key=make_record_key(id),
            UpdateExpression="SET revoked = if_not_exists(revoked, :now)",
            ExpressionAttributeValues={":now": to_text(now)},
        )

    def forget(self, id: str) -> bool:
        """Delete the key, unless it was revoked: a revoked key must stay known."""
        return self._change("DeleteItem", ConditionExpression="attribute_not_exists(revoked)", Key=make_record_key(id))
