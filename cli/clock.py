"""The clock of the commands. It is in one place, so that tests can replace it."""

from __future__ import annotations

from datetime import UTC, datetime


def read_clock() -> datetime:
    """Return the present instant, in UTC."""
    return datetime.now(UTC)
