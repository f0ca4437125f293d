"""The lifecycle against the control plane as it was measured: backups that come late, lost keys, owners, many tables at once."""

from datetime import UTC, datetime, timedelta

import pytest

from strict import Fault, Kind, Timings
from tests.fakes.stage import CATALOG, Stage
from tests.fakes.threads import SharedClock, side_by_side
from tests.lifecycle.world import outcomes
from tests.worlds.control_plane import INDEX_AFTER, KEY, LIFECYCLE, NOON, entry, quiet, stream, tables
from tidetable.catalog import State
from tidetable.config import parse
from tidetable.errors import TableUnusable
from tidetable.period_tables import PeriodTables
from tidetable.remaining import limit_time

# Point-in-time recovery


def test_a_table_gets_recovery_in_the_run_that_makes_it_though_backups_come_seconds_later() -> None:
    stage = Stage(NOON, LIFECYCLE + stream("s", table="point_in_time_recovery = true"))
    report = stage.run_lifecycle()
    assert {(action, outcome) for action, _, outcome in outcomes(report)} == {("create", "done")}
    assert [table.recoverable for table in tables(stage).values()] == [True] * 4
    assert {entry.state for entry in stage.catalog.entries("s", consistent=True)} == {State.OPEN}


def test_the_table_of_parts_gets_recovery_too() -> None:
    table = "point_in_time_recovery = true"
    stage = Stage(NOON, LIFECYCLE + stream("s", table=table, more='large = { beyond = "chunks" }'))
    stage.run_lifecycle()
    recovered = {label: table.recoverable for label, table in tables(stage).items()}
    days = ("2026-03-14", "2026-03-15", "2026-03-16", "2026-03-17")
    assert recovered == {f"{day}{parts}": True for day in days for parts in ("", ".parts")}


def test_recovery_that_is_not_to_be_had_is_reported_and_had_later() -> None:
    stage = Stage(NOON, LIFECYCLE + stream("s", table="point_in_time_recovery = true"))
    stage.dynamo.account.timings = Timings(backups=3600)
    report = stage.run_lifecycle()
    assert {outcome for _, _, outcome in outcomes(report)} == {"deferred"}
    assert "ContinuousBackupsUnavailableException" in report.done[0].detail
    stage.clock.sleep(3600)
    stage.run_lifecycle()
    assert [table.recoverable for table in tables(stage).values()] == [True] * 4


# Tables that are of no use for a time


def test_a_lost_key_stops_its_own_tables_and_no_others() -> None:
    clock = SharedClock(NOON)
    stage = Stage(
        NOON,
        LIFECYCLE + stream("s", table=f'encryption = "{KEY}"') + stream("other"),
        clock=clock,
        pools=side_by_side(clock),
    )
    stage.run_lifecycle()
    stage.dynamo.account.lost_keys.add(KEY)
    # Both streams have a table to archive, to lower and to close.
    stage.clock.sleep(5 * 86_400)
    began = stage.clock.now()
    report = stage.run_lifecycle()
    # Ten new tables, half of them of the lost key, are waited for in two waves, and for ten seconds the table that is made
    # faster for its export; those that were there are not.
    assert stage.clock.now() - began < timedelta(seconds=160)
    assert not report.healthy
    stuck = [result for result in report.done if result.action.name == "stuck"]
    assert [result.action.entry.period.label for result in stuck] == [
        "2026-03-14",
        "2026-03-15",
        "2026-03-16",
        "2026-03-17",
    ]
    assert all("INACCESSIBLE_ENCRYPTION_CREDENTIALS" in result.detail for result in stuck)
    assert entry(stage, "2026-03-14").state is State.CLOSED, "what the catalog alone decides goes on"
    # The switch that makes a table faster takes minutes: the next run archives it.
    stage.clock.sleep(300)
    stage.run_lifecycle()
    assert entry(stage, "2026-03-14", "other").state is State.DELETED, "archived and deleted while the others are stuck"
    stage.dynamo.account.lost_keys.clear()
    stage.clock.sleep(3600)
    quiet(stage)
    assert entry(stage, "2026-03-14").state is State.DELETED


def test_a_table_that_is_stuck_takes_no_time_once_it_was_seen() -> None:
    stage = Stage(NOON, LIFECYCLE + stream("s", table=f'encryption = "{KEY}"'))
    stage.run_lifecycle()
    stage.dynamo.account.lost_keys.add(KEY)
    stage.clock.sleep(300)
    began = stage.clock.now()
    report = stage.run_lifecycle()
    assert stage.clock.now() == began
    assert {outcome for _, _, outcome in outcomes(report)} == {"failed"}


def test_an_archived_table_whose_key_is_lost_is_deleted_all_the_same() -> None:
    kept = LIFECYCLE.replace("delete_expired = true", "delete_expired = false")
    stage = Stage(NOON, kept + stream("s", table=f'encryption = "{KEY}"'))
    for _ in range(6):
        stage.run_lifecycle()
        stage.clock.sleep(86_400)
    assert entry(stage, "2026-03-14").state is State.ARCHIVED
    stage.dynamo.account.lost_keys.add(KEY)
    stage.config = parse(LIFECYCLE + stream("s", table=f'encryption = "{KEY}"'))
    stage.run_lifecycle()
    assert entry(stage, "2026-03-14").state is State.DELETED
    assert "2026-03-14" not in tables(stage)


