"""Where keys are kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from tidetable.credentials.records import KeyRecord


class Keys(Protocol):
    """The keys of a stage. What reads is strongly consistent; what writes answers False if its condition does not hold."""

    def all(self) -> Sequence[KeyRecord]:
        """Every key, revoked ones too, by their ids in order."""
        ...

    def find(self, id: str) -> KeyRecord | None:
        """The key of an id."""
        ...

    def add(self, record: KeyRecord) -> bool:
        """Add a key; False if there is one of this id."""
        ...

    def rotate(self, record: KeyRecord, before: KeyRecord) -> bool:
        """Replace a key by itself with another secret; False if it was rotated or revoked since ``before`` was read."""
        ...

    def revoke(self, id: str, now: datetime) -> bool:
        """Mark a key as revoked; False if there is none."""
        ...

    def forget(self, id: str) -> bool:
        """Delete a key; False if it was revoked."""
        ...
