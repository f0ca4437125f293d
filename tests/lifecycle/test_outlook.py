"""The report of a run on future changes, and its notices of actions."""

from datetime import UTC, datetime

from tests.lifecycle.world import World
from tidetable.lifecycle.notices import notices_of

TODAY, TOMORROW = "tidetable-t.s.2026-03-15", "tidetable-t.s.2026-03-16"


def test_a_next_table_that_is_missing_worries_from_an_hour_before_its_first_event() -> None:
    world = World()
    world.tables.fails = {TOMORROW}
    world.run()
    assert world.at(datetime(2026, 3, 15, 22, 54, tzinfo=UTC)).outlook.without_next_table == ()
    # Events may come five minutes before the period, and the hour counts from then.
    report = world.at(datetime(2026, 3, 15, 22, 56, tzinfo=UTC))
    assert report.outlook.without_next_table == ("s",)
    assert report.document()["without_next_table"] == ["s"]
    world.tables.fails = set()
    world.after(minutes=5)
    assert world.after(minutes=5).outlook.without_next_table == ()


def test_a_stream_without_a_present_table_worries_at_once() -> None:
    world = World()
    world.tables.fails = {TODAY}
    assert world.run().outlook.without_next_table == ("s",)


def test_a_good_life_worries_about_nothing() -> None:
    world = World()
    world.run()
    for _ in range(24 * 6):
        report = world.after(hours=1)
        assert (report.outlook.without_next_table, report.outlook.overdue) == ((), ())


def test_an_archive_that_fails_for_a_day_is_overdue() -> None:
    world = World()
    world.run()
    world.archiver.fails = True
    assert world.at(datetime(2026, 3, 20, 12, tzinfo=UTC)).outlook.overdue == ()
    report = world.at(datetime(2026, 3, 21, 1, tzinfo=UTC))
    assert report.outlook.overdue == ("s 2026-03-14",)
    world.archiver.fails = False
    world.after(minutes=5)
    assert world.after(minutes=5).outlook.overdue == ()


def test_a_table_s_life_is_told_in_four_notices() -> None:
    world = World()
    notices = []
    for report in (world.run(), *(world.after(hours=12) for _ in range(14))):
        notices += [(notice.kind, notice.detail["table"], notice.detail["stage"]) for notice in notices_of(report, "t")]
    mine = [(kind, stage) for kind, table, stage in notices if table == TODAY]
    assert mine == [(f"Period Table {kind}", "t") for kind in ("Created", "Closed", "Archived", "Deleted")]


def test_a_failure_is_not_told_as_done() -> None:
    world = World()
    world.tables.fails = {TOMORROW}
    assert TOMORROW not in {notice.detail["table"] for notice in notices_of(world.run(), "t")}
    assert notices_of(world.run(dry_run=True), "t") == []


def test_a_change_that_does_not_hold_yet_says_from_when_it_does() -> None:
    world = World()
    world.run()
    assert world.after(minutes=5).document()["changes"] == []
    world.config = World(period="hour", late="1d", retention=50).config
    report = world.after(minutes=5)
    assert report.outlook.changes == ("s: period day -> hour from 2026-03-18T00:00:00.000000Z on",)
    assert world.at(datetime(2026, 3, 18, 0, 1, tzinfo=UTC)).outlook.changes == ()
