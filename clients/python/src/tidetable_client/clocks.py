"""The clock and the waits of the client, in one place, so that a test can use its own clock."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from datetime import UTC, datetime


class Clock:
    """The machine's clock: ``read`` counts seconds and never jumps, ``read_date`` is the date."""

    def read(self) -> float:
        """Return the seconds since a fixed, but unknown instant."""
        return time.monotonic()

    def read_date(self) -> datetime:
        """Return the present instant, in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        """Wait, with the condition's lock, until the condition is notified or the time is over."""
        condition.wait(seconds)

    async def wait_for(self, event: asyncio.Event, seconds: float | None) -> None:
        """Wait until the event is set or the time is over."""
        # asyncio.wait_for is not used: before Python 3.12 it waits in a new task, and misses an event that is set
        # before the task runs.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()

    async def sleep_async(self, seconds: float) -> None:
        """Wait, and let other tasks run."""
        await asyncio.sleep(seconds)