def test_a_table_that_stays_in_the_making_is_waited_for_a_minute_and_reported_after_half_an_hour() -> None:
    stage = Stage(NOON, LIFECYCLE + stream("s", table=f'encryption = "{KEY}"'))
    stage.dynamo.account.lost_keys.add(KEY)
    began = stage.clock.now()
    report = stage.run_lifecycle()
    waited = stage.clock.now() - began
    assert outcomes(report) == [("create", f"2026-03-{day}", "deferred") for day in (14, 15, 16, 17)]
    # One after another here: a minute each, and two for all tables that are to be made.
    assert timedelta(seconds=110) < waited <= timedelta(seconds=125)
    assert len(tables(stage)) == 4, "those that are not waited for are begun all the same"
    stage.clock.time = began + timedelta(minutes=29)
    assert stage.run_lifecycle().healthy
    stage.clock.time = began + timedelta(minutes=35)
    report = stage.run_lifecycle()
    assert {(action, outcome) for action, _, outcome in outcomes(report)} == {("stuck", "failed")}
    assert "CREATING since 2026-03-15T12:01" in report.done[0].detail
    stage.dynamo.account.lost_keys.clear()
    stage.clock.sleep(3600)
    quiet(stage)
    assert {entry.state for entry in stage.catalog.entries("s", consistent=True)} == {State.OPEN}, (
        "the service dropped them; they are made anew"
    )


def test_a_change_that_does_not_end_is_waited_for_a_minute_per_action() -> None:
    stage = Stage(NOON, LIFECYCLE + stream("s"))
    stage.run_lifecycle()
    stage.dynamo.account.timings = Timings(warm=86_400)
    warm = {"WarmThroughput": {"WriteUnitsPerSecond": 5000, "ReadUnitsPerSecond": 12_000}}
    stage.client.update_table(TableName="tidetable-lapse.s.2026-03-14", **warm)
    stage.clock.time = datetime(2026, 3, 16, 0, 5, tzinfo=UTC)
    began = stage.clock.now()
    report = stage.run_lifecycle()
    assert ("capacity", "2026-03-14", "deferred") in outcomes(report)
    assert ("create", "2026-03-18", "done") in outcomes(report)
    assert ("capacity", "2026-03-16", "done") in outcomes(report)
    assert timedelta(seconds=55) < stage.clock.now() - began < timedelta(seconds=80)


def test_a_state_that_does_not_pass_ends_the_wait_at_once() -> None:
    stage = Stage(NOON, LIFECYCLE + stream("s", table=f'encryption = "{KEY}"'))
    stage.run_lifecycle()
    stage.dynamo.account.lost_keys.add(KEY)
    held = PeriodTables("lapse", stage.tables, stage.clock, limit_time(60, stage.clock, lambda: 60.0))
    began = stage.clock.now()
    with pytest.raises(TableUnusable, match=r"2026-03-15 is INACCESSIBLE_ENCRYPTION_CREDENTIALS; see the runbook"):
        held.settled("tidetable-lapse.s.2026-03-15")
    assert stage.clock.now() == began


# Ownership


@pytest.mark.parametrize("tag", ["project", "tidetable:stage", "tidetable:stream", "tidetable:period"])
def test_a_table_of_which_one_tag_is_anothers_is_left_alone(tag: str) -> None:
    stage = Stage(NOON, LIFECYCLE + stream("s"))
    stage.run_lifecycle()
    held = tables(stage)["2026-03-14"]
    held.tags[tag] = "another"
    for _ in range(6):
        stage.clock.sleep(86_400)
        report = stage.run_lifecycle()
    assert ("delete", "2026-03-14", "failed") in outcomes(report)
    assert (held.status, held.write, held.read) == ("ACTIVE", 10, 10)


# Many at once


@pytest.mark.parametrize(("most", "runs"), [(250, 1), (3, 1), (1, 2)])
def test_tables_with_indexes_are_made_side_by_side_and_fewer_at_a_time_where_the_service_wants_it(
    most: int, runs: int
) -> None:
    """Eleven tables of 22 s each take 242 s one by one; a run waits two minutes for them."""
    clock = SharedClock(NOON)
    config = LIFECYCLE + stream("s", more=INDEX_AFTER).replace('"1d"', '"8d"').replace("= 3", "= 9")
    stage = Stage(NOON, config, clock=clock, pools=side_by_side(clock))
    stage.dynamo.account.indexed_at_once = most
    began = stage.clock.now()
    reports = [stage.run_lifecycle()]
    while any(outcome != "done" for _, _, outcome in outcomes(reports[-1])):
        stage.clock.sleep(300)
        reports.append(stage.run_lifecycle())
    assert len(reports) == runs
    assert {entry.state for entry in stage.catalog.entries("s", consistent=True)} == {State.OPEN}
    assert len(tables(stage)) == 11
    assert set(stage.dynamo.account.tables) == {
        entry.table for entry in stage.catalog.entries("s", consistent=True)
    } | {CATALOG}
    if most == 250:
        assert stage.clock.now() - began < timedelta(seconds=75), "two waves of eight, and what was throttled of them"


def test_a_creation_that_is_refused_once_is_done_by_the_next_run() -> None:
    stage = Stage(NOON, LIFECYCLE + stream("s"))
    stage.dynamo.faults.add(Fault(Kind.SERVER_ERROR, operation="CreateTable", times=1))
    assert [outcome for _, _, outcome in outcomes(stage.run_lifecycle())] == ["deferred", "done", "done", "done"]
    assert outcomes(stage.run_lifecycle()) == [("create", "2026-03-14", "done")]
