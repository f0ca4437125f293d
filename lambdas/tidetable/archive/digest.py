"""A digest of a set of events that does not depend on their order."""

from __future__ import annotations

from decimal import Decimal
from hashlib import sha256
from typing import Any

import msgspec

from tidetable.events import Event
from tidetable.times import to_text

_BITS = 128
_ENCODER = msgspec.json.Encoder(decimal_format="number", order="sorted")


class Digest:
    """Counts events and sums their hashes modulo 2**128: what was added in any order gives the same result.

    A sum, unlike an exclusive or, also sees an event that is there twice.
    """

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0

    def add(self, event: Event) -> None:
        """Take an event into account."""
        content = (to_text(event.time), event.series, event.id, _canonical(event.data))
        hashed = sha256(_ENCODER.encode(content)).digest()
        self._sum = (self._sum + int.from_bytes(hashed[: _BITS // 8], "big")) % 2**_BITS
        self.count += 1

    def hex(self) -> str:
        """The digest as 32 hexadecimal digits."""
        return f"{self._sum:032x}"


def _canonical(value: Any) -> Any:
    """The value with each number in one spelling: DynamoDB keeps numbers, not their texts."""
    match value:
        case Decimal():
            return value.normalize()
        case int() if not isinstance(value, bool):
            return Decimal(value).normalize()
        case dict():
            return {name: _canonical(inner) for name, inner in value.items()}
        case list():
            return [_canonical(inner) for inner in value]
    return value
