"""What an item has in place of ``data``, or beside it.

``z``      all of ``data`` as JSON, compressed
``out``    where all of it is kept outside of the item: ``{"v": version, "n": parts, "b": bytes}`` in the table of parts, or
           ``{"o": key, "b": bytes}`` in S3
``cold``   where the stream's cold fields are kept, while the others are in ``data``: of the first form
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from tidetable.events import Item
from tidetable.keys import Key

# AWS: 400 KB an item; some is left for the key and the names of attributes.
PART_BYTES = 390_000
# An answer holds at least one event, and may grow to twice its size when it is escaped. AWS: 6 MB an answer.
MAX_EVENT_BYTES = 2_500_000


def version_of(payload: bytes) -> str:
    """The version of a payload: the same for the same bytes, so that writing it again is harmless."""
    return sha256(payload).hexdigest()[:24]


def part_key(key: Key, version: str, number: int) -> str:
    """The key of a part: ``<parent key>#<version>#<n>``. All versions of an event have one parent key."""
    return f"{key.pk}#{stem(key.sk)}#{version}#{number}"


def stem(sk: str) -> str:
    """A sort key without the prefix of its version."""
    return sk.partition("#")[2] if sk.startswith("v") else sk


def earlier_keys(item: Item) -> list[Key]:
    """The keys of an event's earlier versions, latest first, if every version is kept."""
    count = int(item.get("version", 1))
    return [Key(item["pk"], f"v{number}#{stem(item['sk'])}") for number in range(count - 1, 0, -1)]


def part_keys(item: Item, marker: Any) -> list[str]:
    """The keys of a marker's parts, in order."""
    key = Key(item["pk"], item["sk"])
    return [part_key(key, marker["v"], number) for number in range(int(marker["n"]))]


def pieces(payload: bytes) -> Sequence[bytes]:
    """A payload in parts that are items each."""
    return [payload[start : start + PART_BYTES] for start in range(0, len(payload), PART_BYTES)]


def blob_prefix(stream: str, label: str = "") -> str:
    """Where the objects of a stream's period are, or of all of its periods."""
    return f"large/stream={stream}/period={label}/" if label else f"large/stream={stream}/"
