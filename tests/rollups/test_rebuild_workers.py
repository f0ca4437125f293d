"""Workers compute the pieces of a rebuild: the cells are those of one run, whoever stops, is overtaken, or comes late."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.crew import Crew
from tests.worlds.divided import divide_short, list_filled
from tests.worlds.queued import Queued
from tests.worlds.rebuilt import cut_short, order, rebuild_alone, show_progress
from tests.worlds.rolled import LENGTH, MINUTES, QUERIES, START, Killed, World, reading, show_edges
from tests.worlds.runs import kill_run, refresh
from tidetable.periods import Kind
from tidetable.rollups.rebuild import cancel_rebuild
from tidetable.work.claim import ItemName, Pause

HOUR = timedelta(hours=1)
HOURLY = replace(MINUTES, every=HOUR)
FEW = [reading(12 * n, n, "ab"[n % 2], f"{n}", kind="xyz"[n % 3]) for n in range(20)]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A piece has two buckets, three are cut at once, and each item has its own message."""
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 0.0)
    cut_short(monkeypatch)


def prepare(days: int = 0, events: Any = FEW) -> World:
    """A rollup of hours that begins after ``days`` days and six hours, with earlier events."""
    world = World((HOURLY,))
    for day in range(4, days + 2):
        world.add_period("s", Kind.DAY, START + timedelta(days=day), world.layout)
        world.add_period("s-m", Kind.DAY, START + timedelta(days=day), world.entry("s-m", START).layout)
    world.sleep(days * 86_400 + 5 * 3_600)
    world.write(*events)
    world.rollups.marks.clear()
    world.rollups.new.clear()
    refresh(world, "begin")
    world.sleep(2 * 3_600 + 300)
    refresh(world, "seal")
    return world


def settle(queued: Queued) -> None:
    """Run until nothing is due. In between all claims end, and messages that were lost are sent again."""
    for _ in range(12):
        queued.run()
        queued.world.sleep(930)
    assert (queued.world.work.list_items("rebuild"), queued.world.rollups.marks) == ([], {})


def list_expected(start: Any = START, events: Any = FEW) -> list[Any]:
    world = prepare(events=events)
    rebuild_alone(world, HOURLY, start)
    return list_filled(world)


class Rough:
    """Workers that are killed, begin within each other, and get late events; messages are lost and doubled."""

    def __init__(self, queued: Queued, chance: Random, days: int) -> None:
        self.queued, self.chance, self.days = queued, chance, days
        self.late = list[Any]()
        self.counts = dict.fromkeys(("killed", "nested", "lost"), 0)

    def take(self, depth: int = 1) -> None:
        """Let workers have a message, one after another, or let it get lost."""
        messages = self.queued.queue.messages
        name = messages.pop(self.chance.randrange(len(messages)))
        copies = self.chance.choice([0, 1, 1, 1, 2])
        self.counts["lost"] += not copies
        for _ in range(copies):
            with suppress(Killed):
                self.queued.work_on(name, self._make_strike(depth))

    def _make_strike(self, depth: int) -> Callable[[], None]:
        left = self.chance.randrange(20, 1_000)

        def strike() -> None:
            nonlocal left
            left -= 1
            if left <= 0:
                self.counts["killed"] += 1
                raise Killed
            if depth < self.queued.workers and self.queued.queue.messages and self.chance.random() < 0.02:
                self.counts["nested"] += 1
                self.take(depth + 1)
            if self.chance.random() < 0.003:
                self.late.append(draw_past(self.chance, self.days, first=2))
                self.queued.world.write(self.late[-1])

        return strike


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_a_month_by_several_workers_is_that_of_one_run(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    """The first days are archived, late events come into the others; buckets with more than four events are read in parts."""
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 0.0)
    cut_short(monkeypatch, buckets=10, at_once=12)
    divide_short(monkeypatch, part=2, whole=4)
    chance, days = Random(workers), 29
    events = [draw_past(chance, days) for _ in range(400)]
    world, alone = prepare(days, events), prepare(days, events)
    world.adds = alone.adds = True
    for one in (world, alone):
        for day in range(2):
            one.move_to_archive("s", START + timedelta(days=day))
    order(world, HOURLY, START, world.time)
    rough = Rough(Queued(world, workers), chance, days)
    for _ in range(3_000):
        if show_progress(world, HOURLY) is None:
            break
        rough.queued.schedule()
        while rough.queued.queue.messages and chance.random() < 0.95:
            rough.take()
        world.sleep(chance.choice([60, 130, 400]))
    world.check([{"from": "2026-03-10T00:00:00Z", "to": "2026-03-12T00:00:00Z", "step": "1h", "by": "series"}])
    settle(rough.queued)
    for event in rough.late:
        alone.write(event)
    rebuild_alone(alone, HOURLY, START)
    for number in range(8):
        alone.sleep(930)
        refresh(alone, f"settle {number}")
    assert min(len(rough.late), rough.counts["killed"], rough.counts["lost"]) > 4
    assert (rough.counts["nested"] > 10) is (workers > 1)
    assert show_edges(world, "m")[0].startswith("00:00")
    assert (len(list_filled(alone)) > 300, list_filled(world)) == (True, list_filled(alone))


