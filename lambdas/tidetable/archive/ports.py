"""What archiving needs of the world besides the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from tidetable.events import Event, Item


class Source(Protocol):
    """The table that is archived."""

    def scan(self, table: str) -> Iterable[Item]:
        """Every item of the table, in any order; TableMissing if there is none."""
        ...


class Objects(Protocol):
    """The bucket that archives are kept in."""

    def put(self, key: str, body: bytes) -> None: ...
    def get(self, key: str) -> bytes: ...
    def clear(self, prefix: str) -> None:
        """Delete every object under the prefix."""
        ...


class Format(Protocol):
    """How a part's events become bytes, and events again."""

    def encode(self, events: Sequence[Event]) -> bytes: ...
    def decode(self, body: bytes) -> Sequence[Event]: ...
