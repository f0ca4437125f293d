"""The ports of the sweep over large values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from tidetable.layout import Key


class Stored(NamedTuple):
    """An object in the bucket."""

    key: str
    size: int
    written: datetime


class Store(Protocol):
    """The bucket's large values."""

    def stored(self, prefix: str, after: str = "") -> Iterable[Stored]:
        """List, in the order of keys, every object under a prefix whose key sorts after ``after``."""

    def folders(self, prefix: str) -> Iterable[str]:
        """List the folders directly under a prefix, each once, in order."""

    def owner(self, key: str) -> Key | None:
        """Return the key of an object's item; None if the object does not name it."""

    def delete(self, keys: Sequence[str]) -> None: ...


class Notes(Protocol):
    """The bucket's small objects, and the sizes of its archives."""

    def find(self, key: str) -> bytes | None: ...
    def put(self, key: str, body: bytes) -> None: ...
    def sizes(self, prefix: str) -> Mapping[str, int]: ...
