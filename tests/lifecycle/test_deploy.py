"""A deploy: the tables that it makes, the work that it leaves to the schedule, its failures, and rollbacks, which never
fail.
"""

from datetime import UTC, datetime, timedelta

import pytest

from strict import Fault, Kind
from tests.fakes.stage import CATALOG, Stage
from tests.fakes.threads import SharedClock, side_by_side
from tests.worlds.deploys import CONFIG, MORE, NOON
from tidetable.catalog import State
from tidetable.config import parse
from tidetable.lifecycle.deploy import Deployed, deploy

# The remaining seconds of the function's ten minutes.
SECONDS = 585.0
INDEX = """
[[streams.s.index]]
name = "status"
partition_by = "status"
"""


def deployed(stage: Stage, configuration: str = "a", *, first: bool = False) -> Deployed:
    end = stage.clock.now() + timedelta(seconds=SECONDS)
    stage.runs += 1

    def remaining() -> float:
        return (end - stage.clock.now()).total_seconds()

    return deploy(stage.begin_run(f"deploy-{stage.runs}", remaining), configuration, first=first)


def refuse(stage: Stage, *labels: str, stream: str = "s") -> None:
    """Refuse the tables of these periods for ever."""
    for label in labels:
        table = f"tidetable-lapse.{stream}.{label}"
        stage.dynamo.faults.add(Fault(Kind.ACCESS_DENIED, operation="CreateTable", table=table))


def test_an_indexed_stream_with_a_long_window_has_its_tables_when_the_deploy_returns() -> None:
    clock = SharedClock(NOON)
    config = CONFIG.replace('late = "1d"', 'late = "34d"').replace("retention = 5", "retention = 40")
    stage = Stage(
        NOON, config.replace("[streams.s.key]", INDEX + "[streams.s.key]"), clock=clock, pools=side_by_side(clock)
    )
    began = clock.now()
    done = deployed(stage, first=True)
    assert (done.failure, done.unmade) == (None, [])
    # 35 of the window, and two ahead.
    assert [entry.state for entry in stage.catalog.entries("s", consistent=True)] == [State.OPEN] * 37
    assert clock.now() - began < timedelta(seconds=200), "37 tables of 22 s each, one by one, would take 814 s"


def test_a_table_that_is_refused_for_a_moment_is_made_before_the_deploy_returns() -> None:
    stage = Stage(NOON, CONFIG)
    stage.dynamo.faults.add(Fault(Kind.SERVER_ERROR, operation="CreateTable", times=3))
    done = deployed(stage, first=True)
    assert (done.failure, done.unmade) == (None, [])
    assert {entry.state for entry in stage.catalog.entries("s", consistent=True)} == {State.OPEN}


def test_rights_that_take_half_a_minute_to_hold_do_not_fail_the_first_deploy() -> None:
    stage = Stage(NOON, CONFIG)
    # Two runs of four tables each.
    stage.dynamo.faults.add(Fault(Kind.ACCESS_DENIED, operation="CreateTable", times=8))
    assert deployed(stage, first=True).failure is None
    assert {entry.state for entry in stage.catalog.entries("s", consistent=True)} == {State.OPEN}


def test_a_deploy_makes_and_raises_tables_and_leaves_archives_to_the_schedule() -> None:
    stage = Stage(NOON, CONFIG)
    assert deployed(stage, first=True).failure is None
    stage.clock.time = datetime(2026, 3, 21, 23, 50, tzinfo=UTC)
    calls = dict(stage.dynamo.calls)
    done = deployed(stage)
    actions = {
        (result.action.name, result.action.entry.period.label) for report in done.reports for result in report.done
    }
    # Tables that closed days ago stood by at 1/1 and never rose. Lowering, closing and archiving wait.
    creates = {("create", f"2026-03-{day}") for day in (20, 21, 22, 23)}
    assert actions == creates | {("capacity", "2026-03-16"), ("capacity", "2026-03-17")}
    assert stage.dynamo.calls.get("Scan", 0) == calls.get("Scan", 0)
    assert stage.dynamo.calls.get("DeleteTable", 0) == 0
    for _ in range(2):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    assert next(iter(stage.catalog.entries("s", consistent=True))).state is State.DELETED


