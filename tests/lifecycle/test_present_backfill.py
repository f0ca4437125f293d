"""A backfill of the present: events before the window, into tables that take the live traffic meanwhile."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from strict import ManualClock
from tests.fakes.stage import Stage
from tidetable.catalog import Backfill, Entry, Opening, State
from tidetable.errors import BadBackfill
from tidetable.lifecycle.backfill import end_backfills, open_backfill
from tidetable.problems import ProblemError
from tidetable.query import parse_query, run_query
from tidetable.times import from_text, to_text

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
STREAM = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
[streams.s]
period = "PERIOD"
late = "1h"
retention = 2
[streams.s.key]
partition_by = "time"
bucket = "1h"
[streams.s.capacity]
mode = "provisioned"
ladder = [{ age = 0, write = 10, read = 10 }, { age = 1, write = 2, read = 5 }]
"""
PERIODS = ["hour", "day", "week", "month"]


def stage_of(period: str, now: datetime = NOON) -> Stage:
    stage = Stage(now, STREAM.replace("PERIOD", period))
    stage.run_lifecycle()
    stage.clock.sleep(60)
    return stage


def open_for(stage: Stage, start: datetime, end: datetime, hours: float = 24) -> Any:
    until = stage.clock.now() + timedelta(hours=hours)
    request = Backfill("s", start, end, Opening(until, None, None))
    report = open_backfill(request, stage.begin_run("b", lambda: 280.0))
    # Eventually consistent reads of the catalog see it two seconds later; until then events are queued.
    stage.clock.sleep(5)
    return report


def send(stage: Stage, *times: datetime) -> Any:
    """Send an event for each time; a time is the id, too."""
    events = [{"series": "a", "id": to_text(time), "time": to_text(time), "data": {}} for time in times]
    return stage.send("s", json.dumps(events).encode())


def find_times(stage: Stage) -> list[datetime]:
    stage.clock.sleep(60)
    policy, now = stage.config.streams["s"], stage.clock.now()
    parameters = {"from": [to_text(NOON - timedelta(days=80))], "to": [to_text(now)], "limit": ["1000"]}
    query = parse_query(policy, parameters, now, stage.seal)
    answer = run_query(query, policy, stage.reader(), now, lambda: 100.0)
    return sorted(from_text(row["time"]) for row in answer.document()["events"])


def entry_at(stage: Stage, time: datetime) -> Entry:
    (entry,) = stage.catalog.entries("s", time, time, consistent=True)
    return entry


def pass_time(stage: Stage, hours: float) -> None:
    """Run the lifecycle every quarter of an hour. Its schedule has three runs in that time: a stage tolerates missing runs."""
    for _ in range(int(hours * 4)):
        stage.clock.sleep(900)
        stage.run_lifecycle()


@pytest.mark.parametrize("period", PERIODS)
def test_a_gateway_that_was_offline_for_three_hours_sends_into_the_present_period(period: str) -> None:
    stage = stage_of(period)
    missed = [NOON - timedelta(hours=3, minutes=-minutes) for minutes in range(0, 120, 10)]
    with pytest.raises(ProblemError, match="every event was refused"):
        send(stage, *missed)
    assert open_for(stage, missed[0], NOON).healthy
    outcome = send(stage, *missed, stage.clock.now())
    assert (outcome.status, outcome.accepted, outcome.queued, list(outcome.rejections)) == (200, 13, 0, [])
    assert set(missed) < set(find_times(stage))


@pytest.mark.parametrize("period", PERIODS)
def test_a_range_of_past_and_present_periods_takes_every_event_of_it_and_no_other(period: str) -> None:
    stage = stage_of(period)
    spans = {
        "hour": timedelta(hours=8),
        "day": timedelta(days=3),
        "week": timedelta(days=20),
        "month": timedelta(days=70),
    }
    start = NOON - spans[period]
    assert open_for(stage, start, NOON).healthy
    times = [start + spans[period] / 9 * number for number in range(9)]
    assert send(stage, *times).accepted == 9
    with pytest.raises(ProblemError, match="every event was refused"):
        send(stage, start - timedelta(seconds=1))
    assert set(times) <= set(find_times(stage))
    pass_time(stage, 1)
    assert send(stage, *times, start + timedelta(seconds=1)).accepted == 10


