"""The life of a stream, step by step, with the expected state after each step."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from unittest.mock import Mock

from tests.lifecycle.world import World, configuration, outcomes
from tidetable.catalog import State

FULL, STANDBY = (10, 10, "standard"), (1, 1, "standard")
FIRST, LAST = (2, 5, "standard"), (1, 1, "infrequent-access")


def test_a_stream_from_its_first_run_to_a_steady_state() -> None:
    world = World()
    world.run()
    assert world.levels() == {
        "2026-03-14": FULL,
        "2026-03-15": FULL,
        "2026-03-16": STANDBY,
        "2026-03-17": STANDBY,
    }, "the writable window has tables, and two more stand by"
    assert set(world.states().values()) == {State.OPEN}

    assert world.run().done == [], "nothing changed, so nothing is done"
    assert world.after(minutes=5).done == []

    world.at(datetime(2026, 3, 15, 23, 45, tzinfo=UTC))
    assert world.levels()["2026-03-16"] == FULL, "raised before its first event can come"
    assert world.levels()["2026-03-14"] == FULL, "late events are still taken"

    world.at(datetime(2026, 3, 16, 0, 1, tzinfo=UTC))
    assert world.levels()["2026-03-14"] == FIRST, "it closed at its end plus late, and descends a step"
    assert world.states()["2026-03-14"] is State.CLOSED
    assert "2026-03-18" in world.levels(), "two periods ahead, always"

    world.at(datetime(2026, 3, 18, 0, 1, tzinfo=UTC))
    assert world.levels()["2026-03-14"] == LAST

    world.at(datetime(2026, 3, 20, 0, 1, tzinfo=UTC))
    assert world.states()["2026-03-14"] is State.DELETED, "kept five days after its end, archived, deleted"
    assert "2026-03-14" not in world.levels()
    assert "tidetable-t.s.2026-03-14" in world.archive.periods
    assert world.run().done == []


def test_a_dry_run_plans_and_changes_nothing() -> None:
    world = World()
    report = world.run(dry_run=True)
    assert {outcome for _, _, outcome in outcomes(report)} == {"planned"}
    assert len(report.done) == 4
    assert (world.tables.names, world.states(), world.catalog.leases) == (set(), {}, {})


def test_after_an_outage_of_three_periods_the_window_is_whole_and_late_tables_have_what_their_age_deserves() -> None:
    world = World()
    world.run()
    report = world.after(days=4)
    assert report.healthy
    assert world.levels() == {
        "2026-03-14": LAST,
        "2026-03-15": LAST,
        "2026-03-16": FIRST,
        "2026-03-17": FIRST,
        "2026-03-18": FULL,
        "2026-03-19": FULL,
        "2026-03-20": STANDBY,
        "2026-03-21": STANDBY,
    }


def test_a_table_changed_by_hand_is_put_back_within_the_hour_and_reported() -> None:
    world = World()
    world.run()
    world.at(datetime(2026, 3, 18, 0, 1, tzinfo=UTC))
    world.after(minutes=5)
    open_table, closed_table = "tidetable-t.s.2026-03-17", "tidetable-t.s.2026-03-14"
    for name in (open_table, closed_table):
        world.tables.set_capacity(name, 77, 77)
    world.clock.sleep(10)
    reports = [world.after(minutes=5) for _ in range(13)]
    steps = {
        result.action.entry.table: result for report in reports for result in report.done if result.outcome == "done"
    }
    assert steps.keys() == {open_table, closed_table}
    assert all("changed by hand, put back" in value.action.reason for value in steps.values())
    assert (world.levels()["2026-03-17"], world.levels()["2026-03-14"]) == (FULL, LAST)


def test_a_run_that_changes_nothing_looks_at_a_twelfth_of_the_tables() -> None:
    world = World(retention=60)
    world.run()
    for _ in range(62):
        world.after(days=1)
    world.run()
    looked: list[list[str]] = []
    describe = world.tables.describe

    def counted(name: str) -> Any:
        looked[-1].append(name)
        return describe(name)

    world.tables.describe = counted  # type: ignore[method-assign]
    for _ in range(12):
        looked.append([])
        assert world.after(minutes=5).done == []
    assert max(len(names) for names in looked) < 62 / 2
    assert sum(len(names) for names in looked) == len(world.tables._states)
    assert {name for names in looked for name in names} == set(world.tables._states), (
        "each had its turn within the hour"
    )


def test_a_longer_window_raises_units_again_but_spends_no_change_of_class() -> None:
    world = World()
    world.run()
    for _ in range(4):
        world.after(days=1)
    world.after(minutes=5)
    assert world.levels()["2026-03-14"] == LAST
    world.config = configuration(late="5d")
    world.after(minutes=5)
    world.after(minutes=5)
    assert world.levels()["2026-03-14"] == (10, 10, "infrequent-access")
    assert [change for change in world.tables.changes if "class" in change and "2026-03-14" in change] == [
        "class tidetable-t.s.2026-03-14"
    ]
    assert world.after(minutes=5).done == []


def test_a_failed_creation_is_reported_and_stops_nothing_else() -> None:
    world = World()
    world.tables.fails = {"tidetable-t.s.2026-03-16"}
    report = world.run()
    assert ("create", "2026-03-16", "failed") in outcomes(report)
    assert not report.healthy
    assert "2026-03-17" in world.levels()
    world.tables.fails = set()
    assert outcomes(world.after(minutes=5)) == [("create", "2026-03-16", "done")]


def test_a_table_that_cannot_be_described_is_left_alone_and_stops_nothing_else() -> None:
    world = World()
    world.run()
    world.tables.unseen = {"tidetable-t.s.2026-03-14"}
    report = world.after(days=1)
    assert ("unseen", "2026-03-14", "failed") in outcomes(report)
    assert not report.healthy
    assert {name for name, _, outcome in outcomes(report) if outcome == "done"} >= {"create", "capacity"}
    assert world.run(dry_run=True).done[-1].outcome == "failed"
    world.tables.unseen = set()
    assert world.after(minutes=5).healthy
    assert world.levels()["2026-03-14"] == FIRST


def test_a_catalog_that_cannot_be_read_is_a_trouble_and_no_crash() -> None:
    world = World()
    world.run()
    entries = world.catalog.entries
    world.catalog.entries = Mock(side_effect=ConnectionError("no answer"))  # type: ignore[method-assign]
    report = world.after(days=1)
    assert not report.healthy
    assert report.document()["troubles"] == ["the catalog could not be read for s: ConnectionError: no answer"]
    world.catalog.entries = entries  # type: ignore[method-assign]
    assert world.after(minutes=5).healthy


def test_a_lease_that_cannot_be_given_back_does_not_undo_a_run() -> None:
    world = World()
    world.catalog.release = Mock(side_effect=ConnectionError("no answer"))  # type: ignore[method-assign]
    assert world.run().healthy
    assert not world.catalog.acquire("lifecycle", "another", world.clock.time, timedelta(minutes=1))
    assert world.catalog.acquire(
        "lifecycle", "another", world.clock.time + timedelta(seconds=1000), timedelta(minutes=1)
    )


def test_a_failed_archive_keeps_its_table() -> None:
    world = World()
    world.run()
    world.archiver.fails = True
    report = world.after(days=6)
    assert ("archive", "2026-03-14", "failed") in outcomes(report)
    assert ("delete", "2026-03-14", "deferred") in outcomes(report)
    assert "2026-03-14" in world.levels()
    world.archiver.fails = False
    world.after(minutes=5)
    assert world.states()["2026-03-14"] is State.DELETED


def test_a_run_does_not_read_what_has_long_been_deleted() -> None:
    world = World()
    world.run()
    for _ in range(30):
        world.after(days=1)
    world.run()
    read: list[int] = []
    entries = world.catalog.entries

    def counted(*args: Any, **kwargs: Any) -> Any:
        entry_list = entries(*args, **kwargs)
        read.append(len(entry_list))
        return entry_list

    world.catalog.entries = counted  # type: ignore[method-assign]
    assert world.run().done == []
    assert len(entries("s")) > 30
    assert read == [len(world.tables.names)]


def test_after_a_longer_window_deleted_periods_are_still_nobody_elses() -> None:
    world = World()
    world.run()
    for _ in range(20):
        world.after(days=1)
    world.config = configuration(late="20d", retention=21)
    assert all(outcome == "done" for _, _, outcome in outcomes(world.run()))
    labels = [entry.period.label for entry in world.catalog.entries("s")]
    assert len(labels) == len(set(labels))


def test_without_the_switch_nothing_is_ever_deleted() -> None:
    world = World(delete="false")
    world.run()
    world.after(days=30)
    assert world.states()["2026-03-14"] is State.ARCHIVED
    assert world.levels()["2026-03-14"][:2] != LAST[:2], "it was archived as it was"
    for _ in range(2):
        assert world.after(minutes=5).healthy
    level = (None, None, "infrequent-access")
    assert world.levels()["2026-03-14"] == level, (
        "an archived table that stays is on demand: it costs its storage alone"
    )
    assert world.after(minutes=5).done == []


def test_a_stream_that_keeps_its_tables_keeps_them() -> None:
    world = World(on_expiry="keep")
    world.run()
    world.after(days=30)
    assert world.levels()["2026-03-14"] == LAST
    assert world.run().done == []


def test_a_stream_that_deletes_does_so_without_an_archive() -> None:
    world = World(on_expiry="delete")
    world.run()
    world.after(days=30)
    assert world.states()["2026-03-14"] is State.DELETED
    assert world.archive.periods == {}


def test_a_table_deleted_by_hand_is_reported_at_each_run_and_never_made_anew() -> None:
    world = World()
    world.run()
    world.tables.vanish("tidetable-t.s.2026-03-15")
    for _ in range(2):
        report = world.after(minutes=5)
        assert outcomes(report) == [("lost", "2026-03-15", "lost")]
        assert not report.healthy
    assert "2026-03-15" not in world.levels()


def test_a_strangers_table_of_our_name_is_never_touched() -> None:
    world = World()
    world.run()
    held = world.tables._states["tidetable-t.s.2026-03-14"]
    held.tags = {"owner": "somebody else"}
    before = held.table
    report = world.after(days=30)
    assert all(
        outcome != "done" for name, label, outcome in outcomes(report) if (name, label) == ("delete", "2026-03-14")
    )
    described = world.tables.describe("tidetable-t.s.2026-03-14")
    assert described is not None
    assert (described.write, described.table_class) == (before.write, before.table_class)


def test_two_runs_at_once_are_one_run() -> None:
    world = World()
    assert world.catalog.acquire("lifecycle", "another", world.clock.time, timedelta(minutes=5))
    report = world.run()
    assert report.skipped == "another run is under way; if it died, its lease runs out within 5 minutes of its start"
    assert report.healthy is None, "a run that did nothing knows of no trouble"
    assert world.tables.names == set()
    assert world.after(minutes=6).healthy, "a killed run's lease runs out"


def test_a_longer_period_begins_where_hours_end_without_gap_or_overlap() -> None:
    world = World(datetime(2026, 12, 31, 23, 59, tzinfo=UTC), period="hour", late="2h", retention=48)
    world.run()
    world.config = configuration(period="day", late="1d", retention=5)
    world.after(minutes=1)
    periods = sorted(entry.period for entry in world.catalog.entries("s"))
    for earlier, later in pairwise(periods):
        assert earlier.end == later.start
    labels = [period.label for period in periods]
    assert "2027-01-01T03" in labels, "hours go on to the day's end"
    assert "2027-01-02" in labels


def test_a_table_that_stays_in_its_class_is_not_looked_at_more_often_for_it() -> None:
    world = World(retention=20)
    world.run()
    for _ in range(4):
        world.after(days=1)
    world.after(minutes=5)
    world.config = configuration(late="5d", retention=20)
    for _ in range(3):
        world.after(minutes=5)
    assert world.levels()["2026-03-14"] == (10, 10, "infrequent-access")
    looked: list[str] = []
    describe = world.tables.describe

    def counted(name: str) -> Any:
        looked.append(name)
        return describe(name)

    world.tables.describe = counted  # type: ignore[method-assign]
    for _ in range(12):
        world.after(minutes=5)
    assert looked.count("tidetable-t.s.2026-03-14") == 1, "its turn within the hour, and no more"
