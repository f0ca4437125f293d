"""A filter of the series of a part, or of a row group: a Bloom filter, small enough for the manifest.

A part without a series is opened for it in about one of a hundred cases, up to some 3,000 series per part; with more
series the filter keeps its size and becomes less exact. The least and the greatest series of a part are then the bounds.
A part has up to a hundred row groups, so their filters are more exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

# With 10 bits per series and 7 bits set for each, a filter is wrong for 0.8 % of the series that it does not have; with
# 20 bits, for 0.02 %. A filter of few series is wrong more often if it is short: 2 % with 10 series in 13 bytes.
_BITS, _EXACT_BITS, _HASHES = 10, 20, 7
_LEAST_BYTES, _MOST_BYTES = 64, 4_096


def make_filter(series: Iterable[str], *, exact: bool = False) -> bytes:
    """Make the filter of some different series; ``exact`` takes twice the bytes, and is wrong for few series."""
    names = list(series)
    size = min(max(_LEAST_BYTES, -(-len(names) * (_EXACT_BITS if exact else _BITS) // 8)), _MOST_BYTES)
    bits = bytearray(size)
    for name in names:
        for bit in _list_bits(name, size):
            bits[bit >> 3] |= 1 << (bit & 7)
    return bytes(bits)


def may_hold(bits: bytes, series: str) -> bool:
    """True if the filter may have been made of this series; an empty filter may."""
    return not bits or all(bits[bit >> 3] & 1 << (bit & 7) for bit in _list_bits(series, len(bits)))


def _list_bits(series: str, size: int) -> list[int]:
    """List the bits that a series sets in a filter of ``size`` bytes."""
    digest = blake2b(series.encode(), digest_size=16).digest()
    first, step = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big") | 1
    return [(first + number * step) % (8 * size) for number in range(_HASHES)]
