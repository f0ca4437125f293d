"""The lifecycle against the control plane as it was measured: backups that come late, lost keys, limits, billing switches."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from strict import Fault, Kind, Timings
from tests.fakes.stage import CATALOG, Stage
from tests.fakes.threads import SharedClock, side_by_side
from tests.lifecycle.world import outcomes
from tidetable.catalog import Entry, State
from tidetable.config import parse
from tidetable.errors import TableUnusable
from tidetable.period_tables import PeriodTables, at_most

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
KEY = "arn:aws:kms:us-east-1:000000000000:key/11111111-2222-3333-4444-555555555555"
LIFECYCLE = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
"""
LADDER = """
mode = "provisioned"
ladder = [{ age = 0, write = 10, read = 10 }, { age = 1, write = 2, read = 5 }]
"""


def stream(name: str, *, capacity: str = LADDER, table: str = "", more: str = "", key: str = "") -> str:
    return f"""
[streams.{name}]
period = "day"
late = "1d"
retention = 3
{more}
[streams.{name}.key]
partition_by = "series"
{key}
[streams.{name}.table]
{table}
[streams.{name}.capacity]
{capacity}
"""


def tables(stage: Stage, name: str = "s") -> dict[str, Any]:
    """The service's own view of a stream's tables, by period."""
    prefix = f"tidetable-lapse.{name}."
    stage.dynamo.account.settle()
    return {
        table.removeprefix(prefix): held
        for table, held in stage.dynamo.account.tables.items()
        if table.startswith(prefix)
    }


def entry(stage: Stage, label: str, name: str = "s") -> Entry:
    return next(one for one in stage.catalog.entries(name, consistent=True) if one.period.label == label)


def quiet(stage: Stage) -> None:
    """A few runs, after which there is nothing to do."""
    for _ in range(6):
        stage.clock.sleep(300)
        report = stage.run_lifecycle()
    assert (report.done, report.healthy) == ([], True)


# Point-in-time recovery


