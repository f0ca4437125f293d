"""Rebuilding a rollup: past buckets are computed in pieces, from the rollup's beginning backwards, and sealed ones anew."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.rebuilt import cut_short, order, rebuild, seal_hours, show_progress
from tests.worlds.rolled import (
    HOURS,
    MINUTES,
    QUERIES,
    START,
    World,
    begin_rollups,
    reading,
    show_edges,
)
from tests.worlds.runs import refresh
from tidetable.catalog import State
from tidetable.layout import Layout, Packing
from tidetable.ports import Edge
from tidetable.rollup_model.bounds import to_millis
from tidetable.rollups import writing
from tidetable.rollups.collect import collect_bucket
from tidetable.rollups.rebuild import cancel_rebuild, list_rebuilds
from tidetable.rollups.status import describe_rollup, plan_rebuild
from tidetable.times import to_text

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def list_pieces(world: World) -> list[tuple[str, str]]:
    """The ranges of the pieces, the newest first."""
    memos = [piece.memo for rebuild in list_rebuilds(world.services(), "s") for piece in rebuild.pieces]
    return [(f"{memo.start:%d %H:%M}", f"{memo.end:%d %H:%M}") for memo in memos]


def test_a_rebuild_extends_a_rollup_to_the_events_of_before() -> None:
    world = World((HOURS,))
    world.sleep(5 * 3_600)
    world.write(*[reading(30 * n, n, kind="x") for n in range(10)])
    world.refresh()
    assert (
        order(world, HOURS, START + HOUR, START + 2 * HOUR)
        == "the rollup begins at 2026-03-02T06:00:00.000000Z: rebuild it after 2026-03-02T06:03:30.000000Z"
    )
    world.sleep(3 * 3_600)
    world.refresh()
    rebuild(world, HOURS, START + HOUR, START + 2 * HOUR)
    assert show_edges(world, "h") == ["01:00-07:00"]
    assert world.check(QUERIES) > 0
    span = {"from": to_text(START + HOUR), "to": to_text(START + 6 * HOUR)}
    assert {scan.entry.stream for scan in world.ask(step="1h", **span).sources} == {"s-h"}


def test_a_rebuild_over_an_older_definition_never_mixes_their_cells() -> None:
    world = begin_rollups()
    world.write(*[reading(5 * n, n, kind="xy"[n % 2]) for n in range(16)])
    world.refresh()
    changed = replace(MINUTES, by=("kind",))
    world.definitions["s"] = [changed, HOURS]
    world.refresh()
    world.sleep(5_000)
    world.refresh()
    rebuild(world, changed, START + HOUR / 2, START + 100 * HOUR)
    assert show_edges(world, "m") == ["00:10-01:30", "00:30-02:40"]
    assert world.check(QUERIES) == len(QUERIES)


def test_sealed_buckets_are_read_from_the_events_until_their_piece_is_counted() -> None:
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1))
    world.refresh()
    world.rollups.marks.clear()
    # Somebody damaged the cells.
    world.store.tables["tidetable-t.s-m.2026-03-02"].clear()
    assert world.ask(step="10m").rows == []
    order(world, MINUTES, START + HOUR / 2, START + 100 * HOUR)
    refresh(world, "cut")
    # The cells of before are read until every query that is under way has ended.
    assert [mark.at for mark in world.rollups.read_state("s").marks] == [to_millis(world.now())] * 4
    assert world.check(QUERIES) > 0
    world.sleep(119)
    assert refresh(world, "too early").rebuilt == 0
    world.sleep(2)
    assert refresh(world, "run").rebuilt == 4
    assert (world.rollups.marks, world.work.list_items("rebuild")) == ({}, [])
    assert [row["count"] for row in world.ask(step="10m").rows] == [1]


def test_pieces_are_cut_and_counted_from_the_end_backwards_some_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_short(monkeypatch, buckets=3, at_once=2)
    world = seal_hours(2, 3)
    order(world, MINUTES, START, START + 100 * HOUR)
    assert show_progress(world, MINUTES) == {
        "from": "2026-03-02T00:00:00.000000Z",
        "to": "2026-03-02T03:00:00.000000Z",
        "buckets": 18,
        "left": 18,
        "pieces": 0,
        "running": 0,
        "oldest": 0,
        "problem": None,
    }
    # Of so many sealed buckets only those of two pieces are marked at once.
    refresh(world, "cut")
    assert list_pieces(world) == [("02 02:30", "02 03:00"), ("02 02:00", "02 02:30")]
    assert len(world.rollups.marks) == 6
    world.sleep(121)
    report = refresh(world, "run")
    # All of the pieces before the beginning follow in the same run.
    assert (report.rebuilt, show_edges(world, "m"), world.rollups.marks) == (18, ["00:00-11:50"], {})
    assert show_progress(world, MINUTES) is None


def test_a_piece_is_in_one_period_and_as_long_as_its_events_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidetable.rollups.rebuild_turn.PIECE_EVENTS", 1_000)
    world = World((MINUTES,))
    edge = Edge("m", START + 60 * HOUR, START + 61 * HOUR, MINUTES.text)
    world.rollups.put_edge("s", edge, None)
    world.write(reading(1, 1), reading(2, 2))
    world.sleep(62 * 3_600)
    # The first day is archived with two events; of other days only the last bucket is known, with 100 events.
    world.move_to_archive("s", START)
    claim = world.work.claim("seal", "s", "before", world.now(), world.now())
    assert claim is not None
    world.work.release(claim, '{"m":100}')
    order(world, MINUTES, START, START + 50 * HOUR)
    names: list[tuple[str, str]] = []
    add = world.work.add

    def note(kind: str, name: str, memo: str) -> bool:
        names.append((kind, name.split("#")[2]))
        return add(kind, name, memo)

    world.work.add = note  # type: ignore[method-assign]
    refresh(world, "run")
    starts = [start for kind, start in names if kind == "rebuild"]
    # Ten buckets of 100 events, and 144 buckets of a day with two events.
    assert starts[:3] == ["2026-03-04T10:20:00.000000Z", "2026-03-04T08:40:00.000000Z", "2026-03-04T07:00:00.000000Z"]
    assert starts[-2:] == ["2026-03-03T00:00:00.000000Z", "2026-03-02T00:00:00.000000Z"]
    assert show_edges(world, "m")[0].startswith("00:00-")


def test_a_rebuild_that_cannot_go_on_says_why_and_goes_on_when_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_short(monkeypatch, buckets=1)
    world = begin_rollups()
    world.refresh()
    world.set_state("s-m", START, State.ARCHIVING)
    order(world, MINUTES, START - HOUR, START)
    report = refresh(world, "blocked")
    reason = (
        "period 2026-03-02 of s-m is archiving: once it is archived, restore it by bin/tidetable restore s-m 2026-03-02"
    )
    assert f"s-m: {reason}" in report.blocked
    progress = show_progress(world, MINUTES)
    assert progress is not None
    assert (progress["left"], progress["problem"]) == (7, reason)
    # The pieces before the one that is blocked could not count, so they are not computed.
    refresh(world, "again")
    assert [item.generation for item in world.work.list_items("rebuild")[1:]] == [0, 0, 2]
    world.set_state("s-m", START, State.OPEN)
    refresh(world, "next")
    assert show_edges(world, "m") == ["00:00-01:10"]
    progress = show_progress(world, MINUTES)
    assert progress is not None
    reason = "s-m has no table for 2026-03-01T23:50:00.000000Z: backfill s, or rebuild the rollup"
    assert (progress["left"], progress["problem"]) == (6, reason)


@pytest.mark.parametrize("gone", [False, True])
def test_sealed_cells_of_events_that_are_deleted_for_ever_stay(gone: bool) -> None:
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1))
    world.refresh()
    world.rollups.marks.clear()
    rows = world.ask(step="10m").rows
    if gone:
        world.forget("s", START)
    rebuild(world, MINUTES, START + HOUR / 2, START + HOUR)
    assert ([row["count"] for row in rows], world.ask(step="10m").rows) == ([1], rows)
    assert world.rollups.marks == {}


def test_nothing_is_computed_while_a_run_of_a_former_version_works() -> None:
    world = begin_rollups()
    world.refresh()
    world.catalog.acquire("rollups", "another", world.now() + HOUR, 2 * HOUR)
    order(world, MINUTES, START, START + HOUR)
    assert world.refresh() is None
    assert show_progress(world, MINUTES)["left"] == 6  # type: ignore[index]


def test_a_rebuild_waits_until_the_first_bucket_of_the_definition_is_sealed() -> None:
    """Its beginning can be sealed before its first bucket can: until then the definition of before is as far."""
    world = begin_rollups((MINUTES,))
    changed = replace(MINUTES, by=("kind",))
    world.definitions["s"] = [changed]
    world.refresh()
    assert show_edges(world, "m") == ["00:10-01:10", "01:30-01:30"]
    # 01:38: everything before 01:30 is written, and the bucket until 01:40 is not over.
    world.sleep(18 * 60)
    world.refresh()
    assert show_edges(world, "m") == ["00:10-01:30", "01:30-01:30"]
    assert order(world, changed, START, START + HOUR) == (
        "the rollup begins at 2026-03-02T01:30:00.000000Z: rebuild it when its first bucket is sealed"
    )
    world.sleep(6 * 60)
    world.refresh()
    rebuild(world, changed, START + HOUR / 2, START + HOUR)
    assert show_edges(world, "m") == ["00:10-01:30", "00:30-01:40"]


def test_a_run_whose_time_is_up_keeps_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    world = seal_hours(40, 41)
    order(world, MINUTES, START + 30 * HOUR, START + 40 * HOUR)
    read_present = writing.read_present

    def read_slowly(*given: Any) -> Any:
        world.sleep(50)
        return read_present(*given)

    monkeypatch.setattr("tidetable.rollups.bucket.read_present", read_slowly)
    rebuilt = []
    for run in range(4):
        before = show_progress(world, MINUTES)
        rebuilt.append(refresh(world, f"run {run}").rebuilt)
        after = show_progress(world, MINUTES)
        assert before is not None
        assert after is not None
        assert before["left"] - after["left"] == rebuilt[-1]
        world.sleep(400)
    # A run has 295 seconds. The first one seals buckets that are due.
    assert rebuilt == [0, 5, 5, 5]


def test_a_rebuild_marks_what_its_range_meets_and_no_finer_bucket_beside_it() -> None:
    world = begin_rollups()
    world.write(reading(62, 1, kind="x"), reading(130, 2, kind="y"))
    world.sleep(4 * 3_600)
    world.refresh()
    world.rollups.marks.clear()
    begin = START + 90 * MINUTE
    order(world, HOURS, begin, begin + 45 * MINUTE)
    refresh(world, "cut")
    # From 01:30 to 02:15: the hours of 01:00 and of 02:00.
    assert {(f"{bucket:%H:%M}", length.total_seconds()) for _, bucket, length in world.rollups.marks} == {
        ("01:00", 1.0),
        ("02:00", 1.0),
    }
    span = {"from": to_text(START + 70 * MINUTE), "to": to_text(START + 120 * MINUTE)}
    assert {scan.entry.stream for scan in world.ask(step="10m", **span).sources} == {"s-m"}


def test_a_coarser_rollup_waits_for_the_finer_one_and_is_computed_from_its_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hours = replace(HOURS, by=("series", "kind"))
    world = World((hours, MINUTES))
    world.write(*[reading(10 * n, n, kind="xy"[n % 2]) for n in range(30)])
    world.sleep(5 * 3_600)
    world.refresh()
    world.sleep(3 * 3_600)
    world.refresh()
    for definition in (hours, MINUTES):
        order(world, definition, START, START + 5 * HOUR)
    seen: list[tuple[str, bool]] = []
    collect = collect_bucket

    def note(definition: Any, segments: Any, *rest: Any) -> Any:
        seen.append((definition.name, all(segment.definition for segment in segments)))
        return collect(definition, segments, *rest)

    monkeypatch.setattr("tidetable.rollups.bucket.collect_bucket", note)
    refresh(world, "run")
    # The minutes are read in passes.
    assert seen == [("h", True)] * 6
    assert world.check(QUERIES) > 0


def test_a_definition_that_the_refresher_has_not_seen_yet_is_not_rebuilt() -> None:
    world = World((MINUTES,))
    problem = "the rollup has not begun: wait for the refresher's next run"
    assert order(world, MINUTES, START, START + HOUR) == problem
    world.refresh()
    world.sleep(4_800)
    world.refresh()
    rebuild(world, MINUTES, START, START + HOUR)
    world.definitions["s"] = [replace(MINUTES, by=())]
    assert order(world, world.definitions["s"][0], START, START + HOUR) == problem


def test_a_changed_definition_ends_the_rebuild_of_the_former_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_short(monkeypatch)
    world = seal_hours(20, 24)
    order(world, MINUTES, START, START + 24 * HOUR)
    refresh(world, "cut")
    marks = dict(world.rollups.marks)
    world.definitions["s"] = [replace(MINUTES, by=("kind",))]
    world.sleep(121)
    report = refresh(world, "changed")
    assert (report.rebuilt, world.work.list_items("rebuild"), len(marks)) == (0, [], 6)
    # No run has computed the marked buckets, so their marks are removed.
    assert (world.rollups.marks, show_edges(world, "m")[0]) == ({}, "20:00-11:50")


def test_a_cancelled_rebuild_keeps_what_counts_and_removes_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_short(monkeypatch)
    world = seal_hours(20, 24)
    order(world, MINUTES, START, START + 24 * HOUR)
    refresh(world, "cut")
    cancel_rebuild(MINUTES, world.services())
    assert show_progress(world, MINUTES) is None
    # A piece that a run has stays, with its marks, until the run gives it back.
    first, *others = world.work.list_items("rebuild")
    held = world.work.claim(
        "rebuild", first.name, "worker", world.now(), world.now() + timedelta(minutes=6), added=True
    )
    assert held is not None
    assert refresh(world, "run").rebuilt == 0
    assert ([item.name for item in world.work.list_items("rebuild")], len(world.rollups.marks)) == ([first.name], 2)
    world.sleep(1)
    order(world, MINUTES, START, START + 24 * HOUR)
    refresh(world, "waits")
    assert [item.name for item in world.work.list_items("rebuild")] == ["s#m", first.name]
    world.work.release(held, held.memo)
    assert len(others) == 2
    rebuild_on(world)
    assert (show_edges(world, "m")[0][:5], world.rollups.marks) == ("00:00", {})


def rebuild_on(world: World) -> None:
    """Let runs compute what is ordered."""
    for number in range(20):
        refresh(world, f"on {number}")
        world.sleep(125)
    assert world.work.list_items("rebuild") == []


@pytest.mark.parametrize("others", [(), (HOURS,)], ids=["the last rollup", "one of two"])
def test_the_rebuild_of_a_rollup_that_left_the_configuration_is_removed(others: tuple[Any, ...]) -> None:
    world = seal_hours(20, 24)
    order(world, MINUTES, START, START + 24 * HOUR)
    refresh(world, "cut")
    # The order, and the piece of the sealed buckets, which waits.
    assert len(world.work.list_items("rebuild")) == 2
    world.definitions = {"s": list(others)} if others else {}
    world.sleep(125)
    for number in range(2):
        refresh(world, f"run {number}")
    assert world.work.list_items("rebuild") == []


def test_events_that_are_gone_end_a_rebuild_with_the_reason() -> None:
    world = seal_hours(40, 41)
    world.forget("s", START)
    order(world, MINUTES, START + 20 * HOUR, START + 40 * HOUR)
    for number in range(2):
        report = refresh(world, f"run {number}")
    progress = show_progress(world, MINUTES)
    assert progress is not None
    reason = "s cannot be read from 2026-03-02T23:50:00.000000Z on: deleted"
    assert (progress["left"], progress["problem"], report.failed) == (4 * 6, reason, [])
    assert show_edges(world, "m")[0].startswith("00:00")


def test_an_order_is_joined_and_not_made_twice() -> None:
    world = seal_hours(20, 24)
    order(world, MINUTES, START, START + 24 * HOUR)
    world.sleep(1)
    order(world, MINUTES, START + HOUR, START + 22 * HOUR)
    assert show_progress(world, MINUTES)["from"] == "2026-03-02T00:00:00.000000Z"  # type: ignore[index]


def test_a_plan_names_the_time_from_which_a_rollup_that_just_began_can_be_rebuilt() -> None:
    world = World((HOURS,))
    world.refresh()
    state = world.rollups.read_state("s")
    plan = plan_rebuild(HOURS, state, START, START + HOUR, START + HOUR)
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
    assert plan(600, 700) == (0, 0)


def test_a_status_names_the_first_buckets_that_are_overfull_and_counts_all() -> None:
    world = begin_rollups((MINUTES,))
    world.refresh()
    world.definitions["s"] = [replace(MINUTES, by=("kind",))]
    world.refresh()
    world.sleep(6_000)
    world.refresh()
    for number in range(25):
        world.rollups.put_over("s", "m", START + 10 * number * MINUTE, 1_001)
    world.rollups.put_over("s", "h", START, 1_001)
    (definition,) = world.definitions["s"]
    shown = describe_rollup(definition, world.rollups.read_state("s"), world.time)
    assert (len(shown["overfull"]), shown["overfull_count"], shown["rebuild"]) == (20, 25, None)
    assert (shown["start"], shown["sealed"]) == ("2026-03-02T00:10:00.000000Z", "2026-03-02T02:50:00.000000Z")
    assert shown["versions"] == [
        {"start": "2026-03-02T01:30:00.000000Z", "sealed": "2026-03-02T02:50:00.000000Z", "present": True},
        {"start": "2026-03-02T00:10:00.000000Z", "sealed": "2026-03-02T01:30:00.000000Z", "present": False},
    ]


def test_a_bucket_of_a_day_is_rebuilt() -> None:
    daily = replace(HOURS, name="d", stream="s-d", every=timedelta(days=1))
    world = World((daily,))
    days = Layout("time", 1, "id", 86_400, pack=Packing(86_400, 65_536))
    world.add_period("s-d", world.entry("s-h", START).period.kind, START, days)
    world.write(*[reading(60 * n, n, kind="x") for n in range(24)])
    world.sleep(60)
    world.refresh()
    world.sleep(49 * 3_600)
    world.refresh()
    rebuild(world, daily, START, START + HOUR)
    day = {"from": to_text(START), "to": to_text(START + timedelta(days=1)), "step": "1d"}
    assert [row["sum"] for row in world.ask(stat="sum", field="mag", **day).rows] == [276]
