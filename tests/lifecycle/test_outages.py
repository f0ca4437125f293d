"""The lifecycle under the service's rules while something is missing: permissions, tables, time."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from strict import Fault, Kind
from tests.fakes.stage import CATALOG, Stage, prepare_once
from tests.worlds.hours import CONFIG
from tidetable.catalog import State
from tidetable.config import parse
from tidetable.ports import TableSpec
from tidetable.times import to_text

START = datetime(2026, 12, 30, 0, 1, tzinfo=UTC)


@prepare_once
def live_six_hours() -> Stage:
    stage = Stage(START, CONFIG)
    live(stage, hours=6)
    return stage


@pytest.fixture
def stage() -> Stage:
    return live_six_hours()


def live(stage: Stage, hours: float, minutes: float = 5) -> list[str]:
    """Let hours pass with a run and an event every five or so many minutes; returns the outcome of each event."""
    end = stage.clock.now() + timedelta(hours=hours)
    outcomes = []
    while stage.clock.now() < end:
        due = stage.clock.now() + timedelta(minutes=minutes)
        stage.run_lifecycle()
        event = {"series": "a", "id": to_text(stage.clock.now()), "data": {}}
        outcome = stage.send("s", json.dumps(event).encode())
        outcomes.append("stored" if outcome.accepted else "queued")
        stage.clock.time = max(due, stage.clock.now())
    return outcomes


def settled(stage: Stage) -> None:
    """Make a few runs without faults. Then nothing is left to do, and every table has the units of its age."""
    stage.dynamo.faults.clear()
    for _ in range(5):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    # An hour may begin between two runs.
    reports = [stage.run_lifecycle() for _ in range(2)]
    assert all(report.healthy for report in reports)
    assert reports[-1].done == []
    now = stage.clock.now()
    entries = stage.catalog.entries("s", consistent=True)
    live_tables = {entry.table for entry in entries if entry.live}
    assert live_tables == set(stage.dynamo.account.tables) - {CATALOG}
    assert all(
        entry.state is State.DELETED for entry in entries if entry.period.shift(4).end < now - timedelta(hours=1)
    )
    open_now = next(entry for entry in entries if now in entry.period)
    table = stage.dynamo.account.tables[open_now.table]
    assert (table.write, table.read) == (10, 10)


@pytest.mark.parametrize(
    ("operation", "action"),
    [
        ("CreateTable", "create"),
        ("DescribeTable", "unseen"),
        ("UpdateTable", "capacity"),
        ("DeleteTable", "delete"),
        ("ListTagsOfResource", "capacity"),
        ("Scan", "archive"),
    ],
)
def test_a_role_without_one_permission_says_so_and_does_the_rest(stage: Stage, operation: str, action: str) -> None:
    stage.dynamo.faults.add(Fault(Kind.ACCESS_DENIED, operation=operation))
    stage.clock.sleep(3600)
    # The first run raises the expired tables, the second archives them, the third deletes them.
    reports = [stage.run_lifecycle()]
    for _ in range(2):
        stage.clock.sleep(180)
        reports.append(stage.run_lifecycle())
    done = [result for report in reports for result in report.done]
    failed = [result for result in done if result.outcome == "failed"]
    assert action in {result.action.name for result in failed}
    assert all("AccessDenied" in result.detail for result in failed), [result.detail for result in failed]
    assert [report.healthy for report in reports if any(result in failed for result in report.done)].count(True) == 0
    # Tables that cannot be described cannot be changed.
    others = set() if operation == "DescribeTable" else {"create", "close"} - {action}
    assert {result.action.name for result in done if result.outcome == "done"} >= others
    settled(stage)


def test_create_table_refused_for_an_hour_at_the_boundary_costs_no_event_its_table(stage: Stage) -> None:
    stage.clock.time = datetime(2026, 12, 31, 22, 30, tzinfo=UTC)
    settled(stage)
    stage.dynamo.faults.add(Fault(Kind.THROTTLED, operation="CreateTable"))
    # From 22:55 of the last day of the year to 23:55, and the hours that were made ahead.
    assert set(live(stage, hours=1.5)) == {"stored"}
    stage.dynamo.faults.clear()
    assert set(live(stage, hours=2)) == {"stored"}
    settled(stage)


def test_an_outage_of_three_periods_queues_what_had_no_table_and_heals(stage: Stage) -> None:
    stage.clock.sleep(3 * 3600)
    event = {"series": "a", "id": "during", "data": {}}
    assert stage.send("s", json.dumps(event).encode()).queued == 1, "premake covers two periods, not three"
    report = stage.run_lifecycle()
    assert report.healthy
    labels = {entry.period.label for entry in stage.catalog.entries("s", consistent=True) if entry.writable}
    now = stage.clock.now()
    for hours in (-1, 0, 1, 2):
        assert (now + timedelta(hours=hours)).strftime("%Y-%m-%dT%H") in labels
    stage.clock.sleep(400)
    stage.drain()
    assert stage.queue.messages == []
    settled(stage)


def test_tables_have_what_their_stream_says_and_still_go_when_their_time_has_come(stage: Stage) -> None:
    policy = """
    [streams.s.table]
    deletion_protection = true
    point_in_time_recovery = true
    tags = { team = "tides" }
    """
    stage.config = parse(CONFIG + policy)
    live(stage, hours=9)
    settled(stage)
    tables = [table for name, table in stage.dynamo.account.tables.items() if name != CATALOG]
    assert all(table.protected and table.recoverable and table.tags["team"] == "tides" for table in tables)
    assert all(table.tags["tidetable:stream"] == "s" for table in tables)


def test_two_runs_at_once_do_each_thing_once(stage: Stage) -> None:
    stage.clock.sleep(3600)
    before = dict(stage.dynamo.calls)
    second: list[str | None] = []
    original = stage.tables.create

    def meanwhile(spec: TableSpec) -> bool:
        if not second:
            second.append("begun")
            second.append(stage.run_lifecycle().skipped)
        return original(spec)

    stage.tables.create = meanwhile  # type: ignore[method-assign]
    assert stage.run_lifecycle().healthy
    assert second[0] == "begun"
    assert second[1] is not None
    assert second[1].startswith("another run is under way")
    assert stage.dynamo.calls["CreateTable"] == before["CreateTable"] + 1


def test_a_change_of_configuration_in_the_last_minute_of_the_year(stage: Stage) -> None:
    stage.clock.time = datetime(2026, 12, 31, 23, 59, tzinfo=UTC)
    settled_at = stage.clock.now()
    stage.run_lifecycle()
    stage.config = parse(
        CONFIG.replace('"hour"', '"day"').replace('"1h"', '"1d"').replace("retention = 4", "retention = 2")
    )
    assert set(live(stage, hours=30, minutes=15)) == {"stored"}
    periods = sorted(
        entry.period for entry in stage.catalog.entries("s", consistent=True) if entry.period.end > settled_at
    )
    assert all(earlier.end == later.start for earlier, later in pairwise(periods))
    assert "2027-01-02" in {period.label for period in periods}
