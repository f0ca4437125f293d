"""An upgrade, and a rollback: runs of a former version before and after runs of this version, with work half done.

A former version has no records of work, knows no marks of new events, and holds the lease of the stage alone. Otherwise it
seals and computes anew as this version does.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.worlds.divided import EVENTS, divide_short, prepare
from tests.worlds.queued import Queued
from tests.worlds.rolled import LENGTH, QUERIES, Killed, World, begin_rollups, reading, show_edges
from tests.worlds.runs import refresh

FORMER = "a former run"


def refresh_formerly(world: World, strike: Callable[[], None] = lambda: None) -> None:
    """Let a run of the former version work; its records of work are none of the stage."""
    assert world.catalog.acquire("rollups", FORMER, world.now(), LENGTH)
    records, world.work.records = world.work.records, {}
    acquire = world.catalog.acquire
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidetable.rollups.seal.add_new_events", lambda *_: None)
        patch.setattr("tidetable.rollups.bucket.mark_new_events", lambda *_: None)
        patch.setattr("tidetable.rollups.refresh.shut_out_former", lambda services, _: services)
        try:
            refresh(world, FORMER, strike)
        finally:
            world.work.records = records
            assert world.catalog.acquire == acquire


def end_formerly(world: World) -> None:
    world.catalog.release("rollups", FORMER)


def settle(world: World, minutes: int = 20) -> None:
    """Let the scheduler run every minute, with workers that have all messages."""
    queued = Queued(world)
    for _ in range(minutes):
        queued.run()
        world.sleep(60)
    assert [report.failed for report in queued.reports if report is not None and report.failed] == []


def make_late_world() -> World:
    """Sealed buckets of ten minutes, and late events that mark two of them, as any version marks."""
    world = begin_rollups()
    refresh_formerly(world)
    end_formerly(world)
    world.work.records.clear()
    world.sleep(5_000)
    world.write(reading(65, 1, kind="x", id="p"), reading(66, 2, kind="y", id="q"), reading(15, 3, id="p"))
    world.sleep(4_000)
    refresh_formerly(world)
    end_formerly(world)
    world.write(reading(65, 5, kind="y", id="p"), reading(66.5, 7, kind="x"))
    world.sleep(1_000)
    return world


def count_steps() -> int:
    calls: list[int] = []
    refresh_formerly(make_late_world(), lambda: calls.append(1))
    return len(calls)


def test_what_a_former_run_left_half_done_is_finished_without_a_gap() -> None:
    """The former run is killed after each of its requests; its lease lasts on. No answer is wrong at any time."""
    total = count_steps()
    assert total > 40
    for number in range(2, total + 1, 2):
        world, calls = make_late_world(), 0

        def strike() -> None:
            nonlocal calls
            calls += 1
            if calls >= number:  # noqa: B023
                raise Killed

        with pytest.raises(Killed):
            refresh_formerly(world, strike)
        queued = Queued(world)
        assert queued.schedule() is None, "the former run may be under way"
        assert world.check(QUERIES) == len(QUERIES), number
        world.sleep(LENGTH.total_seconds())
        settle(world, 2)
        assert world.rollups.read_state("s").marks == []
        assert world.check(QUERIES) == len(QUERIES), number


def test_a_former_run_that_ends_lets_the_scheduler_begin_in_the_next_minute() -> None:
    world = make_late_world()
    refresh_formerly(world)
    queued = Queued(world)
    assert queued.schedule() is None
    end_formerly(world)
    world.sleep(600)
    scheduled = queued.schedule()
    assert scheduled is not None
    assert [name for _, name in queued.queue.messages] == ["s"]


def test_a_record_without_the_present_attributes_is_claimed_and_its_memo_kept() -> None:
    """Records of work items had no note of messages and no problem at first, and a memo that may be empty."""
    world = make_late_world()
    claim = world.work.claim("seal", "s", "an earlier worker", world.now(), world.now())
    assert claim is not None
    settle(world, 2)
    (record,) = world.work.list_items("seal")
    assert (record.generation, record.problem, record.until) == (record.generation, "", None)
    assert record.generation > 1
    assert world.check(QUERIES) == len(QUERIES)


def test_after_a_rollback_the_former_version_seals_and_the_parts_of_this_version_count_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A long bucket is half read in parts when the upgrade is taken back; its messages arrive after the next upgrade."""
    divide_short(monkeypatch, part=10, whole=5)
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 0.0)
    world = prepare(events=EVENTS[::4])
    queued = Queued(world)
    queued.schedule()
    queued.work_on(queued.queue.messages.pop(0))
    parts = world.work.list_items("part")
    assert len(parts) > 1
    late = [*queued.queue.messages]
    queued.queue.messages.clear()
    world.sleep(LENGTH.total_seconds())
    divide_short(monkeypatch, part=1_000, whole=1_000)
    refresh_formerly(world)
    end_formerly(world)
    before = show_edges(world, "m")
    divide_short(monkeypatch, part=10, whole=5)
    for name in late:
        queued.work_on(name)
    queued.queue.deliver(queued.work_on)
    settle(world, 3)
    assert show_edges(world, "m")[0] >= before[0]
    assert world.work.list_items("part") == []
    assert world.check(QUERIES[:2]) > 0


def write_new_event_and_roll_back(world: World, pause: float) -> None:
    """Write a new late event with its mark; then the former version computes its bucket, which has the event already."""
    world.adds = True
    world.write(reading(65.5, 11, kind="x", id="new"))
    world.sleep(pause)
    # The former version takes the mark for one of the bucket. It cannot remove it.
    world.adds = False
    (mark,) = [mark for mark in world.rollups.read_state("s").marks if mark.event]
    world.rollups.put_marks("s", [mark.bucket], mark.at, mark.length)
    world.sleep(LENGTH.total_seconds())
    refresh_formerly(world)
    end_formerly(world)


def test_a_new_event_that_a_former_version_has_counted_is_not_added_once_more() -> None:
    world = begin_rollups()
    refresh(world, "begin")
    world.sleep(9_000)
    refresh(world, "run")
    write_new_event_and_roll_back(world, 1.0)
    refresh(world, "the next upgrade")
    assert world.check(QUERIES) > 0
    settle(world, 12)
    assert world.rollups.read_state("s").marks == []
    assert world.check(QUERIES) == len(QUERIES)
