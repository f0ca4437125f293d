"""The keys of packs: a pack's key, the address of an event in a pack, and the range of the packs that may hold a time.

A pack's sort key is ``<time of its newest event>##<hash>``. The sort key of a plain item has a name after its first
separator, so it never equals the key of a pack. In a partition, packs and plain items are in one order of time.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import NamedTuple

from tidetable.errors import InvalidRef
from tidetable.events import Item
from tidetable.layout.period_layout import Key, Layout
from tidetable.times import EPOCH, LATEST, from_micros, from_text, to_micros, to_text

_BETWEEN = "##"
_TIME = 27
_SEPARATORS = 3
_HASH_BYTES = 16
HASH_CHARACTERS = 22
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class PackName(NamedTuple):
    """The part of a pack's key that is calculated from the pack itself."""

    newest: str
    hash: str

    @property
    def sk(self) -> str:
        """The sort key."""
        return f"{self.newest}{_BETWEEN}{self.hash}"


def is_pack(item: Item) -> bool:
    """True if an item holds several events."""
    return "pack" in item


def hash_body(body: bytes) -> str:
    """Hash a pack's body: 128 bits over identities and content, as 22 characters of URL-safe Base64.

    These are the first 16 bytes of SHA-256 over the body before it is compressed.
    """
    return urlsafe_b64encode(sha256(body).digest()[:_HASH_BYTES])[:HASH_CHARACTERS].decode()


def make_pack_key(logical: str, name: PackName, layout: Layout, series: str) -> Key:
    """Make the key of a pack that holds events of a series.

    Its suffix is calculated from the series if the layout says so, otherwise from the pack's hash, by the same rule as
    every suffix.
    """
    return Key(f"{logical}#{layout.compute_suffix(series, name.hash)}", name.sk)


def parse_sort_key(sk: str) -> PackName | None:
    """Return the pack that a sort key names; None for the sort key of a plain item."""
    if sk[_TIME : _TIME + len(_BETWEEN)] != _BETWEEN:
        return None
    return PackName(sk[:_TIME], sk[_TIME + len(_BETWEEN) :])


def make_address(pk: str, name: PackName) -> str:
    """Make the text that replaces the partition key in the ref of an event in a pack: the pack's partition key and its
    name.

    The ref's sort key is the event's place. So the ref names the pack, which one GetItem reads, and the event in it.
    """
    return f"{pk}#{_encode_base36(to_micros(from_text(name.newest)))}#{name.hash}"


def is_address(pk: str) -> bool:
    """True if the partition key of a ref is an address, which names a pack. A plain partition key has one separator."""
    return pk.count("#") == _SEPARATORS


def parse_address(text: str) -> Key:
    """Return the key of the pack that an address names; InvalidRef if it does not name a pack."""
    try:
        pk, newest, hash = text.rsplit("#", 2)
        if not is_address(text) or len(hash) != HASH_CHARACTERS or not newest.isalnum():
            raise ValueError("this is not an address")
        return Key(pk, PackName(to_text(from_micros(int(newest, 36))), hash).sk)
    except (ValueError, OverflowError) as error:
        problem = "this ref does not name a pack: use a ref that the API answered, whole and unchanged"
        raise InvalidRef(problem) from error


def find_key_range(start: datetime, end: datetime, span: int) -> tuple[str, str]:
    """Return a range of sort keys, ``low <= sk < high``, with every pack and plain item that may hold an event of
    ``[start, end)``.

    If a pack holds an event of a time, the newest event of the pack is less than ``span`` seconds newer than this time.
    """
    return to_text(max(start, EPOCH)), shift_time(to_text(end), span)


def shift_time(time: str, seconds: int) -> str:
    """Return the text of the time that is ``seconds`` later; earlier if ``seconds`` is negative."""
    moved = from_text(time).astimezone(UTC) + timedelta(seconds=seconds)
    return to_text(min(max(moved, EPOCH), LATEST))


def _encode_base36(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = _DIGITS[rest] + digits
    return digits or "0"
