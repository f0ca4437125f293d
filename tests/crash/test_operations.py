"""Restores and sweeps are stopped after each of their calls, and run again."""

from datetime import timedelta

from tests.fakes.stage import Stage
from tests.fakes.work_queue import FakeWorkQueue
from tests.worlds.killed import killed_after_every_change
from tests.worlds.operations import (
    CONFIG,
    FIRST,
    LONG,
    age_stage,
    build_stage,
    event,
    read_events,
    send,
    settle,
    states,
    tables,
)
from tidetable.catalog import State
from tidetable.large.sweep_work import find_due_sweep, work_on_sweep
from tidetable.ports import Blob
from tidetable.times import from_text
from tidetable.work.schedule import wake_workers

STORED = CONFIG.format(versions="overwrite", cold="[]", beyond="s3")


SECOND = [event("a", n=2, raw="s" * 900), event("bb", n=2, text=LONG)]


VERSIONS = [("a", 2), ("a", 1), ("bb", 2), ("bb", 1), ("ccc", 1)]


def gone() -> Stage:
    """A stage with versions, cold fields and a large value in chunks, whose first months are deleted."""
    return age_stage(FIRST, SECOND)


def test_a_restore_of_versions_cold_fields_and_chunks_is_finished_by_the_next() -> None:
    def restore(stage: Stage) -> None:
        assert stage.restore("s", "2026-03").state == "closed"

    def check(stage: Stage, calls: int) -> None:
        found = read_events(stage, versions="all")
        assert [(id, data["n"]) for id, data in found] == VERSIONS, f"killed after {calls} calls"
        whole = [event["data"] for event in (SECOND[0], FIRST[0], SECOND[1], FIRST[1], FIRST[2])]
        assert [data for _, data in found] == whole, f"killed after {calls} calls"

    for calls, stage in killed_after_every_change(gone, restore):
        check(stage, calls)
        if states(stage)["2026-03"] != "closed":
            stage.clock.sleep(900)
            restore(stage)
        check(stage, calls)
        assert states(stage)["2026-03"] == "closed"
        assert {"s.2026-03", "s.2026-03.parts"} <= set(tables(stage))


def test_a_lifecycle_that_comes_upon_a_restore_that_was_stopped_leaves_it_alone() -> None:
    """The next restore comes hours later; until then the period is read from its archive."""
    for calls, stage in killed_after_every_change(gone, lambda stage: stage.restore("s", "2026-03")):
        before = states(stage)["2026-03"]
        settle(stage, 2)
        assert states(stage)["2026-03"] == before, f"killed after {calls} calls"
        assert [(id, data["n"]) for id, data in read_events(stage, versions="all")] == VERSIONS
        if before == "restoring":
            assert stage.restore("s", "2026-03").state == "closed"
        assert [(id, data["n"]) for id, data in read_events(stage, versions="all")] == VERSIONS


def littered() -> Stage:
    """Objects: a live, a replaced, and an abandoned object, one of a deleted month, and one of a month that nobody knows."""
    stage = build_stage(STORED)
    send(stage, event("a", n=1, text=LONG))
    send(stage, event("a", n=2, text=LONG))
    live = list(stage.values.blobs.values())[-1]
    for month in ("2026-03", "2026-04", "2025-01"):
        stage.values.put(Blob(f"large/stream=s/period={month}/other", b"other", live.owner))
    entry = next(entry for entry in stage.catalog.entries("s", consistent=True) if entry.period.label == "2026-04")
    stage.catalog.move(entry, State.DELETED, expected=[entry.state], deleted_at=stage.clock.now())
    stage.clock.sleep(2 * 86_400)
    assert len(stage.values.blobs) == 5
    return stage


def test_a_sweep_is_finished_by_the_next() -> None:
    """Objects of a month without an entry stay, and so do needed objects; all other objects are removed."""
    whole = littered()
    swept = whole.sweep()
    assert (swept.seen, swept.orphans, swept.expired, swept.unknown, swept.failures) == (5, 2, 1, 1, [])
    kept = sorted(whole.values.blobs)
    assert [key.split("/")[2] for key in kept] == ["period=2025-01", "period=2026-03"]
    assert kept[1] == list(littered().values.blobs)[1], "what the second event refers to"
    for calls, stage in killed_after_every_change(littered, Stage.sweep):
        assert read_events(stage) == [("a", {"n": 2, "text": LONG})], f"killed after {calls} calls"
        assert stage.sweep().failures == []
        assert sorted(stage.values.blobs) == kept, f"killed after {calls} calls"
        assert read_events(stage) == [("a", {"n": 2, "text": LONG})]
        assert stage.sweep().orphans == 0


def test_the_work_on_a_sweep_is_finished_by_a_later_message() -> None:
    """A scheduler or a worker that was stopped leaves a note or a claim, which ends within a quarter of an hour."""

    def work(stage: Stage) -> None:
        queue, records, now = FakeWorkQueue(), stage.pipeline.work, stage.clock.now()
        wake_workers(find_due_sweep(records, now), 1, records, queue, now)
        for _ in queue.messages:
            work_on_sweep(stage.pipeline.sweeper, records, f"worker {now}", lambda: 800.0, timedelta(minutes=14))

    whole = littered()
    work(whole)
    assert len(whole.values.blobs) == 2
    for calls, stage in killed_after_every_change(littered, work):
        stage.clock.sleep(900)
        work(stage)
        assert sorted(stage.values.blobs) == sorted(whole.values.blobs), f"killed after {calls} calls"
        (record,) = stage.pipeline.work.list_items("sweep")
        assert (record.until, record.sent, record.problem) == (None, None, ""), f"killed after {calls} calls"
        assert from_text(record.memo) > stage.clock.now()
