"""What the records of work say about items that wait, run and failed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.fakes.work import FakeWork
from tests.fakes.work_queue import FakeWorkQueue
from tidetable.work.claim import KINDS, WorkItem
from tidetable.work.schedule import DueItem, wake_workers
from tidetable.work.standing import WorkStanding, list_standings

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def test_items_are_counted_by_kind_and_stream() -> None:
    work = FakeWork()
    for number in range(4):
        work.add("part", f"s#m#{number}", "")
    work.add("part", "t#m#0", "")
    parts = work.list_items("part")
    sealing = DueItem(WorkItem("seal", "t"), "t")
    due = [DueItem(item, item.name[0], added=True) for item in parts if item.name != "s#m#3"]
    wake_workers([sealing, *due], 99, work, FakeWorkQueue(), NOON)
    running = work.claim("part", "s#m#0", "a", NOON, NOON + 9 * MINUTE, added=True)
    failed = work.claim("part", "s#m#1", "b", NOON, NOON + 9 * MINUTE, added=True)
    done = work.claim("part", "s#m#2", "c", NOON, NOON + 9 * MINUTE, added=True)
    swept = work.claim("sweep", "objects", "d", NOON, NOON + 9 * MINUTE)
    assert running is not None
    assert failed is not None and done is not None and swept is not None  # noqa: PT018
    work.release(failed, "", problem="no answer")
    work.release(done, "", done=True)
    work.release(swept, "", problem="no owner")
    assert list_standings(work, KINDS, NOON + 7 * MINUTE) == [
        WorkStanding("seal", "t", 1, 0, 0, 7 * MINUTE, None),
        WorkStanding("part", "s", 0, 1, 1, timedelta(0), "no answer"),
        WorkStanding("part", "t", 1, 0, 0, 7 * MINUTE, None),
        WorkStanding("sweep", None, 0, 0, 1, timedelta(0), "no owner"),
    ]
    # A claim that ended by itself does not run any more, and its item waits from its next message on.
    rows = list_standings(work, KINDS, NOON + 10 * MINUTE)
    assert [(one.kind, one.stream, one.running) for one in rows][1] == ("part", "s", 0)


def test_what_is_finished_or_has_nothing_to_do_is_not_listed() -> None:
    work = FakeWork()
    for kind in KINDS:
        claim = work.claim(kind, "s", "a", NOON, NOON + MINUTE)
        assert claim
        work.release(claim, "memo", done=kind == "part")
    assert list_standings(work, KINDS, NOON) == []
