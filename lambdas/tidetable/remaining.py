"""The time that a request or a run may still take."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from tidetable.ports.records import Clock

# Returns how many seconds are left.
Remaining = Callable[[], float]


def limit_time(seconds: float, clock: Clock, remaining: Remaining) -> Remaining:
    """A function that returns how many of the ``seconds`` from now on are left, but no more than ``remaining()``."""
    end = clock.now() + timedelta(seconds=seconds)
    return lambda: min(remaining(), (end - clock.now()).total_seconds())
