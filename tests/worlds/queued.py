"""Rollups of a world whose scheduler wakes workers by a queue."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from tests.fakes.refresher import work_on_message
from tests.fakes.work_queue import FakeWorkQueue
from tests.worlds.rolled import LENGTH, Struck, World
from tests.worlds.runs import begin_run
from tidetable.rollups.refresh import RollupStanding, schedule_rollups
from tidetable.rollups.run import RefreshReport
from tidetable.work.claim import ItemName
from tidetable.work.schedule import WorkReport

WORKERS = 4


class Queued:
    """A world, its queue, and the reports of its workers."""

    def __init__(self, world: World, workers: int = WORKERS) -> None:
        self.world = world
        self.workers = workers
        self.queue = FakeWorkQueue()
        self.reports: list[RefreshReport | None] = []
        self._numbers = count()

    def schedule(self, strike: Callable[[], None] = lambda: None) -> tuple[WorkReport, RollupStanding] | None:
        """Let the scheduler run once."""
        services = begin_run(self.world, strike)
        queue: Any = Struck(self.queue, strike)
        return schedule_rollups(self.world.definitions, services, queue, self.workers, LENGTH)

    def work_on(self, name: ItemName, strike: Callable[[], None] = lambda: None) -> None:
        """Let a worker have a message."""
        services, owner = begin_run(self.world, strike), f"worker {next(self._numbers)}"
        queue: Any = Struck(self.queue, strike)
        definitions, workers = self.world.definitions, self.workers
        self.reports.append(work_on_message(name, definitions, services, queue, workers, owner, LENGTH))

    def run(self) -> None:
        """Let the scheduler run once, and workers have all messages."""
        self.schedule()
        self.queue.deliver(self.work_on)
