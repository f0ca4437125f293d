"""Runs that work at the same time: each stream is one run's at a time, none waits for another, and a late run changes nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.refresher import expect_failures, refresh_rollups
from tests.worlds.queued import Queued
from tests.worlds.rolled import (
    HOURS,
    LENGTH,
    MINUTES,
    PLAIN,
    QUERIES,
    START,
    World,
    begin_rollups,
    reading,
    show_edges,
)
from tests.worlds.runs import begin_run, refresh
from tidetable.layout import Layout, Packing
from tidetable.periods import Kind
from tidetable.work.claim import EVERY_STREAM, Pause


def add_stream(world: World, name: str) -> None:
    """Add a stream without events, which has the same rollup of ten minutes."""
    definition = replace(MINUTES, source=name, stream=f"{name}-m")
    world.definitions[name] = [definition]
    for day in range(4):
        at = START + timedelta(days=day)
        world.add_period(name, Kind.DAY, at, PLAIN)
        world.add_period(f"{name}-m", Kind.DAY, at, Layout("time", 1, "id", 3_600, pack=Packing(600, 65_536)))


def sealed_until(world: World, stream: str) -> str:
    (edge,) = [edge for edge in world.rollups.read_state(stream).edges if edge.rollup == "m"]
    return f"{edge.sealed:%H:%M}"


def test_a_run_leaves_a_stream_to_the_run_that_has_claimed_it_and_does_the_others() -> None:
    world = World((MINUTES,))
    add_stream(world, "t")
    refresh(world, "begin")
    world.sleep(4_800)
    world.work.claim("seal", "s", "another", world.now(), world.now() + LENGTH)
    report = refresh(world, "run")
    assert (sealed_until(world, "s"), sealed_until(world, "t"), report.failed) == ("00:10", "01:10", [])
    assert report.left == ["s"]
    # The bucket that ends at 00:20 could be sealed 210 seconds after that.
    assert report.lag == timedelta(minutes=60, seconds=-210)
    world.sleep(LENGTH.total_seconds())
    assert refresh(world, "next").left == []
    assert sealed_until(world, "s") == "01:20"


def test_a_stream_without_due_work_costs_one_request_and_a_stage_five_more(monkeypatch: pytest.MonkeyPatch) -> None:
    world = begin_rollups()
    for name in ("t", "u"):
        add_stream(world, name)
    refresh(world, "begin")
    world.sleep(60)
    calls: list[int] = []
    report = refresh(world, "idle", lambda: calls.append(1))
    # Each request strikes before and after: the lease of former versions, the pauses, the records of streams, of
    # parts and of rebuilds, and the state of each stream.
    assert (len(calls), report.sealed, report.finished) == (2 * (5 + 3), 0, True)
    claims = {name: record.generation for (_, name), record in world.work.records.items()}
    assert claims == {"s": 2, "t": 1, "u": 1}


def test_500_streams_without_due_work_cost_the_scheduler_505_requests() -> None:
    """At 5 ms each, these are 2.5 seconds of its minute."""
    world = begin_rollups((MINUTES,))
    for number in range(499):
        add_stream(world, f"t{number}")
    refresh(world, "begin")
    world.sleep(60)
    queued, calls = Queued(world), list[int]()
    scheduled = queued.schedule(lambda: calls.append(1))
    assert scheduled is not None
    # Each request strikes before and after, and so does the sending of no message.
    assert (scheduled[0].due, queued.queue.messages, len(calls)) == (0, [], 2 * (505 + 1))


def test_a_run_of_a_former_version_and_runs_of_this_version_shut_each_other_out() -> None:
    world = begin_rollups((MINUTES,))
    assert world.catalog.acquire("rollups", "a former run", world.now(), LENGTH)
    assert refresh_rollups(world.definitions, begin_run(world), "run", LENGTH) is None
    world.catalog.release("rollups", "a former run")
    refresh(world, "run")
    refresh(world, "a run at the same time")
    assert not world.catalog.acquire("rollups", "a former run", world.now(), LENGTH)
    world.sleep(LENGTH.total_seconds())
    assert world.catalog.acquire("rollups", "a former run", world.now(), LENGTH)


@pytest.mark.parametrize("pause", [Pause("seal", "s"), Pause("seal", EVERY_STREAM)], ids=["stream", "every stream"])
def test_a_stream_that_rests_is_not_sealed_and_its_lag_is_told(pause: Pause) -> None:
    world = World((MINUTES,))
    add_stream(world, "t")
    refresh(world, "begin")
    world.sleep(4_800)
    world.work.set_pause(pause, on=True)
    report = refresh(world, "run")
    other = "01:10" if pause.stream == "s" else "00:10"
    assert (sealed_until(world, "s"), sealed_until(world, "t")) == ("00:10", other)
    assert report.lag == timedelta(minutes=60, seconds=-210)
    world.work.set_pause(pause, on=False)
    assert refresh(world, "run").lag == timedelta(0)
    assert world.check(QUERIES) > 0


def test_a_stream_with_much_work_lets_the_others_have_their_turn() -> None:
    """Each bucket takes 25 seconds: after the third, the share of 60 seconds is used."""
    world = World((MINUTES,))
    add_stream(world, "t")
    refresh(world, "begin")
    world.sleep(24 * 600)
    turns: list[tuple[str, int]] = []
    put_edge = world.rollups.put_edge

    def put_slowly(stream: str, edge: Any, expected: Any) -> bool:
        world.sleep(25)
        if turns and turns[-1][0] == stream:
            turns[-1] = stream, turns[-1][1] + 1
        else:
            turns.append((stream, 1))
        return put_edge(stream, edge, expected)

    world.rollups.put_edge = put_slowly  # type: ignore[method-assign]
    # This owner's run begins with s.
    report = refresh(world, "d")
    assert [name for name, _ in turns[:2]] == ["s", "t"]
    # 295 seconds: turns of three buckets, until less than the reserve of a request is left.
    assert (turns, report.finished) == ([("s", 3), ("t", 3), ("s", 3), ("t", 3)], False)


def prepare() -> World:
    """Three sealed buckets of ten minutes, and late events in two of them, of which one changes its group."""
    world = World()
    refresh(world, "begin")
    world.sleep(5_000)
    world.write(reading(65, 1, kind="x", id="p"), reading(66, 2, kind="y", id="q"), reading(15, 3, id="p"))
    world.sleep(10_000)
    refresh(world, "before")
    world.write(reading(65, 5, kind="y", id="p"), reading(66.5, 7, kind="x"))
    world.sleep(1_000)
    return world


def count_requests() -> int:
    calls: list[int] = []
    refresh(prepare(), "run", lambda: calls.append(1))
    return len(calls)


@expect_failures("moved by another run")
@pytest.mark.parametrize("pause", [0.0, LENGTH.total_seconds() + 1, 86_400.0], ids=["at once", "later", "a day late"])
def test_a_run_that_is_overtaken_between_any_two_requests_changes_no_answer(pause: float) -> None:
    """After a request the run stands still. Meanwhile an event changes its group, and another run does the work."""
    total = count_requests()
    assert total > 60
    for number in range(2, total + 1, 2):
        world, calls = prepare(), 0

        def strike() -> None:
            nonlocal calls
            calls += 1
            if calls == number:  # noqa: B023
                world.write(reading(65, 9, kind="z", id="p"), reading(15, 4, id="p"))  # noqa: B023
                world.sleep(pause)  # noqa: B023
                refresh(world, "other")  # noqa: B023

        refresh(world, "run", strike)
        assert world.check(QUERIES) == len(QUERIES), number
        world.sleep(1_000 + LENGTH.total_seconds())
        report = refresh(world, "next")
        assert (report.failed, report.marks) == ([], 0)
        assert world.check(QUERIES) == len(QUERIES), number


def test_two_runs_in_step_seal_what_one_run_seals() -> None:
    """At each of its requests a run is interrupted by a whole other run: one of them has the stream."""
    world = prepare()

    def interrupt() -> None:
        refresh(world, "other")

    refresh(world, "run", interrupt)
    assert (show_edges(world, "m"), show_edges(world, "h")) == (["00:10-04:20"], ["01:00-04:00"])
    world.sleep(600)
    refresh(world, "next")
    assert world.check(QUERIES) == len(QUERIES)


def test_a_marked_bucket_is_work_although_no_bucket_can_be_sealed() -> None:
    world = World((HOURS,))
    refresh(world, "begin")
    world.sleep(2 * 3_600 + 300)
    assert refresh(world, "run").sealed == 1
    world.write(reading(90, 1, kind="x"))
    assert refresh(world, "too early").resealed == 0
    world.sleep(240)
    report = refresh(world, "run")
    assert (report.sealed, report.resealed, report.marks) == (0, 1, 0)
    assert world.check(QUERIES[1:3]) == 2


def test_the_hours_of_a_definition_are_no_work_before_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World((HOURS,))
    refresh(world, "begin")
    now: list[datetime] = []
    for _ in range(130):
        world.sleep(60)
        if refresh(world, "run").sealed:
            now.append(world.now())
    # The hour from 01:00 on, in the first minute that is more than 210 seconds after its end.
    assert now == [START + timedelta(hours=2, minutes=4)]
