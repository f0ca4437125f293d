"""What the records of work say about items that wait, run and failed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.work import FakeWork
from tests.fakes.work_queue import FakeWorkQueue
from tidetable.work.claim import Pause, WorkItem
from tidetable.work.kinds import KINDS
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
    # A part for which no message was sent is due, too.
    rows = {(one.kind, one.stream): one for one in list_standings(work, NOON + 7 * MINUTE)}
    assert rows["seal", "t"] == WorkStanding(
        "seal", "t", 1, 1, 0, 0, 7 * MINUTE, None, paused=False, command="bin/tidetable rollup t --pause", alarm=None
    )
    assert rows["part", "s"] == WorkStanding(
        "part",
        "s",
        3,
        0,
        1,
        1,
        timedelta(0),
        "no answer",
        paused=False,
        command="bin/tidetable rollup s",
        alarm="RollupsFailing",
    )
    assert rows["part", "t"][2:7] == (1, 1, 0, 0, 7 * MINUTE)
    assert rows["sweep", None] == WorkStanding(
        "sweep",
        None,
        1,
        0,
        0,
        1,
        timedelta(0),
        "no owner",
        paused=False,
        command="bin/tidetable sweep --dry-run",
        alarm="SweepFailing",
    )
    assert len(rows) == 4
    # A claim that ended by itself does not run any more, and its item waits from its next message on.
    rows = {(one.kind, one.stream): one for one in list_standings(work, NOON + 10 * MINUTE)}
    assert (rows["part", "s"].running, rows["part", "s"].due) == (0, 3)


def test_what_is_finished_or_has_nothing_to_do_is_not_listed() -> None:
    work = FakeWork()
    for kind in KINDS:
        claim = work.claim(kind, "s", "a", NOON, NOON + MINUTE)
        assert claim
        work.release(claim, "memo", done=KINDS[kind].added)
    assert list_standings(work, NOON) == []


@pytest.mark.parametrize("kind", [kind for kind, rules in KINDS.items() if rules.added])
def test_items_of_every_kind_that_has_records_before_it_is_due_are_shown_until_they_are_done(kind: str) -> None:
    work = FakeWork()
    for number in range(3):
        work.add(kind, f"s#m#{number}", "")
    done = work.claim(kind, "s#m#1", "a", NOON, NOON + MINUTE, added=True)
    assert done is not None
    work.release(done, "", done=True)
    work.claim(kind, "s#m#2", "b", NOON, NOON + MINUTE, added=True)
    (one,) = list_standings(work, NOON)
    assert (one.kind, one.stream, one.due, one.running, one.command) == (
        kind,
        "s",
        2,
        1,
        f"bin/tidetable {kind if kind in ('archive', 'restore') else 'rollup'} s --pause",
    )


def test_an_item_that_a_worker_has_is_due() -> None:
    work = FakeWork()
    work.claim("seal", "s", "a", NOON, NOON + MINUTE)
    (one,) = list_standings(work, NOON)
    assert (one.due, one.waiting, one.running) == (1, 0, 1)
    assert list_standings(work, NOON + MINUTE) == []


def test_no_command_lets_work_of_the_stage_go_on() -> None:
    work = FakeWork()
    work.set_pause(Pause("sweep", "*"), on=True)
    (one,) = list_standings(work, NOON)
    assert (one.kind, one.stream, one.paused, one.command) == ("sweep", None, True, None)


def test_each_standing_names_the_command_that_helps() -> None:
    """An hour is when the alarm begins."""
    work = FakeWork()
    due = [DueItem(WorkItem(kind, name), name) for kind, name in (("seal", "s"), ("sweep", "objects"))]
    wake_workers(due, 9, work, FakeWorkQueue(), NOON)

    def show(minutes: int) -> list[tuple[str, str | None, bool, str | None, str | None]]:
        rows = list_standings(work, NOON + minutes * MINUTE)
        return [(one.kind, one.stream, one.paused, one.alarm, one.command) for one in rows]

    sweep = "bin/tidetable sweep --dry-run"
    young = [
        ("seal", "s", False, None, "bin/tidetable rollup s --pause"),
        ("sweep", None, False, None, None),
    ]
    assert show(59) == young
    old = [("seal", "s", False, "WorkWaiting", "bin/tidetable rollup s"), ("sweep", None, False, "SweepWaiting", sweep)]
    assert show(60) == old
    work.set_pause(Pause("seal", "s"), on=True)
    work.set_pause(Pause("seal", "t"), on=True)
    # What rests is listed, also without work.
    assert show(60) == [
        ("seal", "s", True, "WorkWaiting", "bin/tidetable rollup s --resume"),
        ("seal", "t", True, None, "bin/tidetable rollup t --resume"),
        old[1],
    ]
    work.set_pause(Pause("seal", "t"), on=False)
    work.set_pause(Pause("seal", "*"), on=True)
    work.add("part", "u#m#0", "")
    everything = "bin/tidetable rollup '*' --resume"
    assert show(0) == [
        ("seal", None, True, None, everything),
        # The stream's own pause must end, too; this one is named when the other has ended.
        ("seal", "s", True, None, everything),
        ("part", "u", True, None, everything),
        young[1],
    ]


def test_segments_of_archives_have_their_own_commands_and_alarm() -> None:
    work = FakeWork()
    for number in range(3):
        work.add("archive", f"s#2026-03-01#1773964800000#{number:05d}", "")
    (one,) = list_standings(work, NOON)
    assert (one.kind, one.stream, one.due, one.command, one.alarm) == (
        *("archive", "s", 3),
        *("bin/tidetable archive s --pause", None),
    )
    claim = work.claim("archive", "s#2026-03-01#1773964800000#00000", "a", NOON, NOON + MINUTE, added=True)
    assert claim is not None
    work.release(claim, "", problem="no answer")
    (one,) = list_standings(work, NOON)
    assert (one.failed, one.command, one.alarm) == (1, "bin/tidetable archive s", "ArchiveFailing")
    work.set_pause(Pause("archive", "s"), on=True)
    (one,) = list_standings(work, NOON)
    assert (one.paused, one.command) == (True, "bin/tidetable archive s --resume")