def draw_past(chance: Random, days: int, first: int = 0) -> Any:
    minutes = chance.randrange(first * 96, days * 96) * 15
    return reading(minutes, chance.randrange(9), chance.choice("ab"), chance.choice("pq"), kind=chance.choice("xyz"))


def run_rebuild(queued: Queued, strike: Callable[[], None]) -> None:
    """Order a rebuild of sealed buckets and of buckets before the beginning, and run until it is done."""
    for _ in range(6):
        queued.schedule(strike)
        queued.queue.deliver(lambda name: queued.work_on(name, strike))
        queued.world.sleep(130)


def begin() -> Queued:
    world = prepare()
    assert order(world, HOURLY, START, START + 100 * HOUR) is None
    return Queued(world)


def test_schedulers_and_workers_may_be_killed_at_any_request(short: None) -> None:
    expected, calls = list_expected(), list[int]()
    first = begin()
    run_rebuild(first, lambda: calls.append(1))
    assert (list_filled(first.world), show_edges(first.world, "m")) == (expected, ["00:00-07:00"])
    assert len(calls) > 300
    for number in range(1, len(calls) + 1, 13):
        queued = begin()
        kill_run(partial(run_rebuild, queued), number)
        queued.world.sleep(LENGTH.total_seconds() + 1)
        settle(queued)
        assert list_filled(queued.world) == expected, number
        assert show_edges(queued.world, "m")[0][:5] == "00:00"


@pytest.mark.parametrize("pause", [0.0, LENGTH.total_seconds() + 1, 86_400.0], ids=["at once", "later", "a day late"])
def test_a_worker_that_is_overtaken_at_any_request_changes_no_answer(short: None, pause: float) -> None:
    """While it stands still, an event changes its group, another is new, and other workers go on."""
    calls: list[int] = []
    run_rebuild(begin(), lambda: calls.append(1))
    for number in range(2, len(calls) + 1, 31):
        queued, left = begin(), number
        queued.world.adds = True

        def strike() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                queued.world.write(reading(60, 9, "b", "5", kind="q"))  # noqa: B023
                queued.world.write(reading(61, 9, "b", "new", kind="q"))  # noqa: B023
                queued.world.sleep(pause)  # noqa: B023
                queued.run()  # noqa: B023

        run_rebuild(queued, strike)
        queued.world.check(QUERIES)
        settle(queued)
        assert queued.world.check(QUERIES) > 0, number


def test_a_message_that_comes_a_day_late_changes_nothing(short: None) -> None:
    queued, late = begin(), list[ItemName]()
    send = queued.queue.send

    def keep(names: Any) -> Any:
        late.extend(names)
        return send(names)

    queued.queue.send = keep  # type: ignore[method-assign]
    settle(queued)
    cells = list_filled(queued.world)
    queued.world.sleep(86_400)
    settle(queued)
    queued.run()
    edges = show_edges(queued.world, "m")
    assert {name.kind for name in late} == {"seal", "rebuild"}
    for name in late:
        queued.work_on(name)
    assert (list_filled(queued.world)[: len(cells)], show_edges(queued.world, "m")) == (cells, edges)


def test_two_schedulers_and_doubled_messages_in_any_order(short: None) -> None:
    """Workers have the same piece at the same time, and two schedulers send messages for it."""
    expected = list_expected()
    for seed in range(3):
        crew = Crew(begin().world, 4, 4, 16, lambda: 1_000_000)
        crew.double_messages(Random(seed))
        crew.schedule_twice(60)
        pieces = Counter(name for kind, name in crew.taken if kind == "rebuild")
        assert (len(pieces), min(pieces.values())) == (4, 2), seed
        assert (crew.world.work.list_items("rebuild"), list_filled(crew.world)) == ([], expected), seed
        assert show_edges(crew.world, "m")[0].startswith("00:00"), seed


def test_a_rebuild_of_a_stream_that_rests_waits(short: None) -> None:
    queued = begin()
    queued.schedule()
    queued.work_on(queued.queue.messages.pop())
    queued.world.work.set_pause(Pause("seal", "s"), on=True)
    progress = show_progress(queued.world, HOURLY)
    queued.world.sleep(930)
    queued.run()
    assert show_progress(queued.world, HOURLY) == progress
    queued.world.work.set_pause(Pause("seal", "s"), on=False)
    settle(queued)
    assert list_filled(queued.world) == list_expected()


def test_a_cancel_at_any_request_leaves_right_answers(short: None) -> None:
    calls: list[int] = []
    run_rebuild(begin(), lambda: calls.append(1))
    for number in range(2, len(calls) + 1, 67):
        queued, left = begin(), number

        def strike() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                cancel_rebuild(HOURLY, queued.world.services())  # noqa: B023
                queued.world.write(reading(60, 9, "b", "5", kind="q"))  # noqa: B023

        run_rebuild(queued, strike)
        queued.world.check(QUERIES)
        settle(queued)
        queued.world.check(QUERIES)
        assert order(queued.world, HOURLY, START, START + HOUR) is None
        settle(queued)
        assert show_edges(queued.world, "m")[0][:5] == "00:00"
        queued.world.check(QUERIES)
