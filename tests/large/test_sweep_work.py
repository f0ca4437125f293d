"""The daily sweep as a work item: the schedule wakes a worker, and what is late, doubled, unfinished or paused."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import settings
import wiring
from tests.api.gateway import Context
from tests.fakes.stage import Stage
from tests.fakes.work_queue import FakeWorkQueue
from tests.worlds.large import CONFIG, orphan
from tidetable.large.sweep import sweep
from tidetable.large.sweep_work import SWEEP, find_due_sweep
from tidetable.times import to_text
from tidetable.work.claim import Pause, WorkItem
from tidetable.work.schedule import wake_workers
from wiring_upkeep import Upkeep

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


class Sweeping:
    """The sweeper's function on a stage with orphaned objects, and its queue."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler
        self.stage = Stage(NOON, CONFIG)
        while self.stage.run_lifecycle().done:
            pass
        self.queue = FakeWorkQueue()
        self.add_orphans(0)
        self.stage.clock.sleep(2 * 86_400)
        self.pipeline: Upkeep = self.stage.pipeline
        self.pipeline.work_queue = self.queue

    def add_orphans(self, first: int) -> None:
        for number in range(first, first + 3):
            self.stage.values.put(orphan(self.stage, "stored", number))

    def count_objects(self) -> int:
        return len(self.stage.values.blobs)

    def call(self, **event: Any) -> Any:
        with wiring.serve_pipeline(self.pipeline):
            return self._handler(event, Context())

    def deliver(self) -> Any:
        name = self.queue.messages.pop(0)
        return self.call(Records=[{"messageId": "m", "body": json.dumps(name._asdict())}])

    def find_record(self) -> WorkItem:
        (record,) = self.pipeline.work.list_items("sweep")
        return record


@pytest.fixture
def sweeping(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sweeping]:
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    monkeypatch.setenv("TIDETABLE_STAGE", "lapse")
    settings.read_settings.cache_clear()
    yield Sweeping(importlib.import_module("handlers.sweeper").handler)
    settings.read_settings.cache_clear()


def test_the_schedule_wakes_a_worker_which_sweeps_once_a_day(sweeping: Sweeping) -> None:
    assert sweeping.call(source="schedule") == {"due": 1, "running": 0, "sent": 1}
    assert (sweeping.queue.messages, sweeping.count_objects()) == ([SWEEP], 3)
    assert sweeping.deliver() == {"batchItemFailures": []}
    assert sweeping.count_objects() == 0
    sweeping.stage.clock.sleep(86_400 - 60)
    assert sweeping.call(source="schedule") == {"due": 1, "running": 0, "sent": 1}


def test_a_message_that_comes_twice_or_late_sweeps_nothing(sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def count_sweep(*given: Any) -> Any:
        calls.append(given)
        return sweep(*given)

    monkeypatch.setattr("tidetable.large.sweep_work.sweep", count_sweep)
    sweeping.call(source="schedule")
    sweeping.queue.messages *= 3
    sweeping.deliver()
    sweeping.add_orphans(3)
    sweeping.deliver()
    sweeping.stage.clock.sleep(19 * 3_600)
    sweeping.deliver()
    assert sweeping.call(source="schedule") == {"due": 0, "running": 0, "sent": 0}
    assert (sweeping.count_objects(), sweeping.find_record().generation, len(calls)) == (3, 3, 1)


def test_two_schedulers_at_the_same_time_wake_one_sweep(sweeping: Sweeping) -> None:
    work, now = sweeping.pipeline.work, sweeping.stage.clock.now()
    found = [find_due_sweep(work, now) for _ in range(2)]
    assert [wake_workers(due, 1, work, sweeping.queue, now).sent for due in found] == [1, 1]
    while sweeping.queue.messages:
        sweeping.deliver()
        sweeping.add_orphans(3)
    assert (sweeping.count_objects(), sweeping.find_record().generation) == (3, 2)


def test_while_a_worker_sweeps_another_one_does_not(sweeping: Sweeping) -> None:
    now = sweeping.stage.clock.now()
    assert sweeping.pipeline.work.claim(*SWEEP, "another", now, now + HOUR)
    assert sweeping.call(source="schedule") == {"due": 1, "running": 1, "sent": 0}
    sweeping.queue.send([SWEEP])
    assert sweeping.deliver() == {"batchItemFailures": []}
    assert (sweeping.count_objects(), sweeping.queue.messages) == (3, [])


def test_a_sweep_whose_time_is_up_goes_on_with_the_next_message(
    sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidetable.large.sweep_work._SHARE", 19.0)
    sweeping.call(source="schedule")
    sweeping.deliver()
    assert (sweeping.queue.messages, sweeping.count_objects(), sweeping.find_record().memo) == ([SWEEP], 3, "")
    monkeypatch.undo()
    sweeping.deliver()
    assert (sweeping.queue.messages, sweeping.count_objects()) == ([], 0)


def test_a_sweep_that_rests_is_neither_sent_nor_done(sweeping: Sweeping) -> None:
    pause = Pause("sweep", "*")
    sweeping.call(source="schedule")
    sweeping.pipeline.work.set_pause(pause, on=True)
    sweeping.deliver()
    sweeping.stage.clock.sleep(3_600)
    assert sweeping.call(source="schedule") == {"due": 0, "running": 0, "sent": 0}
    assert sweeping.count_objects() == 3
    sweeping.pipeline.work.set_pause(pause, on=False)
    assert sweeping.call(source="schedule")["sent"] == 1


def test_objects_that_cannot_be_checked_fail_the_call_and_are_tried_again_tomorrow(sweeping: Sweeping) -> None:
    def fail(keys: Any) -> None:
        raise TimeoutError("no answer")

    sweeping.stage.values.delete = fail  # type: ignore[method-assign]
    sweeping.call(source="schedule")
    with pytest.raises(Exception, match=r"could not be checked, such as large/stream=stored/.*no answer"):
        sweeping.deliver()
    assert "no answer" in sweeping.find_record().problem
    assert sweeping.find_record().memo == to_text(sweeping.stage.clock.now() + 20 * HOUR)
