"""Callers' keys in the catalog's table, as the command line and a deployment change them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from aws.dynamodb.catalog_table import NEW, CatalogTable
from aws.dynamodb.codec import to_wire
from aws.dynamodb.credential_items import PARTITION, make_record_item, make_record_key, read_record
from tidetable.credentials import CredentialRecord
from tidetable.times import to_text


class DynamoCredentials(CatalogTable):
    """The keys of a stage."""

    def all(self) -> Sequence[CredentialRecord]:
        return list(map(read_record, self._read_partition(PARTITION)))

    def find(self, id: str) -> CredentialRecord | None:
        item = self._get(make_record_key(id))
        return None if item is None else read_record(item)

    def add(self, record: CredentialRecord) -> bool:
        return self._put_if(NEW, make_record_item(record))

    def rotate(self, record: CredentialRecord, before: CredentialRecord) -> bool:
        condition, members = "attribute_not_exists(rotated)", dict[str, Any]()
        if before.rotated is not None:
            condition = "rotated = :before"
            members["ExpressionAttributeValues"] = to_wire({":before": to_text(before.rotated)})
        condition = f"attribute_exists(pk) AND attribute_not_exists(revoked) AND {condition}"
        return self._put_if(condition, make_record_item(record), **members)

    def revoke(self, id: str, now: datetime) -> bool:
        """Record the time of revocation, but keep an earlier time."""
        return self._write(
            self._client.update_item,
            "attribute_exists(pk)",
            Key=to_wire(make_record_key(id)),
            UpdateExpression="SET revoked = if_not_exists(revoked, :now)",
            ExpressionAttributeValues=to_wire({":now": to_text(now)}),
        )

    def forget(self, id: str) -> bool:
        """Delete the key, unless it was revoked: a revoked key must stay known."""
        return self._write(self._client.delete_item, "attribute_not_exists(revoked)", Key=to_wire(make_record_key(id)))
