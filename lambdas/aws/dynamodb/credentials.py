"""Callers' keys as the authorizer reads them, over the lean client."""

from __future__ import annotations

from aws.dynamodb.credential_items import PARTITION, read_record
from aws.dynamodb.reads import read_item
from aws.http.client import LeanClient
from tidetable.credentials import CredentialRecord
from tidetable.layout import Key


def find_credential(client: LeanClient, table: str, id: str) -> CredentialRecord | None:
    """Find a key in the catalog's table by a consistent GetItem.

    An eventually consistent read would save half a read unit, but a revoked key could work for longer than the
    documentation says.
    """
    item = read_item(client, table, Key(PARTITION, id), ConsistentRead=True)
    return None if item is None else read_record(item)
