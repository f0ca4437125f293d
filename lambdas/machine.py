"""This machine: its clock, its randomness and its threads."""

from __future__ import annotations

import os
import random
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from concurrent.futures import Executor


class SystemClock:
    """The time of this machine."""

    def now(self) -> datetime:
        """Return the present instant in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)


def draw_pause(longest: float) -> float:
    """Draw a random number between 0 and ``longest``."""
    # SystemRandom reads the system's own source. Functions that start from one snapshot share the state of Python's own
    # generator, so they would draw the same numbers.
    return random.SystemRandom().uniform(0, longest)


def make_pool(width: int) -> Executor:
    """Make a pool of ``width`` threads."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(width)


def draw_name() -> str:
    """128 random bits as 32 hexadecimal digits."""
    return os.urandom(16).hex()


def draw_salt() -> bytes:
    """128 random bits."""
    return os.urandom(16)