def test_a_table_gets_recovery_in_the_run_that_makes_it_though_backups_come_seconds_later() -> None:
    stage = Stage(NOON, LIFECYCLE + stream("s", table="point_in_time_recovery = true"))
    report = stage.run_lifecycle()
    assert {(action, outcome) for action, _, outcome in outcomes(report)} == {("create", "done")}
    assert [table.recoverable for table in tables(stage).values()] == [True] * 4
    assert {one.state for one in stage.catalog.entries("s", consistent=True)} == {State.OPEN}


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
    stuck = [one for one in report.done if one.action.name == "stuck"]
    assert [one.action.entry.period.label for one in stuck] == ["2026-03-14", "2026-03-15", "2026-03-16", "2026-03-17"]
    assert all("INACCESSIBLE_ENCRYPTION_CREDENTIALS" in one.detail for one in stuck)
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
    assert {one.state for one in stage.catalog.entries("s", consistent=True)} == {State.OPEN}, (
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
    held = PeriodTables("lapse", stage.tables, stage.clock, at_most(60, stage.clock, lambda: 60.0))
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


# What CreateTable says


def test_a_table_is_made_with_its_streams_key_change_stream_and_maxima() -> None:
    capacity = 'mode = "on-demand"\nmax = { write = 500, read = 600 }'
    table = f'encryption = "{KEY}"\nstream = "new-and-old-images"'
    stage = Stage(NOON, LIFECYCLE + stream("s", capacity=capacity, table=table, more=INDEX_AFTER))
    made: list[Any] = []
    create = stage.client.create_table
    stage.tables._client = _Recording(stage.client, made)  # type: ignore[assignment]
    assert create is not None
    stage.run_lifecycle()
    assert len(made) == 4
    for request in made:
        assert request["SSESpecification"] == {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}
        assert request["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        assert request["OnDemandThroughput"] == {"MaxWriteRequestUnits": 500, "MaxReadRequestUnits": 600}
        (index,) = request["GlobalSecondaryIndexes"]
        assert index["OnDemandThroughput"] == {"MaxWriteRequestUnits": 500, "MaxReadRequestUnits": 600}


class _Recording:
    """Passes calls on, and notes the requests for tables."""

    def __init__(self, client: Any, made: list[Any]) -> None:
        self._client = client
        self._made = made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def create_table(self, **request: Any) -> Any:
        self._made.append(request)
        return self._client.create_table(**request)


# A table's index is declared after its stream's own keys.
INDEX_AFTER = """
[[streams.s.index]]
name = "status"
partition_by = "status"
"""


# Maxima


MAXIMA = """
mode = "provisioned"
max = { write = 500, read = 600 }
ladder = [{ age = 0, mode = "on-demand" }, { age = 1, write = 2, read = 5 }]
"""


def test_maxima_are_there_again_after_a_table_was_provisioned_for_a_while() -> None:
    stage = Stage(
        NOON, LIFECYCLE + stream("s", capacity=MAXIMA, more=INDEX_AFTER).replace("retention = 3", "retention = 9")
    )
    stage.run_lifecycle()
    stage.clock.sleep(3 * 86_400)
    for _ in range(3):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    table = tables(stage)["2026-03-14"]
    assert (table.on_demand, table.write, table.maximum, table.indexes["status"].maximum) == (False, 2, {}, {})
    # A longer window makes the table young again.
    longer = (
        stream("s", capacity=MAXIMA, more=INDEX_AFTER).replace("retention = 3", "retention = 9").replace('"1d"', '"8d"')
    )
    stage.config = parse(LIFECYCLE + longer)
    quiet(stage)
    assert (table.on_demand, table.maximum, table.indexes["status"].maximum) == (
        True,
        {"Write": 500, "Read": 600},
        {"Write": 500, "Read": 600},
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [("max = { write = 700, read = 800 }", {"Write": 700, "Read": 800}), ("", {})],
    ids=["others", "none"],
)
def test_other_maxima_hold_for_open_tables_from_the_next_run(line: str, expected: dict[str, int]) -> None:
    first = 'mode = "on-demand"\nmax = { write = 500, read = 600 }'
    stage = Stage(NOON, LIFECYCLE + stream("s", capacity=first, more=INDEX_AFTER))
    stage.run_lifecycle()
    stage.config = parse(LIFECYCLE + stream("s", capacity=f'mode = "on-demand"\n{line}', more=INDEX_AFTER))
    quiet(stage)
    for table in tables(stage).values():
        assert table.maximum == expected
        assert table.indexes["status"].maximum == expected


# Decreases of a day

STEPS = """
mode = "provisioned"
ladder = [
    { age = 0, write = 60, read = 10 },
    { age = 1, write = 50, read = 10 },
    { age = 2, write = 40, read = 10 },
    { age = 3, write = 30, read = 10 },
    { age = 4, write = 20, read = 10 },
    { age = 5, write = 10, read = 10 },
]
"""
INDEX_STEPS = """
mode = "provisioned"
ladder = [
    { age = 0, write = 10, read = 10, index = { status = { write = 60, read = 10 } } },
    { age = 1, write = 10, read = 10, index = { status = { write = 50, read = 10 } } },
    { age = 2, write = 10, read = 10, index = { status = { write = 40, read = 10 } } },
    { age = 3, write = 10, read = 10, index = { status = { write = 30, read = 10 } } },
    { age = 4, write = 10, read = 10, index = { status = { write = 20, read = 10 } } },
    { age = 5, write = 10, read = 10, index = { status = { write = 10, read = 10 } } },
]
"""


@pytest.mark.parametrize(("capacity", "more"), [(STEPS, ""), (INDEX_STEPS, INDEX_AFTER)], ids=["table", "index alone"])
def test_the_fifth_decrease_of_a_day_is_deferred_and_never_refused(capacity: str, more: str) -> None:
    """A table that is raised by hand after each run must be lowered again: four times at once, then an hour after the last."""
    config = LIFECYCLE + stream("s", capacity=capacity, more=more).replace('"day"', '"hour"').replace('"1d"', '"0s"')
    stage = Stage(datetime(2026, 3, 15, 5, 1, tzinfo=UTC), config.replace("retention = 3", "retention = 40"))
    stage.run_lifecycle()
    stage.clock.time = datetime(2026, 3, 15, 14, 1, tzinfo=UTC)
    name = "tidetable-lapse.s.2026-03-15T05"
    seen: list[tuple[str, str]] = []
    for _ in range(6):
        report = stage.run_lifecycle()
        seen += [(one.action.name, one.outcome) for one in report.done if one.action.entry.table == name]
        stage.clock.sleep(5)
        raised = {"WriteCapacityUnits": 60, "ReadCapacityUnits": 10}
        update: dict[str, Any] = {"ProvisionedThroughput": raised}
        if more:
            update = {
                "GlobalSecondaryIndexUpdates": [{"Update": {"IndexName": "status", "ProvisionedThroughput": raised}}]
            }
        if any(one.action.name == "capacity" and one.action.entry.table == name for one in report.done):
            stage.client.update_table(TableName=name, **update)
            stage.clock.sleep(5)
        # The lifecycle looks at a closed table within the hour; here at each run.
        stage.catalog.note(entry(stage, "2026-03-15T05"), _looked_at(stage, name))
    assert [one for one in seen if one[0] in ("capacity", "deferred")] == [("capacity", "done")] * 4 + [
        ("deferred", "deferred")
    ] * 2


def _looked_at(stage: Stage, name: str) -> Any:
    table = stage.tables.describe(name)
    assert table is not None
    assert table.seen is not None
    return table.seen


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
    assert {one.state for one in stage.catalog.entries("s", consistent=True)} == {State.OPEN}
    assert len(tables(stage)) == 11
    assert set(stage.dynamo.account.tables) == {one.table for one in stage.catalog.entries("s", consistent=True)} | {
        CATALOG
    }
    if most == 250:
        assert stage.clock.now() - began < timedelta(seconds=75), "two waves of eight, and what was throttled of them"


def test_a_creation_that_is_refused_once_is_done_by_the_next_run() -> None:
    stage = Stage(NOON, LIFECYCLE + stream("s"))
    stage.dynamo.faults.add(Fault(Kind.SERVER_ERROR, operation="CreateTable", times=1))
    assert [outcome for _, _, outcome in outcomes(stage.run_lifecycle())] == ["deferred", "done", "done", "done"]
    assert outcomes(stage.run_lifecycle()) == [("create", "2026-03-14", "done")]
