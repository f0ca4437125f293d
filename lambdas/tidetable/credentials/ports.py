"""The store of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from tidetable.credentials.records import CredentialRecord


class CredentialStore(Protocol):
    """The keys of a stage. Reads are strongly consistent. A write returns False if its condition does not hold.

    A change of an existing key and its count are one write.
    """

    def all(self) -> Sequence[CredentialRecord]:
        """Read all keys, also revoked keys, in the order of their ids."""
        ...

    def find(self, id: str) -> CredentialRecord | None:
        """Read the key of an id; None if there is no such key."""
        ...

    def count_changes(self) -> Mapping[str, int]:
        """Read how often existing keys were changed, by the slots of their ids. A slot without changes is missing."""
        ...

    def add(self, record: CredentialRecord) -> bool:
        """Add a key; False if a key with this id exists."""
        ...

    def rotate(self, record: CredentialRecord, before: CredentialRecord) -> bool:
        """Give a key another secret; False if the key was rotated or revoked since ``before`` was read."""
        ...

    def revoke(self, id: str, now: datetime) -> bool:
        """Mark a key as revoked; False if there is no such key."""
        ...

    def forget(self, id: str) -> bool:
        """Delete a key; False if it was revoked, or if there is no such key."""
        ...
