"""A scheduler, a queue and workers seal what one run seals, also if messages are late, doubled, lost or in another order."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.refresher import expect_failures
from tests.worlds.divided import EVENTS, divide_short, draw_event, list_cells, list_filled, prepare
from tests.worlds.queued import Queued
from tests.worlds.rolled import LENGTH, MINUTES, QUERIES, START, Killed, World, reading, show_edges
from tests.worlds.runs import kill_run, refresh
from tidetable.periods import Kind
from tidetable.rollups.run import RefreshReport
from tidetable.work.claim import ItemName, Pause

Begin = Callable[[], Queued]
Run = Callable[[Queued, Callable[[], None]], None]
PARTS = EVENTS[::4]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket with ten events has four parts or more, and each item has its own message."""
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 0.0)
    divide_short(monkeypatch, part=10, whole=5)


def list_whole(events: object = PARTS) -> list[object]:
    """The cells of buckets that one run has read as a whole."""
    with pytest.MonkeyPatch.context() as patch:
        divide_short(patch, part=1_000, whole=1_000)
        world = prepare(events=events)
        refresh(world, "run")
    return list_cells(world)


def settle(queued: Queued) -> None:
    """Run until nothing is due. In between all claims end, and messages that were lost are sent again."""
    queued.reports.clear()
    for _ in range(8):
        queued.run()
        queued.world.sleep(930)
    assert [report.failed for report in queued.reports if report is not None and report.failed] == []


def test_workers_seal_a_bucket_part_by_part_without_the_scheduler(short: None) -> None:
    queued = Queued(prepare(events=PARTS))
    queued.run()
    assert list_cells(queued.world) == list_whole()
    assert (queued.queue.messages, queued.world.work.list_items("part")) == ([], [])
    assert sum(report.sealed for report in queued.reports if report is not None) == 6
    # The sealing wakes three workers and goes on with the fourth part. Three find that part free, too: all but one come
    # in vain. Then the sealing again.
    assert len(queued.reports) == 9
    # The next minute has nothing to do: the mark of the events has not waited for long enough.
    scheduled = queued.schedule()
    assert scheduled is not None
    assert (scheduled[0].due, scheduled[0].sent, scheduled[1].marks, queued.queue.messages) == (0, 0, 1, [])


def test_a_worker_goes_on_with_its_stream_for_a_minute(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 60.0)
    queued = Queued(prepare(events=PARTS))
    queued.schedule()
    queued.work_on(queued.queue.messages.pop())
    # It has woken others for three parts, and goes on with the fourth.
    assert len(queued.queue.messages) == 3
    queued.queue.deliver(queued.work_on)
    assert list_cells(queued.world) == list_whole()
    # A part that takes longer than a minute is the last one of its worker.
    queued = Queued(prepare(events=PARTS))
    put_part = queued.world.rollups.put_part

    def put_slowly(*given: Any) -> None:
        queued.world.sleep(70)
        put_part(*given)

    queued.world.rollups.put_part = put_slowly  # type: ignore[method-assign, assignment]
    queued.schedule()
    queued.work_on(queued.queue.messages.pop())
    assert [name.kind for name in queued.queue.messages] == ["part"] * 3


def test_parts_go_to_as_many_workers_as_a_stream_may_have(short: None) -> None:
    queued = Queued(prepare(events=EVENTS), workers=4)
    queued.schedule()
    assert queued.queue.messages == [ItemName("seal", "s")]
    queued.work_on(queued.queue.messages.pop())
    # Its run wakes three others for the parts, and goes on itself.
    assert [name.kind for name in queued.queue.messages] == ["part"] * 4
    # That a bucket was divided is no problem of its stream.
    assert {record.problem for record in queued.world.work.records.values()} == {""}
    # The next part is one for which no message is under way.
    first, *others = queued.queue.messages
    queued.queue.messages.clear()
    queued.work_on(first)
    (following,) = queued.queue.messages
    assert following not in (first, *others[:2])
    queued.queue.messages.clear()
    queued.world.sleep(930)
    queued.schedule()
    # Of four workers one is for the sealing, and three are for the parts.
    assert [name.kind for name in queued.queue.messages] == ["seal", "part", "part", "part"]


def test_messages_in_any_order_each_twice(short: None) -> None:
    whole = list_whole()
    for seed in range(20):
        queued, chance = Queued(prepare(events=PARTS)), Random(seed)

        def work_twice(name: ItemName) -> None:
            for _ in range(2):
                queued.work_on(name)  # noqa: B023

        for _ in range(3):
            queued.schedule()
            queued.queue.deliver(work_twice, chance.randrange)
            queued.world.sleep(60)
        assert list_cells(queued.world)[: len(whole)] == whole, seed
        assert queued.world.work.list_items("part") == []


