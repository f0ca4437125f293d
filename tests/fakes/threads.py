"""Threads with a shared manual clock. Parallel tasks take the time of the longest task."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

from strict import ManualClock
from tidetable.ports import Pools


class SharedClock(ManualClock):
    """A clock that stands still while a worker works. When all workers sleep, it moves to the earliest wake-up time."""

    def __init__(self, now: datetime) -> None:
        super().__init__(now)
        self._turn = threading.Condition()
        self._workers = 0
        self._wakes: dict[int, datetime] = {}

    def expect(self, workers: int) -> None:
        """Set the number of working threads."""
        with self._turn:
            self._workers = workers
            self._move()

    def sleep(self, seconds: float) -> None:
        me = threading.get_ident()
        with self._turn:
            wake = self.time + timedelta(seconds=seconds)
            if not self._workers:
                self.time = wake
                return
            self._wakes[me] = wake
            self._move()
            assert self._turn.wait_for(lambda: self.time >= wake, timeout=60), "a worker neither sleeps nor ends"
            del self._wakes[me]

    def _move(self) -> None:
        if self._wakes and len(self._wakes) >= self._workers and min(self._wakes.values()) > self.time:
            self.time = min(self._wakes.values())
            self._turn.notify_all()


def side_by_side(clock: SharedClock) -> Pools:
    """Make pools whose threads share the clock."""

    class Pool(ThreadPoolExecutor):
        def __init__(self, width: int) -> None:
            super().__init__(width)
            self._width = width

        def map(self, act: Callable[..., Any], *arguments: Iterable[Any], **_: Any) -> Iterator[Any]:  # type: ignore[override]
            tasks = list(zip(*arguments, strict=True))
            left, lock = [len(tasks)], threading.Lock()

            def work(task: tuple[Any, ...]) -> Any:
                try:
                    return act(*task)
                finally:
                    with lock:
                        left[0] -= 1
                        clock.expect(min(self._width, left[0]))

            clock.expect(min(self._width, len(tasks)))
            return iter(list(super().map(work, tasks)))

    return Pool