def test_units_that_rise_do_so_in_the_deploy_and_those_that_fall_wait_for_the_schedule() -> None:
    stage = Stage(NOON, CONFIG)
    deployed(stage, first=True)

    def units() -> tuple[int, int]:
        stage.clock.sleep(10)
        table = stage.dynamo.account.tables["tidetable-lapse.s.2026-03-15"]
        stage.dynamo.account.settle()
        return table.write, table.read

    stage.config = parse(CONFIG.replace("write = 10, read = 10", "write = 40, read = 10"))
    deployed(stage, "more")
    assert units() == (40, 10)
    stage.config = parse(CONFIG.replace("write = 10, read = 10", "write = 20, read = 10"))
    deployed(stage, "less")
    assert units() == (40, 10)
    stage.run_lifecycle()
    assert units() == (20, 10)


def test_a_later_periods_table_fails_no_deploy_and_is_named() -> None:
    stage = Stage(NOON, CONFIG)
    refuse(stage, "2026-03-17")
    done = deployed(stage, first=True)
    assert done.failure is None
    (left,) = done.unmade
    assert (left.table, left.needed) == ("tidetable-lapse.s.2026-03-17", False)
    assert "AccessDenied" in left.why
    assert stage.clock.now() - NOON < timedelta(minutes=3), "a refusal that stays is not waited for"


def test_a_period_that_begins_within_the_lead_time_is_needed() -> None:
    stage = Stage(datetime(2026, 3, 15, 23, 30, tzinfo=UTC), CONFIG)
    refuse(stage, "2026-03-16")
    failure = deployed(stage, first=True).failure
    assert failure is not None
    assert failure.startswith(
        "1 tables that events need now could not be made; tidetable-lapse.s.2026-03-16: AccessDenied"
    )


@pytest.mark.parametrize(("minute", "needed"), [(50, False), (56, True)])
def test_a_table_is_needed_an_hour_before_its_first_event_which_may_be_five_minutes_early(
    minute: int, needed: bool
) -> None:
    stage = Stage(datetime(2026, 3, 15, 22, minute, tzinfo=UTC), CONFIG)
    refuse(stage, "2026-03-16")
    done = deployed(stage, first=True)
    assert [(table.table[-10:], table.needed) for table in done.unmade] == [("2026-03-16", needed)]


def test_recovery_that_is_refused_twice_is_tried_again_in_the_same_deploy() -> None:
    """The tables are there by the second run, and only remain to be opened."""
    stage = Stage(NOON, CONFIG + "[streams.s.table]\npoint_in_time_recovery = true\n")
    # Two runs of four tables each.
    stage.dynamo.faults.add(Fault(Kind.ACCESS_DENIED, operation="UpdateContinuousBackups", times=8))
    done = deployed(stage, first=True)
    assert (done.failure, done.unmade) == (None, [])
    names = [{result.action.name for result in report.done} for report in done.reports]
    assert names == [{"create"}, {"open"}, {"open"}]


@pytest.mark.parametrize("label", ["2026-03-14", "2026-03-15"])
def test_a_first_deploy_fails_for_a_table_of_the_writable_window(label: str) -> None:
    stage = Stage(NOON, CONFIG)
    refuse(stage, label)
    failure = deployed(stage, first=True).failure
    assert failure is not None
    assert label in failure


def test_an_update_fails_for_a_new_streams_tables_and_its_rollback_does_not() -> None:
    stage = Stage(NOON, CONFIG)
    assert deployed(stage, "a", first=True).failure is None
    stage.config = parse(CONFIG + MORE)
    refuse(stage, *(f"2026-03-{day}" for day in range(14, 21)), stream="new")
    failure = deployed(stage, "b").failure
    assert failure is not None
    assert "tidetable-lapse.new.2026-03-14" in failure
    # CloudFormation rolls back. Now the earlier configuration cannot have its tables either.
    stage.config = parse(CONFIG)
    stage.clock.sleep(3 * 86_400)
    refuse(stage, "2026-03-17", "2026-03-18")
    done = deployed(stage, "a")
    assert done.failure is None
    assert "tidetable-lapse.s.2026-03-18" in [table.table for table in done.unmade if table.needed]
    # The same update without a mended cause fails again.
    stage.config = parse(CONFIG + MORE)
    assert deployed(stage, "b").failure is not None


def test_a_rollback_does_not_fail_though_nothing_answers() -> None:
    stage = Stage(NOON, CONFIG)
    assert deployed(stage, "a", first=True).failure is None
    stage.dynamo.faults.add(Fault(Kind.ACCESS_DENIED, operation="DescribeTable"))
    stage.dynamo.faults.add(Fault(Kind.ACCESS_DENIED, operation="CreateTable"))
    stage.clock.sleep(5 * 86_400)
    stage.dynamo.faults.add(Fault(Kind.ACCESS_DENIED, operation="Query"))
    stage.catalog.backfills = None  # type: ignore[method-assign, assignment]
    done = deployed(stage, "a")
    assert done.failure is None
    assert done.troubles