def test_a_message_that_comes_a_day_late_changes_nothing(short: None) -> None:
    queued = Queued(prepare(events=PARTS))
    late: list[ItemName] = []

    def work_and_keep(name: ItemName) -> None:
        late.append(name)
        queued.work_on(name)

    queued.schedule()
    queued.queue.deliver(work_and_keep)
    assert [name.kind for name in late] == ["seal", *["part"] * 7, "seal"]
    assert len({*late}) == 1 + 4
    queued.world.sleep(86_400)
    settle(queued)
    queued.run()
    cells, edges, records = list_cells(queued.world), show_edges(queued.world, "m"), dict(queued.world.work.records)
    for name in [*late, ItemName("part", "s#m#2026-03-02T01:00:00.000000Z#0000"), ItemName("seal", "unknown")]:
        queued.work_on(name)
    assert (list_cells(queued.world), show_edges(queued.world, "m")) == (cells, edges)
    assert queued.world.work.records.keys() - records.keys() <= {("seal", "unknown")}
    assert queued.world.check(QUERIES) > 0


def stop_at_every_request(
    begin: Callable[[], Queued], run: Callable[[Queued, Callable[[], None]], None], step: int = 1
) -> int:
    """Kill ``run`` at each of its requests, or at some; afterwards the world goes on, and has the cells of a whole run."""
    whole, calls = list_whole(), list[int]()
    run(begin(), lambda: calls.append(1))
    for number in range(1, len(calls) + 1, step):
        queued = begin()
        kill_run(partial(run, queued), number)
        queued.world.sleep(LENGTH.total_seconds() + 1)
        settle(queued)
        assert list_cells(queued.world)[: len(whole)] == whole, number
        assert (queued.world.work.list_items("part"), queued.world.rollups.parts) == ([], {}), number
        assert queued.world.check(QUERIES) > 0
    return len(calls)


def test_a_scheduler_may_be_killed_at_any_request(short: None) -> None:
    def begin() -> Queued:
        queued = Queued(prepare(events=PARTS))
        queued.schedule()
        queued.work_on(queued.queue.messages.pop())
        queued.queue.messages.clear()
        queued.world.sleep(930)
        return queued

    def run(queued: Queued, strike: Callable[[], None]) -> None:
        queued.schedule(strike)

    # The lease, pauses, streams, parts, rebuilds, a state, one sending and a note for each of four messages.
    assert stop_at_every_request(begin, run) == 2 * (6 + 1 + 4)


def test_a_worker_may_be_killed_at_any_request(short: None) -> None:
    def begin() -> Queued:
        queued = Queued(prepare(events=PARTS))
        queued.schedule()
        return queued

    def run(queued: Queued, strike: Callable[[], None]) -> None:
        queued.queue.deliver(lambda name: queued.work_on(name, strike))

    assert stop_at_every_request(begin, run, 3) > 100


@expect_failures("moved by another run")
@pytest.mark.parametrize("pause", [0.0, LENGTH.total_seconds() + 1, 86_400.0], ids=["at once", "later", "a day late"])
def test_a_worker_that_is_overtaken_at_any_request_changes_no_answer(short: None, pause: float) -> None:
    calls: list[int] = []
    queued = Queued(prepare(events=PARTS))
    queued.schedule()
    queued.queue.deliver(lambda name: queued.work_on(name, lambda: calls.append(1)))
    for number in range(2, len(calls) + 1, 6):
        queued, left = Queued(prepare(events=PARTS)), number

        def strike() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                queued.world.write(reading(60, 9, "a", "0", kind="z"))  # noqa: B023
                queued.world.sleep(pause)  # noqa: B023
                queued.run()  # noqa: B023

        queued.schedule()
        queued.queue.deliver(lambda name: queued.work_on(name, strike))  # noqa: B023
        queued.world.check(QUERIES)
        queued.world.sleep(1_000)
        settle(queued)
        assert (queued.world.check(QUERIES) > 0, queued.world.work.list_items("part")) == (True, []), number


