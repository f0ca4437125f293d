"""Rebuilding a rollup: past buckets are computed, sealed buckets are marked, and a rebuild can stop anywhere."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.rolled import HOURS, LENGTH, MINUTES, QUERIES, START, World, begin_rollups, reading, show_edges
from tidetable.errors import Outage, StoreUnavailable, TableThrottled
from tidetable.layout import Layout, Packing
from tidetable.ports import Edge
from tidetable.rollup_model.bounds import to_millis
from tidetable.rollups.rebuild import RebuildProgress, rebuild_rollup
from tidetable.rollups.status import describe_rollup, plan_rebuild
from tidetable.times import to_text


def rebuilt(world: World, hours: float, to: float = 100) -> RebuildProgress:
    begin, end = START + timedelta(hours=hours), START + timedelta(hours=to)
    some = world.definitions["s"]
    found = rebuild_rollup(some[0], begin, end, some, world.services(), "rebuild", LENGTH)
    assert found is not None
    return found


def test_a_rebuild_extends_a_rollup_to_the_events_of_before() -> None:
    world = World((HOURS,))
    world.sleep(5 * 3_600)
    world.write(*[reading(30 * n, n, kind="x") for n in range(10)])
    world.refresh()
    assert (
        rebuilt(world, 1).problem
        == "the rollup begins at 2026-03-02T06:00:00.000000Z: rebuild it after 2026-03-02T06:03:30.000000Z"
    )
    world.sleep(3 * 3_600)
    world.refresh()
    progress = rebuilt(world, 1)
    assert (progress.reached, progress.buckets, progress.left, progress.problem) == (
        START + timedelta(hours=1),
        5,
        0,
        None,
    )
    assert show_edges(world, "h") == ["01:00-07:00"]
    assert world.check(QUERIES) > 0
    sources = world.ask(
        step="1h", **{"from": to_text(START + timedelta(hours=1)), "to": to_text(START + timedelta(hours=6))}
    ).sources
    assert {scan.entry.stream for scan in sources} == {"s-h"}


def test_a_rebuild_over_an_older_definition_never_mixes_their_cells() -> None:
    world = begin_rollups()
    world.write(*[reading(5 * n, n, kind="xy"[n % 2]) for n in range(16)])
    world.refresh()
    world.definitions["s"] = [replace(MINUTES, by=("kind",)), HOURS]
    world.refresh()
    world.sleep(5_000)
    world.refresh()
    assert rebuilt(world, 0.5).left == 0
    assert show_edges(world, "m") == ["00:10-01:30", "00:30-02:30"]
    assert world.check(QUERIES) == len(QUERIES)


def test_a_rebuild_that_dies_before_it_moves_the_edge_leaves_the_older_definitions_cells() -> None:
    """Queries that read the old edge still count them."""
    world = begin_rollups((MINUTES,))
    # The last two are of the bucket of 01:20, which is the first that the rebuild computes.
    world.write(*[reading(5 * n, n, kind="xy"[n % 2]) for n in range(18)])
    world.refresh()
    changed = replace(MINUTES, by=("kind",))
    world.definitions["s"] = [changed]
    world.refresh()
    world.sleep(5_000)
    world.refresh()
    rows = world.ask(step="10m", by="series").rows
    world.rollups.put_edge = lambda *_: False  # type: ignore[method-assign]
    progress = rebuilt(world, 0.5)
    assert progress.problem == "the edge of s-m was moved by another run"
    assert world.ask(step="10m", by="series").rows == rows
    assert world.check(QUERIES) > 0


def test_a_rebuild_that_cannot_go_on_says_why() -> None:
    world = begin_rollups()
    world.refresh()
    world.forget("s-m", START)
    progress = rebuilt(world, 0)
    assert progress.left == 1
    assert "restore it by bin/tidetable restore s-m" in str(progress.problem)


def test_a_rebuild_of_sealed_buckets_has_them_computed_anew() -> None:
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1))
    world.refresh()
    world.rollups.marks.clear()
    # Somebody damaged the cells.
    world.store.tables["tidetable-t.s-m.2026-03-02"].clear()
    assert world.ask(step="10m").rows == []
    progress = rebuilt(world, 0.5)
    assert progress.marked == 4
    # The cells of before are read until every query that is under way has ended.
    assert {mark.at for mark in world.rollups.read_state("s").marks} == {to_millis(world.now())}
    assert world.check(QUERIES) > 0
    world.sleep(121)
    world.refresh()
    assert not world.rollups.marks
    assert [row["count"] for row in world.ask(step="10m").rows] == [1]


def test_nothing_is_rebuilt_while_the_refresher_runs() -> None:
    world = begin_rollups()
    world.catalog.acquire("rollups", "another", world.now(), LENGTH)
    some = world.definitions["s"]
    assert rebuild_rollup(some[0], START, START, some, world.services(), "rebuild", LENGTH) is None


def test_a_rebuild_waits_until_the_first_bucket_of_the_definition_is_sealed() -> None:
    """Its beginning can be sealed before its first bucket can: until then the definition of before is as far."""
    world = begin_rollups((MINUTES,))
    world.definitions["s"] = [replace(MINUTES, by=("kind",))]
    world.refresh()
    assert show_edges(world, "m") == ["00:10-01:10", "01:30-01:30"]
    # 01:38: everything before 01:30 is written, and the bucket until 01:40 is not over.
    world.sleep(18 * 60)
    world.refresh()
    assert show_edges(world, "m") == ["00:10-01:30", "01:30-01:30"]
    progress = rebuilt(world, 0)
    assert (progress.buckets, progress.left) == (0, 1)
    assert progress.problem == (
        "the rollup begins at 2026-03-02T01:30:00.000000Z: rebuild it when its first bucket is sealed"
    )
    world.sleep(6 * 60)
    world.refresh()
    assert rebuilt(world, 0.5).left == 0
    assert show_edges(world, "m") == ["00:10-01:30", "00:30-01:40"]


def test_a_rebuild_ends_at_a_bucket_when_its_time_is_up() -> None:
    world = begin_rollups((MINUTES,))
    world.refresh()
    begin = START
    services = replace(world.services(), remaining=lambda: 3.0)
    progress = rebuild_rollup(MINUTES, begin, begin, [MINUTES], services, "rebuild", LENGTH)
    assert progress is not None
    assert (progress.buckets, progress.left, progress.problem) == (0, 1, None)
    assert show_edges(world, "m") == ["00:10-01:10"]
    assert rebuilt(world, 0).left == 0


def test_a_rebuild_whose_time_is_up_within_a_bucket_goes_on_with_it() -> None:
    """A day is read from four buckets of six hours."""
    daily = replace(HOURS, name="d", stream="s-d", every=timedelta(days=1))
    world = World((daily,))
    days = Layout("time", 1, "id", 86_400, pack=Packing(86_400, 65_536))
    world.add_period("s-d", world.entry("s-h", START).period.kind, START, days)
    world.write(*[reading(60 * n, n, kind="x") for n in range(24)])
    world.sleep(60)
    world.refresh()
    world.sleep(49 * 3_600)
    world.refresh()
    for looks in range(1, 9):
        left = iter(range(looks))

        def remaining(left: Iterator[int] = left) -> float:
            return 100.0 if next(left, None) is not None else 0.0

        services = replace(world.services(), remaining=remaining)
        progress = rebuild_rollup(daily, START, START, [daily], services, "rebuild", LENGTH)
        assert progress is not None
        assert progress.problem is None
        (edge,) = world.rollups.read_state("s").edges
        assert progress.reached == edge.start
        assert (progress.buckets, progress.left) in ((0, 1), (1, 0), (0, 0))
    assert progress is not None
    assert progress.left == 0
    day = {"from": to_text(START), "to": to_text(START + timedelta(days=1)), "step": "1d"}
    assert [row["sum"] for row in world.ask(stat="sum", field="mag", **day).rows] == [276]


def test_a_rebuild_marks_what_its_range_meets_and_no_finer_bucket_beside_it() -> None:
    world = begin_rollups()
    world.write(reading(62, 1, kind="x"), reading(130, 2, kind="y"))
    world.sleep(4 * 3_600)
    world.refresh()
    world.rollups.marks.clear()
    hours, definitions = world.definitions["s"][1], world.definitions["s"]
    begin = START + timedelta(minutes=90)
    progress = rebuild_rollup(
        hours, begin, begin + timedelta(minutes=45), definitions, world.services(), "rebuild", LENGTH
    )
    assert progress is not None
    # From 01:30 to 02:15: the hours of 01:00 and of 02:00.
    assert (progress.marked, progress.left) == (2, 0)
    assert {(f"{bucket:%H:%M}", length.total_seconds()) for _, bucket, length in world.rollups.marks} == {
        ("01:00", 1.0),
        ("02:00", 1.0),
    }
    span = {"from": to_text(START + timedelta(minutes=70)), "to": to_text(START + timedelta(minutes=120))}
    assert {scan.entry.stream for scan in world.ask(step="10m", **span).sources} == {"s-m"}


def test_every_sealed_bucket_of_a_long_range_is_marked_once() -> None:
    """20 hours are 120 buckets, of which 100 are marked at a time."""
    world = World((MINUTES,))
    world.rollups.put_edge("s", Edge("m", START, START + timedelta(hours=21), MINUTES.text), None)
    world.sleep(40 * 3_600)
    marks: list[datetime] = []
    put_marks = world.rollups.put_marks

    def note_marks(stream: str, buckets: Sequence[datetime], *rest: Any) -> None:
        marks.extend(buckets)
        put_marks(stream, buckets, *rest)

    world.rollups.put_marks = note_marks  # type: ignore[method-assign, assignment]
    progress = rebuilt(world, 0.5, 20.5)
    assert (progress.marked, progress.buckets, progress.left) == (120, 0, 0)
    assert marks == [START + timedelta(minutes=30 + 10 * number) for number in reversed(range(120))]


def seal_hours(first: int, last: int) -> World:
    world = World((MINUTES,))
    edge = Edge("m", START + timedelta(hours=first), START + timedelta(hours=last), MINUTES.text)
    world.rollups.put_edge("s", edge, None)
    world.sleep(60 * 3_600)
    return world


def list_marked(world: World) -> list[datetime]:
    return sorted(bucket for _, bucket, _ in world.rollups.marks)


def test_a_rebuild_whose_time_is_up_while_it_marks_goes_on_where_it_ended() -> None:
    """40 hours are 240 buckets: two calls have the time for 100 each, and a third has none. The hour before is computed."""
    world = seal_hours(1, 41)
    first, end = START + timedelta(hours=1), START + timedelta(hours=41)
    seen = []
    for looks in (1, 1, 0):
        left = iter(range(looks))
        services = replace(world.services(), remaining=lambda left=left: 100.0 if next(left, None) is not None else 0.0)
        progress = rebuild_rollup(MINUTES, START, end, [MINUTES], services, "rebuild", LENGTH)
        assert progress is not None
        seen.append((progress.marked, progress.left, progress.buckets, progress.problem))
        end = progress.reached
    assert seen == [(100, 146, 0, None), (100, 46, 0, None), (0, 46, 0, None)]
    assert end == first + timedelta(minutes=400)
    assert list_marked(world) == [first + timedelta(minutes=10 * number) for number in range(40, 240)]
    last = rebuild_rollup(MINUTES, START, end, [MINUTES], world.services(), "rebuild", LENGTH)
    assert last is not None
    assert (last.marked, last.buckets, last.left) == (40, 6, 0)
    assert list_marked(world) == [first + timedelta(minutes=10 * number) for number in range(240)]


@pytest.mark.parametrize("error", [StoreUnavailable(Outage.NO_ANSWER, "later"), TableThrottled("t")])
def test_a_rebuild_that_cannot_mark_says_why_and_how_far_it_came(error: Exception) -> None:
    world = seal_hours(0, 40)
    put_marks, calls = world.rollups.put_marks, iter(range(2))

    def fail_later(*rest: Any) -> None:
        if next(calls) == 1:
            raise error
        put_marks(*rest)

    world.rollups.put_marks = fail_later  # type: ignore[method-assign, assignment]
    progress = rebuilt(world, 0, 40)
    assert (progress.marked, progress.left, progress.problem) == (100, 140, str(error))
    assert progress.reached == START + timedelta(minutes=1_400)


def test_a_definition_that_the_refresher_has_not_seen_yet_is_not_rebuilt() -> None:
    world = World((MINUTES,))
    problem = "the rollup has not begun: wait for the refresher's next run"
    assert (rebuilt(world, 0).problem, rebuilt(world, 0).left == 0) == (problem, False)
    world.refresh()
    world.sleep(4_800)
    world.refresh()
    assert rebuilt(world, 0).problem is None
    world.rollups.marks.clear()
    world.definitions["s"] = [replace(MINUTES, by=())]
    assert rebuilt(world, 0).problem == problem
    assert not world.rollups.marks


def test_a_plan_names_the_time_from_which_a_rollup_that_just_began_can_be_rebuilt() -> None:
    world = World((HOURS,))
    world.refresh()
    state = world.rollups.read_state("s")
    plan = plan_rebuild(HOURS, state, START, START + timedelta(hours=1), START + timedelta(hours=1))
    assert plan == {
        "buckets": 0,
        "marked": 0,
        "problem": "the rollup begins at 2026-03-02T01:00:00.000000Z: rebuild it after 2026-03-02T01:03:30.000000Z",
    }


def test_a_plan_of_a_rebuild_counts_what_it_would_compute() -> None:
    world = begin_rollups((MINUTES,))
    world.refresh()
    state = world.rollups.read_state("s")

    def plan(start: float, end: float) -> tuple[int, int]:
        begin, until = START + timedelta(minutes=start), START + timedelta(minutes=end)
        found = plan_rebuild(MINUTES, state, begin, until, world.services().clock.now())
        assert found["problem"] is None
        return found["buckets"], found["marked"]

    # It is sealed from 00:10 to 01:10.
    assert plan(-20, 25) == (3, 2)
    assert plan(15, 45) == (0, 4)
    assert plan(30, 600) == (0, 4)
    assert plan(-30, -10) == (4, 0)


def test_a_status_names_the_first_buckets_that_are_overfull_and_counts_all() -> None:
    world = begin_rollups((MINUTES,))
    world.refresh()
    world.definitions["s"] = [replace(MINUTES, by=("kind",))]
    world.refresh()
    world.sleep(6_000)
    world.refresh()
    for number in range(25):
        world.rollups.put_over("s", "m", START + timedelta(minutes=10 * number), 1_001)
    world.rollups.put_over("s", "h", START, 1_001)
    (definition,) = world.definitions["s"]
    shown = describe_rollup(definition, world.rollups.read_state("s"), world.time)
    assert (len(shown["overfull"]), shown["overfull_count"]) == (20, 25)
    assert (shown["start"], shown["sealed"]) == ("2026-03-02T00:10:00.000000Z", "2026-03-02T02:50:00.000000Z")
    assert shown["versions"] == [
        {"start": "2026-03-02T01:30:00.000000Z", "sealed": "2026-03-02T02:50:00.000000Z", "present": True},
        {"start": "2026-03-02T00:10:00.000000Z", "sealed": "2026-03-02T01:30:00.000000Z", "present": False},
    ]


def test_a_rebuild_that_goes_on_up_to_where_it_came_has_nothing_computed_twice() -> None:
    world = World((MINUTES,))
    world.sleep(5 * 3_600)
    world.refresh()
    world.sleep(3_600)
    world.refresh()
    left = iter(range(10))
    services = replace(world.services(), remaining=lambda: 100.0 if next(left, None) is not None else 0.0)
    first = rebuild_rollup(MINUTES, START, START + timedelta(hours=2), [MINUTES], services, "rebuild", LENGTH)
    assert first is not None
    assert first.left > 0
    assert first.buckets > 0
    last = rebuild_rollup(MINUTES, START, first.reached, [MINUTES], world.services(), "rebuild", LENGTH)
    assert last is not None
    assert (last.left, last.marked, world.rollups.marks) == (0, 0, {})
