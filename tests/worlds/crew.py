"""Workers that work at the same time on the items of a queue, in virtual time: each request and each page takes its time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from random import Random
from threading import Lock, Thread
from typing import Any

from tests.worlds.queued import Queued
from tests.worlds.rolled import Killed, World
from tidetable.rollups.refresh import RollupStanding
from tidetable.work.claim import ItemName
from tidetable.work.schedule import WorkReport

# Half of a request, before it takes effect and afterwards: 5 milliseconds together.
_HALF = 0.0025
# The seconds after which the queue delivers a message again whose worker died.
_VISIBILITY = 1_800.0


class Crew(Queued):
    """A scheduler and ``workers``. Each takes a message when it is free, and dies at the request that ``choose_death`` says.

    A worker computes ``speed`` events per second, and the stream's tables deliver ``table_speed`` to all workers together.
    Only one run goes on at a time, the one whose time has come, so a test is the same each time.
    """

    def __init__(
        self, world: World, workers: int, speed: float, table_speed: float, choose_death: Callable[[], int]
    ) -> None:
        super().__init__(world, workers)
        self.events_read = [0] * workers
        self.died = 0
        self.taken: list[ItemName] = []
        self.found: list[tuple[WorkReport, RollupStanding]] = []
        self._speed, self._table_speed, self._table_free = speed, table_speed, world.time
        self._choose_death = choose_death
        self._idle = [*range(workers)]
        self._worker: int | None = None
        self._waiting: list[tuple[datetime, int, Lock]] = []
        self._orders = count()
        self._end = world.time
        self._back = _close()
        self._errors: list[BaseException] = []
        self._send, self.queue.send = self.queue.send, self._send_and_wake  # type: ignore[method-assign]
        self._query, world.store.query_many = world.store.query_many, self._query_slowly  # type: ignore[method-assign]

    def double_messages(self, chance: Random) -> None:
        """Let the queue deliver each message twice, and all of them in any order."""
        send = self.queue.send

        def send_twice(names: Sequence[ItemName]) -> Sequence[ItemName]:
            send([*names, *names])
            chance.shuffle(self.queue.messages)
            return names

        self.queue.send = send_twice  # type: ignore[method-assign]

    def schedule_twice(self, minutes: int) -> None:
        """Let two schedulers begin at the same time in each minute."""
        for _ in range(minutes):
            self.begin_schedule()
            self.begin_schedule()
            self.go_on(self.world.time + timedelta(minutes=1))

    def begin_schedule(self) -> None:
        """Let the scheduler begin now. What it finds is appended to ``found``."""

        def schedule() -> None:
            if (found := self.schedule(self._take_half)) is not None:
                self.found.append(found)

        self._begin(schedule, None)

    def go_on(self, end: datetime) -> None:
        """Let all runs go on until an instant."""
        self._end = end
        self._switch()
        self._back.acquire()
        if self._errors:
            raise self._errors[0]
        self.world.time = end

    def _begin(self, work: Callable[[], object], worker: int | None) -> None:
        gate = _close()

        def run() -> None:
            gate.acquire()
            self._worker = worker
            try:
                work()
            except BaseException as error:
                self._errors.append(error)
            if worker is not None:
                self._idle.append(worker)
                self._wake()
            self._switch()

        Thread(target=run, daemon=True).start()
        heappush(self._waiting, (self.world.time, next(self._orders), gate))

    def _wake(self) -> None:
        while self.queue.messages and self._idle:
            name, worker = self.queue.messages.pop(0), self._idle.pop(0)
            self.taken.append(name)
            self._begin(self._make_work(name), worker)

    def _make_work(self, name: ItemName) -> Callable[[], None]:
        left = self._choose_death()

        def work() -> None:
            try:
                self.work_on(name, strike)
            except Killed:
                self.died += 1
                self._begin(lambda: self._return(name), None)

        def strike() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                raise Killed
            self._take_half()

        return work

    def _return(self, name: ItemName) -> None:
        """Let the queue deliver a message again whose worker died."""
        self._pass(_VISIBILITY)
        self._send_and_wake([name])

    def _send_and_wake(self, names: Sequence[ItemName]) -> Sequence[ItemName]:
        accepted = self._send(names)
        self._wake()
        return accepted

    def _query_slowly(self, reads: Any, **how: Any) -> Any:
        pages = self._query(reads, **how)
        worker = self._worker
        if worker is not None and reads[0].keys.table.startswith("tidetable-t.s."):
            events = sum(page.read for page in pages if page is not None)
            self.events_read[worker] += events
            now = self.world.time
            self._table_free = max(self._table_free, now) + timedelta(seconds=events / self._table_speed)
            self._pass(max((self._table_free - now).total_seconds(), events / self._speed))
        return pages

    def _take_half(self) -> None:
        self._pass(_HALF)

    def _pass(self, seconds: float) -> None:
        """Let time pass in a run. Other runs go on meanwhile."""
        at, worker = self.world.time + timedelta(seconds=seconds), self._worker
        if at <= self._end and not (self._waiting and self._waiting[0][0] <= at):
            self.world.time = at
            return
        gate = _close()
        heappush(self._waiting, (at, next(self._orders), gate))
        self._switch()
        gate.acquire()
        self._worker = worker

    def _switch(self) -> None:
        """Let the run go on whose time has come; if it comes after the end, let ``go_on`` return."""
        if self._waiting and self._waiting[0][0] <= self._end and not self._errors:
            self.world.time, _, gate = heappop(self._waiting)
            gate.release()
        else:
            self._back.release()


def _close() -> Lock:
    """Make a gate at which a run waits until another run opens it."""
    gate = Lock()
    gate.acquire()
    return gate
