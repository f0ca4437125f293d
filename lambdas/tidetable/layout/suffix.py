"""The calculated suffix: it decides which of a logical partition's N partition keys holds an event."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from struct import Struct

_FIRST = Struct(">I").unpack_from


def compute_suffix(value: str, shards: int) -> int:
    """Calculate the suffix of a series or an id, ``0 <= suffix < shards``.

    The first four bytes of SHA-256 over the UTF-8 text, as a big-endian unsigned number, modulo the shard count. Any
    language can compute it in one line; docs/inside/suffix.md has test vectors. A checksum such as CRC-32 would be
    cheaper, but it is linear: ids that differ in a few patterned bits can then all land on a few suffixes.
    """
    return compute_each([value], shards)[0]


def compute_each(values: Sequence[str], shards: int) -> list[int]:
    """Calculate the suffix of each of these series or ids."""
    digests = [sha256(value.encode()).digest() for value in values]
    return [_FIRST(digest)[0] % shards for digest in digests]


def compute_suffixes(values: Sequence[str], shards: int) -> Sequence[int]:
    """Calculate the suffixes of these series or ids, sorted."""
    return sorted(set(compute_each(values, shards)))
