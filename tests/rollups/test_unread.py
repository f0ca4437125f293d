"""Records that nobody can read, as they are broken or of a newer version, stop nothing else; `status` shows them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fakes.refresher import expect_failures
from tests.fakes.work import FakeWork
from tests.worlds.divided import EVENTS, divide_short, list_cells, prepare
from tests.worlds.queued import Queued
from tests.worlds.rebuilt import cut_short, order, show_progress
from tests.worlds.rolled import HOURS, MINUTES, QUERIES, START, World, reading, show_edges
from tests.worlds.runs import begin_run, refresh
from tidetable.ports import Edge
from tidetable.rollup_model.bounds import to_millis
from tidetable.rollups.outlook import list_pending
from tidetable.rollups.rebuild import cancel_rebuild
from tidetable.rollups.refresh import find_due
from tidetable.work.standing import list_standings

PART = "s#m#2026-03-02T00:10:00.000000Z#1772409600000#0000"
BROKEN = {
    "no JSON": "{",
    "no field of a newer version": '{"made":1}',
    "a field of a newer version": '{"definition":"","start":"2026-03-02T00:10:00.000000Z","end":"2026-03-02T00:20:00.000000Z"'
    ',"made":1,"count":2,"half":1}',
}


def list_problems(work: FakeWork, world: World) -> list[tuple[str, str | None, int, bool, str | None]]:
    """What `status` shows of work that failed."""
    shown = list_standings(work, world.time)
    return [
        (one.kind, one.stream, one.failed, "cannot be read" in (one.problem or ""), one.alarm)
        for one in shown
        if one.failed
    ]


@expect_failures("cannot be read")
@pytest.mark.parametrize("memo", BROKEN.values(), ids=BROKEN)
def test_a_part_whose_record_cannot_be_read_stops_nothing_and_is_shown(
    monkeypatch: pytest.MonkeyPatch, memo: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        divide_short(patch, part=1_000, whole=1_000)
        world = prepare()
        refresh(world, "whole")
    whole = list_cells(world)
    divide_short(monkeypatch, part=10, whole=20)
    queued = Queued(prepare())
    world = queued.world
    # The first part of the division that follows now. The bucket is divided once more.
    name = f"s#m#2026-03-02T01:00:00.000000Z#{to_millis(world.time)}#0000"
    world.work.add("part", name, memo)
    world.work.add("part", "broken", memo)
    for _ in range(3):
        queued.run()
        world.sleep(60)
    assert (list_cells(world), show_edges(world, "m")) == (whole, ["00:10-01:10"])
    assert [item.name for item in world.work.list_items("part")] == ["broken", name]
    assert list_problems(world.work, world) == [
        ("part", "broken", 1, True, "RollupsFailing"),
        ("part", "s", 1, True, "RollupsFailing"),
    ]
    failed = [reason for report in queued.reports if report is not None for reason in report.failed]
    # Each is tried once a minute.
    assert sorted(reason.partition(":")[0] for reason in failed) == ["broken"] * 3 + ["s"] * 3


@expect_failures("cannot be read")
@pytest.mark.parametrize("broken", ["order", "piece"])
def test_a_rebuild_with_a_record_that_cannot_be_read_waits_and_keeps_its_marks(
    monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """The buckets from 02:00 on are sealed; those of 00:00 to 02:00 are to be computed, in pieces of twenty minutes."""
    cut_short(monkeypatch, 2, 3)
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 0.0)
    world = prepare_rebuild()
    order(world, MINUTES, START, START + timedelta(hours=2))
    queued = Queued(world)
    queued.schedule()
    queued.work_on(queued.queue.messages.pop())
    names = [item.name for item in world.work.list_items("rebuild")]
    assert (names[0], len(names)) == ("s#m", 4)
    record = world.work.records["rebuild", names[0 if broken == "order" else -1]]
    memo, record.memo = record.memo, '{"newer":1}'
    queued.queue.messages.clear()
    world.sleep(930)
    # An event of a bucket that a piece has: its mark stays.
    world.write(reading(105, 5, "a", "late", kind="x"))
    world.sleep(400)
    for _ in range(3):
        queued.run()
        world.sleep(60)
    assert show_edges(world, "m")[0].startswith("02:00-")
    assert len(world.rollups.read_state("s").marks) == 1
    assert list_problems(world.work, world) == [("rebuild", "s", 1, True, "RollupsFailing")]
    # The newer version is back.
    record.memo = memo
    settle(queued)
    assert (show_edges(world, "m")[0][:6], show_progress(world, MINUTES)) == ("00:00-", None)
    assert world.check(QUERIES) > 0
    assert list_problems(world.work, world) == []


def prepare_rebuild() -> World:
    world = World((MINUTES,))
    world.write(*EVENTS)
    world.rollups.put_edge("s", Edge("m", START + timedelta(hours=2), START + timedelta(hours=3), MINUTES.text), None)
    world.sleep(3 * 3_600 + 400)
    refresh(world, "seal")
    return world


def settle(queued: Queued) -> None:
    for _ in range(8):
        queued.run()
        queued.world.sleep(930)


def test_a_cancelled_rebuild_is_removed_also_if_it_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_short(monkeypatch, 2, 3)
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 0.0)
    world = prepare_rebuild()
    order(world, MINUTES, START, START + timedelta(hours=2))
    queued = Queued(world)
    queued.schedule()
    queued.work_on(queued.queue.messages.pop())
    queued.queue.messages.clear()
    for name in [item.name for item in world.work.list_items("rebuild")]:
        world.work.records["rebuild", name].memo = "{"
    cancel_rebuild(MINUTES, world.services())
    settle(queued)
    assert world.work.list_items("rebuild") == []
    assert show_edges(world, "m")[0][:6] == "02:00-"
    assert world.check(QUERIES) > 0


def test_a_broken_memo_of_a_stream_is_only_a_hint_that_is_lost() -> None:
    world = prepare()
    refresh(world, "begin")
    world.work.records["seal", "s"].memo = "{"
    world.sleep(700)
    assert refresh(world, "run").failed == []
    assert world.work.records["seal", "s"].memo == '{"m":0}'


@expect_failures("broken: DecodeError")
def test_an_edge_that_cannot_be_read_stops_only_its_stream() -> None:
    world = prepare(definitions=(MINUTES,))
    world.definitions["broken"] = [HOURS]
    world.rollups.put_edge("broken", Edge("h", START, START + timedelta(hours=1), "{"), None)
    standing = find_due(world.definitions, begin_run(world), frozenset())
    assert [one.stream for one in standing.due] == ["s"]
    assert [reason.partition(":")[0] for reason in standing.failed] == ["broken"]
    pending = list_pending(world.definitions, begin_run(world))
    assert [(one.stream, one.outcome) for one in pending] == [
        ("s", "due"),
        ("s", "planned"),
        ("broken", "unknown"),
    ]
    refresh(world, "run")
    assert show_edges(world, "m") == ["00:10-01:10"]