def test_at_the_quota_a_shorter_retention_can_be_deployed() -> None:
    """Today's tables were missing before the deploy, and the deploy mends this."""
    stage = Stage(NOON, CONFIG)
    assert deployed(stage, "a", first=True).failure is None
    refuse(stage, "2026-03-18", "2026-03-19", "2026-03-20")
    for _ in range(4):
        stage.clock.sleep(86_400)
        stage.run_lifecycle()
    stage.config = parse(CONFIG.replace("retention = 5", "retention = 2"))
    done = deployed(stage, "shorter")
    assert done.failure is None
    assert [table.table[-10:] for table in done.unmade if table.needed] == ["2026-03-18", "2026-03-19"]


def test_a_wider_window_fails_if_its_tables_cannot_be_made() -> None:
    stage = Stage(NOON, CONFIG)
    assert deployed(stage, "a", first=True).failure is None
    stage.clock.sleep(60)
    stage.config = parse(CONFIG.replace('late = "1d"', 'late = "3d"'))
    refuse(stage, "2026-03-12")
    failure = deployed(stage, "wider").failure
    assert failure is not None
    assert "2026-03-12" in failure


def test_a_first_deploy_on_a_catalog_that_was_kept_is_held_to_the_same() -> None:
    stage = Stage(NOON, CONFIG)
    assert deployed(stage, "a", first=True).failure is None
    stage.clock.sleep(3 * 86_400)
    refuse(stage, "2026-03-18")
    assert deployed(stage, "a", first=True).failure is not None


def test_a_deploy_waits_for_a_run_and_for_a_dead_runs_lease_five_minutes_at_the_most() -> None:
    stage = Stage(NOON, CONFIG)
    release = stage.catalog.release
    # The run dies without releasing its lease.
    stage.catalog.release = lambda *_: None  # type: ignore[method-assign]
    began = stage.clock.now()
    stage.run_lifecycle()
    stage.catalog.release = release  # type: ignore[method-assign]
    done = deployed(stage, first=True)
    assert done.reports[0].skipped is not None
    assert (done.reports[-1].skipped, done.failure) == (None, None)
    assert timedelta(minutes=4) < stage.clock.now() - began <= timedelta(minutes=5, seconds=10)


def test_a_dead_deploys_lease_is_no_longer_than_that_of_a_run() -> None:
    stage = Stage(NOON, CONFIG)
    release = stage.catalog.release
    stage.catalog.release = lambda *_: None  # type: ignore[method-assign]
    deployed(stage, first=True)
    stage.catalog.release = release  # type: ignore[method-assign]
    assert stage.run_lifecycle().skipped is not None
    stage.clock.sleep(300)
    assert stage.run_lifecycle().skipped is None


def test_a_deploy_whose_schedule_made_everything_does_nothing() -> None:
    stage = Stage(NOON, CONFIG)
    stage.run_lifecycle()
    done = deployed(stage, "a")
    assert [report.done for report in done.reports] == [[]]
    assert set(stage.dynamo.account.tables) == {
        entry.table for entry in stage.catalog.entries("s", consistent=True)
    } | {CATALOG}


def test_a_catalog_that_does_not_answer_for_a_moment_fails_no_deploy() -> None:
    stage = Stage(NOON, CONFIG)
    stage.dynamo.faults.add(Fault(Kind.RESET, table=CATALOG, times=2))
    done = deployed(stage, first=True)
    assert (done.failure, done.unmade, done.troubles) == (None, [], [])


def test_a_deploy_that_no_run_lets_in_says_so() -> None:
    stage = Stage(NOON, CONFIG)
    assert stage.catalog.acquire("lifecycle", "another", stage.clock.now(), timedelta(hours=1))
    failure = deployed(stage, first=True).failure
    assert failure is not None
    assert failure.startswith(
        "2 tables that events need now could not be made; tidetable-lapse.s.2026-03-14: another run is under way;"
    )


def test_a_failure_names_five_tables() -> None:
    """CloudFormation cuts off a longer reason."""
    stage = Stage(NOON, CONFIG.replace('late = "1d"', 'late = "5d"'))
    refuse(stage, *(f"2026-03-{day}" for day in range(10, 16)))
    failure = deployed(stage, first=True).failure
    assert failure is not None
    assert failure.startswith(
        "6 tables that events need now could not be made; tidetable-lapse.s.2026-03-10: AccessDenied"
    )
    assert failure.count("tidetable-lapse.s.") == 5