@pytest.mark.parametrize("paused", ["s", "*"])
def test_a_pause_holds_for_the_scheduler_and_for_workers(short: None, paused: str) -> None:
    queued = Queued(prepare(events=PARTS))
    queued.schedule()
    sent = [*queued.queue.messages]
    queued.work_on(sent[0])
    sent += queued.queue.messages[1:]
    assert [name.kind for name in sent] == ["seal", *["part"] * 4]
    edges = show_edges(queued.world, "m")
    queued.world.work.set_pause(Pause("seal", paused), on=True)
    queued.queue.messages.clear()
    for name in sent:
        queued.work_on(name)
    queued.world.sleep(930)
    scheduled = queued.schedule()
    assert scheduled is not None
    assert (scheduled[0].due, queued.queue.messages, show_edges(queued.world, "m")) == (0, [], edges)
    queued.world.work.set_pause(Pause("seal", paused), on=False)
    settle(queued)
    assert list_cells(queued.world)[: len(list_whole())] == list_whole()


def test_a_run_of_a_former_version_shuts_out_scheduler_and_workers_until_its_lease_ends() -> None:
    queued = Queued(prepare(events=PARTS))
    world = queued.world
    world.sleep(LENGTH.total_seconds() + 1)
    assert world.catalog.acquire("rollups", "a former run", world.now(), LENGTH)
    edges = show_edges(world, "m")
    assert queued.schedule() is None
    queued.work_on(ItemName("seal", "s"))
    assert (queued.reports, queued.queue.messages, show_edges(world, "m")) == ([None], [], edges)
    world.sleep(LENGTH.total_seconds())
    queued.run()
    assert show_edges(world, "m") == ["00:10-01:20"]


def test_two_weeks_of_a_rough_queue_give_the_cells_of_one_run_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two worlds get the same events. In one a run reads whole buckets; in the other a queue loses, keeps and doubles messages.

    Schedulers and workers are killed, and other workers begin in between.
    """
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 0.0)
    half_hours = replace(MINUTES, every=timedelta(minutes=30))
    chance, days = Random(11), 14
    worlds = []
    for _ in range(2):
        world = World((half_hours,))
        for day in range(4, days + 1):
            at = START + timedelta(days=day)
            world.add_period("s", Kind.DAY, at, world.layout)
            world.add_period("s-m", Kind.DAY, at, world.entry("s-m", START).layout)
        refresh(world, "begin")
        world.sleep(3_600)
        worlds.append(world)
    reference, queued, counts = worlds[0], Queued(worlds[1]), dict.fromkeys(("lost", "late", "doubled", "killed"), 0)
    for _ in range(days * 12 - 2):
        now = (reference.time - START).total_seconds() / 60
        events = [draw_event(chance, now) for _ in range(chance.randrange(12))]
        for world in worlds:
            world.write(*events)
        divide_short(monkeypatch, part=1_000, whole=1_000)
        refresh(reference, "run")
        divide_short(monkeypatch, part=2, whole=3)
        reference.sleep(7_200)
        for _ in range(3):
            run_roughly(queued, chance, counts)
            queued.world.sleep(2_400)
    divide_short(monkeypatch, part=2, whole=3)
    for world in worlds:
        world.sleep(7_200)
    settle(queued)
    report: RefreshReport = refresh(queued.world, "last")
    assert (report.marks, report.failed, report.blocked) == (0, [], [])
    refresh(reference, "last")
    reference.time = queued.world.time
    refresh(reference, "last")
    assert min(counts.values()) > 20
    assert show_edges(queued.world, "m") == show_edges(reference, "m")
    assert len(list_cells(reference)) > 500
    assert list_filled(queued.world) == list_filled(reference)


def run_roughly(queued: Queued, chance: Random, counts: dict[str, int]) -> None:
    """One or two schedulers and then workers, of which some are killed or interrupted; some messages stay in the queue."""

    def strike_at(kill: int, interrupt: int) -> Callable[[], None]:
        calls = 0

        def strike() -> None:
            nonlocal calls
            calls += 1
            if calls == interrupt and queued.queue.messages:
                queued.work_on(queued.queue.messages[-1])
            if calls >= kill:
                raise Killed

        return strike

    def act(run: Callable[[Callable[[], None]], object]) -> None:
        try:
            run(strike_at(chance.randrange(4, 150), chance.randrange(100)))
        except Killed:
            counts["killed"] += 1

    for _ in range(chance.choice([1, 1, 2])):
        act(queued.schedule)
    messages, queued.queue.messages = queued.queue.messages, []
    for name in messages:
        fate, copies = chance.choice([("lost", 0), ("late", 1), ("doubled", 2), ("late", 1)])
        counts[fate] += 1
        queued.queue.messages += [name] * copies
    for _ in range(min(chance.randrange(12), len(queued.queue.messages))):
        name = queued.queue.messages.pop(chance.randrange(len(queued.queue.messages)))
        act(partial(queued.work_on, name))
