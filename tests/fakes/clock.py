"""A clock that moves when a test moves it, and when a function sleeps."""

from datetime import datetime, timedelta


class FakeClock:
    def __init__(self, now: datetime) -> None:
        self.time = now
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += timedelta(seconds=seconds)
