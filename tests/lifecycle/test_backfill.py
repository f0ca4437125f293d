"""A backfill: past periods open, accept history, close automatically, and are archived like all periods."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.stage import Stage
from tests.worlds.backfills import (
    END,
    HISTORY,
    LABELS,
    START,
    entries,
    make_backfill,
    send,
    stage,
    start_backfill,
    stop_backfills,
    write_units,
)
from tests.worlds.killed import CONFIG, NOON
from tidetable.catalog import Backfill, State
from tidetable.config import parse
from tidetable.errors import BadBackfill
from tidetable.lifecycle.backfill import end_backfills
from tidetable.problems import ProblemError
from tidetable.query import parse_query, run_query
from tidetable.times import from_text, to_text
from tidetable.upkeep.actions import Reopen

__all__ = ["stage"]


def find_ids(stage: Stage) -> list[str]:
    stage.settle()
    policy, now = stage.config.streams["s"], stage.clock.now()
    query = {"from": [to_text(START)], "to": [to_text(now)], "limit": ["1000"]}
    answer: Any = run_query(
        parse_query(policy, query, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
    ).document()
    return sorted(event["id"] for event in answer["events"])


IDS = sorted(str(event["id"]) for event in HISTORY)


def test_history_is_refused_before_taken_meanwhile_and_archived_afterwards(stage: Stage) -> None:
    with pytest.raises(ProblemError, match="refused"):
        send(stage)
    report = start_backfill(stage)
    assert [result.action.entry.period.label for result in report.done if result.action.name == "create"] == LABELS
    assert report.healthy
    assert send(stage).accepted == len(HISTORY)
    assert find_ids(stage) == IDS
    for _ in range(20):
        assert stage.run_lifecycle().healthy
        stage.clock.sleep(3600)
    assert {entries(stage)[label].state for label in LABELS} == {State.OPEN}
    assert stage.run_lifecycle().outlook.overdue == ()
    stage.clock.sleep(5 * 3600)
    for _ in range(4):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    with pytest.raises(ProblemError, match="refused"):
        send(stage)
    assert {entries(stage)[label].state for label in LABELS} == {State.DELETED}
    assert find_ids(stage) == IDS
    assert stage.run_lifecycle().done == []


def test_a_dry_run_shows_the_tables_and_records_nothing(stage: Stage) -> None:
    report = start_backfill(stage, dry_run=True)
    assert [result.outcome for result in report.done] == ["planned"] * 3
    assert stage.catalog.backfills("s") == []
    with pytest.raises(ProblemError):
        send(stage)


def test_tables_have_the_units_that_were_asked_for_until_it_closes(stage: Stage) -> None:
    start_backfill(stage, make_backfill(stage, write=30, read=4))
    table = stage.dynamo.account.tables["tidetable-lapse.s.2026-02-11"]
    assert (table.on_demand, table.write, table.read) == (False, 30, 4)
    stage.clock.sleep(300)
    report = stage.run_lifecycle()
    assert report.done == [], "they are open until the backfill ends"
    stage.clock.sleep(300)
    assert stage.run_lifecycle().done == []


def test_a_closed_period_of_the_retention_is_opened_raised_and_lowered_again(stage: Stage) -> None:
    for _ in range(5):
        stage.clock.sleep(86_400)
        for _ in range(3):
            stage.run_lifecycle()
            stage.clock.sleep(300)
    label = "2026-03-16"
    assert entries(stage)[label].state is State.CLOSED
    before = write_units(stage, label)
    late = [{"series": "a", "id": "late", "time": f"{label}T10:00:00Z", "data": {}}]
    with pytest.raises(ProblemError):
        send(stage, late)
    start = from_text(f"{label}T09:00:00Z")
    start_backfill(stage, make_backfill(stage, start, start + timedelta(hours=2), hours=2, write=50, read=5))
    stage.clock.sleep(300)
    stage.run_lifecycle()
    assert write_units(stage, label) == 50
    assert send(stage, late).accepted == 1
    with pytest.raises(ProblemError):
        send(stage, [{**late[0], "time": f"{label}T12:00:00Z"}])
    stage.clock.sleep(3 * 3600)
    for _ in range(3):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    assert write_units(stage, label) == before
    with pytest.raises(ProblemError):
        send(stage, late)


def test_it_can_be_ended_before_its_time(stage: Stage) -> None:
    start_backfill(stage)
    send(stage)
    assert len(stop_backfills(stage)) == 1
    with pytest.raises(ProblemError):
        send(stage)
    stage.clock.sleep(1200)
    for _ in range(3):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    assert {entries(stage)[label].state for label in LABELS} == {State.DELETED}
    assert find_ids(stage) == IDS


def test_events_of_a_period_whose_table_is_not_made_yet_wait_in_the_queue(stage: Stage) -> None:
    stage.catalog.put_backfill(make_backfill(stage))
    outcome = send(stage)
    assert (outcome.queued, outcome.accepted) == (len(HISTORY), 0)
    stage.run_lifecycle()
    stage.clock.sleep(1200)
    stage.drain()
    assert find_ids(stage) == IDS


def test_tables_that_were_deleted_before_are_not_looked_at_for_ever_nor_the_new_ones_forgotten(stage: Stage) -> None:
    for _ in range(12):
        stage.clock.sleep(86_400)
        for _ in range(2):
            stage.run_lifecycle()
            stage.clock.sleep(300)
    horizon = stage.catalog.read_horizon("s").at
    assert horizon is not None
    start_backfill(stage)
    send(stage)
    for _ in range(30):
        stage.clock.sleep(3600)
        stage.run_lifecycle()
    assert {entries(stage)[label].state for label in LABELS} == {State.DELETED}
    after, far = stage.catalog.read_horizon("s")
    assert after is not None
    assert (after >= horizon, far) == (True, ())
    assert find_ids(stage)[: len(IDS)] == IDS


def test_an_archived_period_must_be_restored_first(stage: Stage) -> None:
    for _ in range(12):
        stage.clock.sleep(86_400)
        for _ in range(2):
            stage.run_lifecycle()
            stage.clock.sleep(300)
    with pytest.raises(BadBackfill, match="2026-03-15 of s are archived or gone: restore them first"):
        start_backfill(
            stage, make_backfill(stage, from_text("2026-03-15T00:00:00Z"), from_text("2026-03-16T00:00:00Z"))
        )


@pytest.mark.parametrize(("days", "named"), [(5, ""), (6, " and others")])
def test_five_periods_that_must_be_restored_are_named(stage: Stage, days: int, named: str) -> None:
    start_backfill(stage, make_backfill(stage, END - timedelta(days=days), END))
    for entry in entries(stage).values():
        if entry.period.start < END:
            stage.catalog.move(entry, State.ARCHIVED, expected=State)
    first = END - timedelta(days=days)
    labels = ", ".join(f"{first + timedelta(days=day):%Y-%m-%d}" for day in range(5))
    with pytest.raises(BadBackfill) as refused:
        start_backfill(stage, make_backfill(stage, first, END))
    assert str(refused.value) == f"{labels}{named} of s are archived or gone: restore them first"


def test_a_backfill_may_end_where_an_archived_period_begins(stage: Stage) -> None:
    start_backfill(stage)
    archived = entries(stage)["2026-02-12"]
    stage.catalog.move(archived, State.ARCHIVED, expected=State)
    assert start_backfill(stage, make_backfill(stage, START, archived.period.start)).healthy


def test_a_backfill_that_has_ended_by_itself_is_not_told_among_those_that_were_open(stage: Stage) -> None:
    start_backfill(stage, make_backfill(stage, hours=1))
    longer = make_backfill(stage, START - timedelta(days=1), START, hours=24)
    start_backfill(stage, longer)
    stage.clock.sleep(2 * 3600)
    assert end_backfills("s", stage.begin_run("e", lambda: 280.0), dry_run=True) == [longer]
    assert len(stage.catalog.backfills("s")) == 2
    assert stop_backfills(stage) == [longer]
    assert stage.catalog.backfills("s") == []


OTHER = """
[streams.other]
period = "day"
late = "1d"
retention = 5
[streams.other.key]
partition_by = "series"
"""


def limit_tables(stage: Stage, quota: int, more: str = "") -> None:
    stage.config = parse(CONFIG.replace("[lifecycle]", f"[lifecycle]\ntable_quota = {quota}") + more)


def test_the_backfills_of_other_streams_count_towards_the_quota(stage: Stage) -> None:
    """Of s 18 tables and of the other stream 9; three days of the other are counted as four, a day of s as two pairs."""
    limit_tables(stage, 35, OTHER)
    start_backfill(stage, replace(make_backfill(stage), stream="other"))
    day = make_backfill(stage, START, START + timedelta(days=1))
    limit_tables(stage, 34, OTHER)
    with pytest.raises(
        BadBackfill, match=r"needs up to 8 tables, and the configuration 27: together more than .* = 34"
    ):
        start_backfill(stage, day)
    limit_tables(stage, 35, OTHER)
    assert start_backfill(stage, day).healthy


def test_a_backfill_that_has_ended_takes_nothing_of_the_quota(stage: Stage) -> None:
    start_backfill(stage, make_backfill(stage, hours=1))
    stage.clock.sleep(2 * 3600)
    limit_tables(stage, 22)
    assert start_backfill(stage, make_backfill(stage, START, START + timedelta(days=1))).healthy


def test_a_table_in_the_making_is_opened_for_a_backfill_by_the_run_that_makes_it(stage: Stage) -> None:
    """Until the table is ACTIVE no event may be sent to it."""
    opened, held = make_backfill(stage).opened, entries(stage)["2026-03-14"]
    states = [Reopen(replace(held, state=state), "", opened).state for state in (State.CREATING, State.CLOSED)]
    assert states == [State.CREATING, State.OPEN]


PROBLEMS = [
    ({"start": END, "end": START}, "must be before"),
    ({"end": NOON + timedelta(days=2)}, "in the future"),
    ({"hours": 24 * 31}, "within 30 days"),
    ({"hours": -1}, "have closed already"),
    ({"write": 5}, "both write and read"),
    ({"read": 5}, "both write and read"),
    ({"write": 0, "read": 5}, "0 is not within 1 to 40000"),
    ({"write": 5, "read": 0}, "0 is not within 1 to 40000"),
    ({"write": 40_001, "read": 5}, "40001 is not within 1 to 40000"),
    ({"start": from_text("2020-01-01T00:00:00Z")}, "in pieces"),
]


@pytest.mark.parametrize(("changes", "message"), PROBLEMS)
def test_what_cannot_be_is_said_and_nothing_done(stage: Stage, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadBackfill, match=message):
        start_backfill(stage, make_backfill(stage, **changes))
    assert stage.catalog.backfills("s") == []


def test_an_unknown_stream_says_which_there_are(stage: Stage) -> None:
    request = make_backfill(stage)
    with pytest.raises(BadBackfill, match="there are s"):
        start_backfill(stage, Backfill("t", request.start, request.end, request.opened))
    with pytest.raises(BadBackfill, match="there are s"):
        stop_backfills(stage, "t")
