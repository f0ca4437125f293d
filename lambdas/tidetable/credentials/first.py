"""The first key of a stage: API Gateway made its text, and it may do everything."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from tidetable.access import Access
from tidetable.credentials.ports import CredentialStore
from tidetable.credentials.records import CredentialRecord, Secret
from tidetable.credentials.text import read_id
from tidetable.errors import BadInvocation

FIRST_NAME = "first"


def admit_first(
    keys: CredentialStore,
    gateway_key: str,
    read_value: Callable[[str], str],
    draw_salt: Callable[[], bytes],
    now: datetime,
) -> str:
    """Let API Gateway's key of this id call every route; return the id of the added key.

    A second call changes nothing: a key that was rotated or revoked meanwhile stays rotated or revoked.
    """
    text = read_value(gateway_key)
    id = read_id(text)
    if id is None:
        raise BadInvocation(f"the value of API Gateway's key {gateway_key} has another form than its own values")
    secret = Secret.of(text, draw_salt())
    keys.add(CredentialRecord(id, FIRST_NAME, Access(id), now, (secret,), origin=gateway_key))
    return id


def dismiss_first(keys: CredentialStore, gateway_key: str) -> list[str]:
    """Forget the keys that were admitted from API Gateway's key of this id, except revoked keys; return their ids."""
    ids = [record.id for record in keys.all() if record.origin == gateway_key]
    return [id for id in ids if keys.forget(id)]