def test_the_present_period_keeps_its_units_and_gets_the_backfills_units_when_it_is_past() -> None:
    stage = stage_of("day")
    open_for(stage, NOON - timedelta(hours=5), NOON, hours=48)
    table = entry_at(stage, NOON).table
    assert stage.dynamo.account.tables[table].write == 10
    assert not stage.dynamo.account.tables[table].on_demand
    pass_time(stage, 14)
    assert entry_at(stage, NOON).state is State.OPEN
    assert stage.dynamo.account.tables[table].on_demand


@pytest.mark.parametrize("minutes", [-1, 0, 1, 4])
def test_the_table_stays_open_for_the_backfill_while_its_period_closes(minutes: int) -> None:
    """The day ends at midnight, and its window an hour later; the lifecycle runs some minutes before or after that."""
    stage = stage_of("day")
    open_for(stage, NOON - timedelta(hours=5), NOON, hours=48)
    closes = datetime(2026, 3, 16, 1, tzinfo=UTC) + timedelta(minutes=minutes)
    while stage.clock.now() < closes - timedelta(minutes=15):
        pass_time(stage, 0.25)
    clock: ManualClock = stage.clock
    clock.time = closes
    assert send(stage, NOON - timedelta(hours=4)).accepted == 1
    stage.run_lifecycle()
    assert entry_at(stage, NOON).state is State.OPEN
    assert send(stage, NOON - timedelta(hours=3)).accepted == 1
    pass_time(stage, 36)
    assert entry_at(stage, NOON).state is not State.OPEN
    with pytest.raises(ProblemError, match="every event was refused"):
        send(stage, NOON - timedelta(hours=4))
    pass_time(stage, 48)
    assert entry_at(stage, NOON).state is State.DELETED
    assert find_times(stage) == [NOON - timedelta(hours=4), NOON - timedelta(hours=3)]


def test_a_backfill_that_is_ended_early_leaves_the_present_table_to_the_live_traffic() -> None:
    stage = stage_of("day")
    open_for(stage, NOON - timedelta(hours=5), NOON)
    assert send(stage, NOON - timedelta(hours=4)).accepted == 1
    end_backfills("s", stage.begin_run("e", lambda: 280.0))
    with pytest.raises(ProblemError, match="every event was refused"):
        send(stage, NOON - timedelta(hours=3))
    assert send(stage, stage.clock.now()).accepted == 1
    assert entry_at(stage, NOON).state is State.OPEN
    pass_time(stage, 14)
    assert entry_at(stage, NOON).state is State.CLOSED


def test_a_present_period_that_has_no_table_yet_is_made_for_the_backfill() -> None:
    stage = Stage(NOON, STREAM.replace("PERIOD", "day"))
    until = stage.clock.now() + timedelta(hours=24)
    report = open_for(stage, NOON - timedelta(hours=5), NOON)
    assert (report.healthy, "reopen" in [result.action.name for result in report.done]) == (True, False)
    opened = entry_at(stage, NOON).opened
    assert opened is not None
    assert opened.until == until
    assert send(stage, NOON - timedelta(hours=4)).accepted == 1
    assert stage.dynamo.account.tables[entry_at(stage, NOON).table].write == 10


def test_a_range_that_reaches_into_the_future_is_refused_with_the_reason() -> None:
    stage = stage_of("day")
    with pytest.raises(BadBackfill, match="is in the future: a backfill imports events of the past"):
        open_for(stage, NOON - timedelta(days=2), NOON + timedelta(hours=1))


def test_a_range_with_an_archived_period_is_refused_with_the_period() -> None:
    stage = stage_of("day")
    open_for(stage, NOON - timedelta(days=9), NOON - timedelta(days=8), hours=1)
    pass_time(stage, 4)
    label = entry_at(stage, NOON - timedelta(days=9)).period.label
    assert entry_at(stage, NOON - timedelta(days=9)).state is State.DELETED
    with pytest.raises(BadBackfill, match=f"{label}.* of s are archived or gone: restore them first"):
        open_for(stage, NOON - timedelta(days=10), NOON)
