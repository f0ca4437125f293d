"""The clock of the commands, in one place, so that no test reads the real one."""

from __future__ import annotations

from datetime import UTC, datetime


def read_clock() -> datetime:
    """The present instant, in UTC."""
    return datetime.now(UTC)
