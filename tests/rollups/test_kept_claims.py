"""Claims are short, and a run that works renews them: a run that dies holds up its stream for two minutes."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import pytest

from tests.worlds.divided import divide_short, list_cells, prepare
from tests.worlds.queued import Queued
from tests.worlds.rolled import MINUTES, QUERIES, START, World, reading, show_edges
from tests.worlds.runs import begin_run, kill_run, refresh
from tidetable.errors import Outage, StoreUnavailable
from tidetable.rollups import writing
from tidetable.rollups.claims import hold_item
from tidetable.rollups.services import Unfinished

SECOND = timedelta(seconds=1)


def test_a_stream_goes_on_two_minutes_after_the_death_of_the_worker_that_had_it() -> None:
    """It dies at any of its requests; 90 seconds later its claim has ended, and the scheduler comes once a minute."""
    waits = []
    for number in range(4, 80, 3):
        queued = Queued(prepare())
        world = queued.world
        queued.schedule()
        kill_run(partial(queued.work_on, queued.queue.messages.pop()), number)
        died, (record,) = world.time, world.work.list_items("seal")
        if not record.is_claimed(died) or show_edges(world, "m") == ["00:10-01:10"]:
            continue
        while show_edges(world, "m") != ["00:10-01:10"]:
            world.sleep(60)
            queued.run()
        waits.append((world.time - died).total_seconds())
        assert world.check(QUERIES) > 0, number
    assert (len(waits) > 15, {*waits}) == (True, {120.0})


def test_a_part_goes_on_as_soon_after_the_death_of_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    divide_short(monkeypatch, part=10, whole=20)
    queued = Queued(prepare())
    world, put_part = queued.world, queued.world.rollups.put_part

    def die(*_: Any) -> None:
        raise KeyboardInterrupt

    queued.schedule()
    world.rollups.put_part = die  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        queued.work_on(queued.queue.messages.pop(0))
    world.rollups.put_part = put_part  # type: ignore[method-assign]
    record = next(item for item in world.work.list_items("part") if item.generation)
    # What a process does that is ended: it does not give its claim back.
    world.work.records["part", record.name].until = world.time + 90 * SECOND
    died = world.time
    while show_edges(world, "m") != ["00:10-01:10"]:
        world.sleep(60)
        queued.run()
    assert world.time - died == timedelta(seconds=120)


def test_a_run_that_works_for_minutes_keeps_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page takes 30 seconds, and the others try to have the stream all the time."""
    monkeypatch.setattr("tidetable.rollups.worker._SHARE", 1_000.0)
    world = prepare()
    query, others, generations = world.store.query_many, list[Any](), set[int]()

    def read_slowly(reads: Any, **how: Any) -> Any:
        if world.time < START + timedelta(hours=1, minutes=17):
            for _ in range(3):
                world.sleep(10)
                monkeypatch.setattr(world.store, "query_many", query)
                others.append(refresh(world, f"other {len(others)}"))
                monkeypatch.setattr(world.store, "query_many", read_slowly)
                generations.add(world.work.records["seal", "s"].generation)
        return query(reads, **how)

    monkeypatch.setattr(world.store, "query_many", read_slowly)
    report = refresh(world, "run")
    assert (report.sealed, report.failed, show_edges(world, "m")) == (6, [], ["00:10-01:10"])
    assert {tuple(other.left) for other in others} == {("s",)}
    # More than the 90 seconds of a claim.
    assert (len(others) > 12, generations) == (True, {2})


@pytest.mark.parametrize("is_overtaken", [False, True])
def test_a_run_that_stood_still_goes_on_only_if_no_other_run_had_its_item(is_overtaken: bool) -> None:
    world = World((MINUTES,))
    with hold_item(begin_run(world), "seal", "s", "run") as (held, services):
        assert held is not None
        world.sleep(200)
        if is_overtaken:
            assert world.work.claim("seal", "s", "other", world.time, world.time + SECOND)
            world.sleep(10)
        assert services.remaining() == (0.0 if is_overtaken else 95.0)
        if is_overtaken:
            with pytest.raises(Unfinished):
                services.require_time()
    record = world.work.records["seal", "s"]
    assert (record.generation, record.until is None) == ((2, False) if is_overtaken else (1, True))


def test_no_time_is_left_46_seconds_before_a_claim_ends_that_cannot_be_renewed() -> None:
    """The catalog does not answer. Each request that is sent before takes effect before the claim ends."""
    world = World((MINUTES,))
    tried: list[float] = []
    start = world.time

    def fail(*_: Any) -> bool:
        tried.append((world.time - start).total_seconds())
        raise StoreUnavailable(Outage.NO_ANSWER, "no answer")

    world.work.renew = fail  # type: ignore[method-assign, assignment]
    with hold_item(begin_run(world), "seal", "s", "run") as (_, services):
        over = []
        for second in range(1, 61):
            world.sleep(1)
            if services.remaining() == 0.0:
                over.append(second)
    assert over == [*range(44, 61)]
    assert tried == [20.0, 40.0, 60.0]


def test_many_cells_are_written_with_looks_at_the_time_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that loses its stream while it writes cells writes no more of them; the next run writes all."""
    monkeypatch.setattr(writing, "_AT_ONCE", 1)
    chance = Random(1)
    world = prepare(events=[reading(60 + n / 10, n, "a", kind=chance.randbytes(2_000).hex()) for n in range(90)])
    write, written = world.store.write_each, list[int]()

    def write_and_lose(puts: Any, *guard: Any) -> Any:
        written.append(len(puts))
        world.work.records["seal", "s"].generation += 1
        world.sleep(21)
        return write(puts, *guard)

    monkeypatch.setattr(world.store, "write_each", write_and_lose)
    report = refresh(world, "run")
    assert (written, report.finished, len(list_cells(world)) < 90) == ([1], False, True)
    monkeypatch.setattr(world.store, "write_each", write)
    world.sleep(200)
    assert refresh(world, "next").finished
    # 90 groups, and the names of their fields.
    assert (len(list_cells(world)), world.check(QUERIES) > 0) == (91, True)
