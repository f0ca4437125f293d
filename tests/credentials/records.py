"""Keys for tests."""

from datetime import UTC, datetime
from typing import Any

from tidetable.access import SCOPES, Access, Scope
from tidetable.credentials import CredentialRecord, Secret
from tidetable.credentials.text import read_id

NOW = datetime(2026, 3, 12, 12, tzinfo=UTC)
SALT = bytes(range(1, 17))


def record(
    text: str,
    streams: set[str] | None = None,
    can: tuple[Scope, ...] = SCOPES,
    series_prefix: str = "",
    **facts: Any,
) -> CredentialRecord:
    """A key with a text, which is counted by a gateway key named after it."""
    id = read_id(text)
    assert id is not None
    access = Access(id, None if streams is None else frozenset(streams), frozenset(can), series_prefix)
    facts = {"meter": f"meter-of-{id}", **facts}
    return CredentialRecord(id, "test", access, NOW, (Secret.of(text, SALT),), **facts)
