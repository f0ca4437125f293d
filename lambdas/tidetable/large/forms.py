"""The forms in which an item keeps its data: attributes in place of ``data``, or beside it.

``z``      all of ``data`` as JSON, compressed
``out``    where all of ``data`` is kept outside of the item: ``{"v": version, "n": chunks, "b": bytes}`` in the table of
           chunks (its name ends in ``.parts``), or ``{"o": key, "b": bytes}`` in S3
``cold``   where the stream's cold fields are kept, while ``data`` has the others: in the table of chunks
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from tidetable.events import Item
from tidetable.layout import Key

# The attributes of an item without which all of its data is in ``data``, and those whose data is outside of the item.
FORMS = ("z", "out", "cold")
OUTSIDE = ("out", "cold")
# AWS: an item has at most 400 KB; the rest is for the key and the attributes' names.
CHUNK_BYTES = 390_000
# An answer holds at least one event, and may grow to twice its size when it is escaped. AWS: an answer has at most 6 MB.
MAX_EVENT_BYTES = 2_500_000


def has_all_data(item: Item) -> bool:
    """True if all data of an item is in ``data``."""
    return "data" in item and item.keys().isdisjoint(FORMS)


def derive_version(payload: bytes) -> str:
    """Derive a payload's version from its bytes: writing the same bytes again is harmless."""
    return sha256(payload).hexdigest()[:24]


def make_chunk_key(key: Key, version: str, number: int) -> str:
    """Make the key of a chunk: ``<parent key>#<version>#<n>``. All versions of an event have one parent key."""
    pk, sk = key.shared
    return f"{pk}#{sk}#{version}#{number}"


def list_chunk_keys(item: Item, marker: Any) -> list[str]:
    """List the keys of a marker's chunks, in order."""
    key = Key(item["pk"], item["sk"])
    return [make_chunk_key(key, marker["v"], number) for number in range(int(marker["n"]))]


def split_payload(payload: bytes) -> Sequence[bytes]:
    """Split a payload into chunks that each fit an item."""
    return [payload[start : start + CHUNK_BYTES] for start in range(0, len(payload), CHUNK_BYTES)]


def make_blob_prefix(stream: str, label: str = "") -> str:
    """Make the prefix of the objects of a stream's period; without a label, of all periods of the stream."""
    return f"large/stream={stream}/period={label}/" if label else f"large/stream={stream}/"
