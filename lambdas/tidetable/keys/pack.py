"""The keys of packs: of a pack itself, the address of an event in it, and the keys between which packs may hold a time.

A pack's sort key is ``<time of its newest event>##<hash>``. A plain item's has a name between the first two separators, or
none between two at all, so the two never meet, and both are in the order of time in one partition.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import NamedTuple

from tidetable.errors import InvalidRef
from tidetable.events import Item
from tidetable.keys.layout import Key
from tidetable.keys.suffix import compute_suffix
from tidetable.times import EPOCH, LATEST, from_micros, from_text, to_micros, to_text

_BETWEEN = "##"
_TIME = 27
_SEPARATORS = 3
_HASH_BYTES = 16
HASH_CHARACTERS = 22
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class PackName(NamedTuple):
    """A pack's key, as far as the pack itself says it."""

    newest: str
    hash: str

    @property
    def sk(self) -> str:
        """The sort key."""
        return f"{self.newest}{_BETWEEN}{self.hash}"


def is_pack(item: Item) -> bool:
    """True if an item holds several events."""
    return "pack" in item


def hash_of(body: bytes) -> str:
    """The hash of a pack's body: 128 bits over identities and content, as 22 characters of URL-safe Base64.

    These are the first 16 bytes of SHA-256 over the body before it is compressed.
    """
    return urlsafe_b64encode(sha256(body).digest()[:_HASH_BYTES])[:HASH_CHARACTERS].decode()


def pack_key(logical: str, name: PackName, shards: int) -> Key:
    """Where a pack is: its suffix is calculated from its hash, by the rule that holds for every suffix."""
    return Key(f"{logical}#{compute_suffix(name.hash, shards)}", name.sk)


def parse_sort_key(sk: str) -> PackName | None:
    """The pack that a sort key names; None for the sort key of a plain item."""
    if sk[_TIME : _TIME + len(_BETWEEN)] != _BETWEEN:
        return None
    return PackName(sk[:_TIME], sk[_TIME + len(_BETWEEN) :])


def address(pk: str, name: PackName) -> str:
    """What stands for the partition key in the ref of an event in a pack: the pack's own, and the pack.

    With the event's place for a sort key a ref says the pack, which one GetItem answers, and the event in it.
    """
    return f"{pk}#{_encode_base36(to_micros(from_text(name.newest)))}#{name.hash}"


def is_address(pk: str) -> bool:
    """Whether what stands for the partition key in a ref names a pack; a partition key has one separator."""
    return pk.count("#") == _SEPARATORS


def parse_address(text: str) -> Key:
    """The key of the pack that an address names; InvalidRef if it names none."""
    parts = text.rsplit("#", 2)
    if not is_address(text) or len(parts[2]) != HASH_CHARACTERS or not parts[1].isalnum():
        raise InvalidRef("this ref names no pack: use one that the API answered, whole and unchanged")
    try:
        newest = to_text(from_micros(int(parts[1], 36)))
    except (ValueError, OverflowError) as error:
        raise InvalidRef("this ref names no pack: use one that the API answered, whole and unchanged") from error
    return Key(parts[0], PackName(newest, parts[2]).sk)


def find_key_range(start: datetime, end: datetime, span: int) -> tuple[str, str]:
    """The sort keys ``low <= sk < high`` of every pack and plain item that may hold an event of ``[start, end)``.

    The newest event of a pack that holds a time is less than ``span`` seconds newer.
    """
    return to_text(max(start, EPOCH)), shift_time(to_text(end), span)


def shift_time(time: str, seconds: int) -> str:
    """The text of a time so many seconds later, or earlier."""
    moved = from_text(time).astimezone(UTC) + timedelta(seconds=seconds)
    return to_text(min(max(moved, EPOCH), LATEST))


def _encode_base36(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
    return digits or "0"
