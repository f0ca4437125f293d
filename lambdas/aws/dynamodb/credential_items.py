"""The items of callers' keys in the catalog, and the item that counts their changes."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from tidetable.access import SCOPES, Access
from tidetable.credentials import CredentialRecord, Secret
from tidetable.credentials.text import find_slot
from tidetable.events import Item
from tidetable.times import from_text, to_text
from tidetable.version import KEY_FORMAT

# Keys lie in 16 partitions, by their slots: a partition takes 3,000 consistent reads per second, and the processes of a
# stage may all begin at once. The authorizer may read these partitions of the catalog and nothing else.
PARTITIONS = tuple(f"keys#{digit}" for digit in "0123456789abcdef")
# Older versions wrote all keys here. Such a key stays where it is, and is found there.
FORMER_PARTITION = "keys"
# This item counts the changes of keys by their slots.
CHANGES_KEY = {"pk": "keys#changes", "sk": "changes"}


def list_record_keys(id: str) -> tuple[Item, Item]:
    """List the primary keys that a caller's key may have: its own, and the one that older versions gave it."""
    return {"pk": f"keys#{find_slot(id)[0]}", "sk": id}, {"pk": FORMER_PARTITION, "sk": id}


def make_record_item(record: CredentialRecord) -> Item:
    """Make the item of a key. A field that is None or empty gets no attribute."""
    access = record.access
    times = {"expires": record.expires, "revoked": record.revoked, "rotated": record.rotated}
    optional: dict[str, Any] = {
        "streams": None if access.streams is None else sorted(access.streams),
        "series_prefix": access.series_prefix or None,
        "meter": record.meter or None,
        "gateway_key": record.gateway_key or None,
        "plan": record.plan or None,
        "origin": record.origin or None,
        "rate": None if record.rate is None else Decimal(str(record.rate)),
        "burst": record.burst,
        **{name: None if time is None else to_text(time) for name, time in times.items()},
    }
    return {
        **list_record_keys(record.id)[0],
        "format": KEY_FORMAT,
        "name": record.name,
        "can": [scope for scope in SCOPES if scope in access.can],
        "created": to_text(record.created),
        "secrets": [_make_secret_item(secret) for secret in record.secrets],
        **{name: value for name, value in optional.items() if value is not None},
    }


def _make_secret_item(secret: Secret) -> Item:
    item = {"salt": secret.salt.hex(), "hash": secret.hash.hex()}
    return item if secret.until is None else item | {"until": to_text(secret.until)}


def read_record(item: Item) -> CredentialRecord:
    """Read the caller's key from an item.

    An item without a prefix has no such attribute. An empty prefix is a mistake of whoever wrote the item, and the key
    must not use all series because of it: it may do nothing. Nor may a key whose record newer code wrote: it may have a
    restriction that this code does not know.
    """
    id, written = item["sk"], int(item.get("format", KEY_FORMAT))
    known = {
        "id": id,
        "name": item["name"],
        "created": from_text(item["created"]),
        "revoked": _read_time(item, "revoked"),
        "gateway_key": item.get("gateway_key", ""),
        "plan": item.get("plan", ""),
        "uncounted": item["pk"] == FORMER_PARTITION,
    }
    if written > KEY_FORMAT:
        return CredentialRecord(**known, access=Access(id, frozenset(), frozenset()), secrets=(), newer=written)
    streams = frozenset(item["streams"]) if "streams" in item else None
    is_valid = item.get("series_prefix") != ""
    can = frozenset(scope for scope in SCOPES if is_valid and scope in item["can"])
    return CredentialRecord(
        **known,
        access=Access(id, streams, can, item.get("series_prefix", "")),
        secrets=tuple(
            Secret(bytes.fromhex(secret["salt"]), bytes.fromhex(secret["hash"]), _read_time(secret, "until"))
            for secret in item["secrets"]
        ),
        expires=_read_time(item, "expires"),
        rotated=_read_time(item, "rotated"),
        meter=item.get("meter", ""),
        origin=item.get("origin", ""),
        rate=float(item["rate"]) if "rate" in item else None,
        burst=int(item["burst"]) if "burst" in item else None,
    )


def _read_time(item: Item, name: str) -> datetime | None:
    return from_text(item[name]) if name in item else None
