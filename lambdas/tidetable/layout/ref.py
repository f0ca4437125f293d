"""Refs: a ref names one event for ever. The event's table and key are calculated from it, without a read."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from binascii import b2a_base64
from collections.abc import Sequence
from functools import lru_cache
from json.encoder import encode_basestring as quote_name
from operator import add
from typing import Self

import msgspec

from tidetable.errors import InvalidRef
from tidetable.layout.period_layout import Key
from tidetable.periods import Period, parse_label

_VERSION = 1
_FILL = ("", "  ", " ")
# AWS: a sort key has 1,024 bytes at the most.
_LONGEST_KEY = 1024
_PLAIN_ASCII = bytes(code for code in range(ord(" "), ord("~") + 1) if chr(code) not in '"\\')
# Base64 writes ASCII with "+" or "/" only if the third byte of a group is one of these characters.
_UNSAFE = ">?~\x7f"
_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_BETWEEN = "\xff\xff\xff"
# For each length of a key: the text after the key, padded to a whole group of Base64, and the beginning of the next
# key. Two quotes and a bracket are a whole group of three bytes, so the length of the key alone decides the padding.
_BETWEEN_KEYS = [f'"]{_FILL[length % 3]}{_BETWEEN}"' for length in range(_LONGEST_KEY + 1)]


def encode_ref(stream: str, label: str, pk: str, sk: str) -> str:
    """Encode a ref as URL-safe text without padding."""
    return encode_ref_head(stream, label, pk) + encode_ref_tail(sk)


def encode_refs(stream: str, label: str, pks: Sequence[str], sks: Sequence[str]) -> list[str]:
    """Encode the refs of several events of a period as URL-safe text, from columns: partition keys and sort keys."""
    heads = {pk: encode_ref_head(stream, label, pk) for pk in set(pks)}
    whole = "".join(sks)
    tails = encode_ref_tails(sks, plain=whole.isascii() and is_plain(whole))
    return list(map(add, map(heads.__getitem__, pks), tails))


@lru_cache(maxsize=1024)
def encode_ref_head(stream: str, label: str, pk: str) -> str:
    """Encode the common beginning of a partition's refs, padded with spaces to whole groups of Base64."""
    raw = msgspec.json.encode((_VERSION, stream, label, pk))[:-1] + b","
    return b2a_base64(raw + b" " * (-len(raw) % 3), newline=False).translate(_URL_SAFE).decode()


def encode_ref_tail(sk: str) -> str:
    """Encode the end of an event's ref, which differs between the events of a partition."""
    return b2a_base64(_make_tail(sk).encode(), newline=False).translate(_URL_SAFE).decode()


def encode_ref_tails(sks: Sequence[str], *, plain: bool) -> list[str]:
    """Encode the ends of several refs at once; ``plain`` keys are ASCII, and need no escape in JSON."""
    if not plain and not "".join(sks).isascii():
        return [encode_ref_tail(sk) for sk in sks]
    if not sks:
        return []
    # Three bytes 0xFF become four times Base64's last digit. ASCII never becomes that: the first bit of its bytes is 0.
    if plain:
        # The text between two keys depends on the length of the first key alone, so slices insert it without a loop in Python.
        pieces = [""] * (2 * len(sks))
        pieces[0::2] = sks
        pieces[1::2] = map(_BETWEEN_KEYS.__getitem__, map(len, sks))
        text = f'"{"".join(pieces)}'[: -len(f'{_BETWEEN}"')]
    else:
        text = _BETWEEN.join(map(_make_tail, sks))
    encoded, between = b2a_base64(text.encode("latin-1"), newline=False), "////"
    if any(map(text.__contains__, _UNSAFE)):
        encoded, between = encoded.translate(_URL_SAFE), "____"
    return encoded.decode().split(between)


def is_plain(text: str) -> bool:
    """True if a text surely needs no escape in JSON. Some texts that need no escape give False, too."""
    if text.isascii():
        # This takes a fifth of the time of the check below.
        return not text.encode().translate(None, _PLAIN_ASCII)
    return text.isprintable() and '"' not in text and "\\" not in text


def _make_tail(sk: str) -> str:
    """Make the end of a ref's JSON, padded with spaces to whole groups of Base64."""
    text = f"{quote_name(sk)}]"
    return text + _FILL[(len(text) if text.isascii() else len(text.encode())) % 3]


class Ref(msgspec.Struct, frozen=True):
    """Stream, period and key of one event."""

    stream: str
    period: Period
    key: Key

    def encode(self) -> str:
        return encode_ref(self.stream, self.period.label, self.key.pk, self.key.sk)

    @classmethod
    def decode(cls, text: str) -> Self:
        """Decode a text that ``encode_ref`` wrote; InvalidRef for any other text."""
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            version, stream, label, pk, sk = msgspec.json.decode(raw, type=tuple[int, str, str, str, str])
            if version != _VERSION or not (0 < len(pk.encode()) <= 2048 and 0 < len(sk.encode()) <= 1024):
                raise ValueError("another version, or a key of another length")
            return cls(stream=stream, period=parse_label(label), key=Key(pk, sk))
        except ValueError as error:
            raise InvalidRef("this is not a ref: use a ref that the API answered, whole and unchanged") from error
