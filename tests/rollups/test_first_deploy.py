"""Rollups that a stream has from its first deploy on: they begin with its first event, whatever stops the deploy."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes.rollups import FakeRollups
from tests.fakes.stage import Stage
from tests.worlds.aggregates import ask_aggregate, rollups_of, rows_of, tally
from tests.worlds.killed import killed_after_every_change
from tidetable.config import parse
from tidetable.errors import StoreUnavailable
from tidetable.lifecycle.deploy import deploy
from tidetable.ports import Edge, Noting
from tidetable.query.listings import find_listing, parse_series
from tidetable.rollup_model.beginning import begin_with_stream
from tidetable.times import to_text

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
ALWAYS = datetime(1, 1, 1, tzinfo=UTC)
OTHER = """
[streams.other]
late = "1h"
period = "day"
retention = 5
key = { partition_by = "time", bucket = "24h" }
[[streams.other.rollup]]
name = "days"
every = "1d"
retention = "60d"
"""
STREAM = """
[streams.s]
period = "day"
late = "20h"
retention = 5
"""
BY_TIME = 'key = { partition_by = "time", bucket = "6h", shards = 2 }\n'
BY_SERIES = 'key = { partition_by = "series" }\n'
FORMS = {"by time": BY_TIME, "by series": BY_SERIES, "packs": BY_SERIES + 'pack = { span = "1h" }\n'}
HOURS = """
[[streams.s.rollup]]
name = "hours"
every = "1h"
by = ["series"]
fields = ["n"]
stats = ["count", "sum", "min", "max", "first", "last"]
retention = "60d"
"""
DAYS = HOURS.replace("hours", "days").replace("1h", "1d")
# The oldest event that a stream takes at noon, of the hours and of the days.
FIRST, FIRST_DAY = datetime(2026, 3, 14, 16, tzinfo=UTC), datetime(2026, 3, 14, tzinfo=UTC)


def deploy_config(stage: Stage, config: str) -> None:
    stage.config = parse(config)
    stage.runs += 1
    done = deploy(stage.begin_run(f"deploy-{stage.runs}", lambda: 500.0), config, first=False)
    assert done.failure is None


def send(stage: Stage, *ago: timedelta) -> list[dict[str, Any]]:
    """Send an event of this age of each of two series, one of them new."""
    now = stage.clock.now()
    events = [
        {"series": series, "id": f"{now:%d%H%M}", "time": to_text(now - each), "data": {"n": number}}
        for number, each in enumerate(ago)
        for series in ("always", f"at-{now:%d%H%M}-{number}")
    ]
    assert stage.send("s", json.dumps(events).encode()).accepted == len(events)
    return events


def check(stage: Stage, sent: Sequence[dict[str, Any]], used: set[str]) -> None:
    stage.settle()
    asked = {"step": "1h", "by": "series", "stat": "count,sum,min,max,first,last", "field": "n"}
    found = ask_aggregate(stage, "s", FIRST, stage.clock.now().replace(minute=0, second=0) + HOUR, **asked)
    assert rows_of(found) == tally(sent, HOUR, ["series"])
    assert rollups_of(found) == used


def list_series(stage: Stage) -> list[str]:
    now, stream = stage.clock.now(), stage.config.streams["s"]
    listing = parse_series(stream, {"from": [to_text(FIRST)], "limit": ["1000"]}, now, stage.seal)
    return [row["series"] for row in find_listing(listing, stream, stage.reader(), now, lambda: 100.0).rows]


def refresh(stage: Stage) -> None:
    report = stage.refresh()
    assert report is not None
    assert (report.failed, report.blocked, report.finished) == ([], [], True)


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
def test_the_first_events_are_in_aggregates_and_in_the_rollup(form: str) -> None:
    stage = Stage(NOON, OTHER)
    deploy_config(stage, OTHER)
    deploy_config(stage, OTHER + STREAM + form + HOURS)
    began = stage.clock.now()
    refresh(stage)
    sent = send(stage, timedelta(0), MINUTE, 19 * HOUR, 20 * HOUR - MINUTE)
    check(stage, sent, {"s-hours"})
    (edge,) = stage.rollups.read_state("s").edges
    assert (edge.start, edge.sealed) == (FIRST, datetime(2026, 3, 15, 11, tzinfo=UTC))
    while stage.clock.now() < began + 6 * HOUR:
        stage.clock.sleep(1_800)
        sent += send(stage, MINUTE)
        stage.run_lifecycle()
        refresh(stage)
    check(stage, sent, {"s-hours"})
    assert list_series(stage) == sorted({event["series"] for event in sent})


def test_a_rollup_of_a_later_deploy_begins_ten_minutes_after_it() -> None:
    stage = Stage(NOON, OTHER)
    deploy_config(stage, OTHER + STREAM + BY_TIME)
    assert stage.rollups.read_state("s") == FakeRollups().read_state("s")
    stage.clock.sleep(7 * 60)
    deploy_config(stage, OTHER + STREAM + BY_TIME + HOURS)
    refresh(stage)
    starts = [(edge.rollup, edge.start) for edge in stage.rollups.read_state("s").edges]
    assert starts == [("hours", NOON + HOUR)]
    assert stage.rollups.read_state("s").noted_since == stage.clock.now() + 15 * MINUTE


def test_of_two_rollups_each_begins_with_its_own_deploy() -> None:
    stage = Stage(NOON, OTHER)
    deploy_config(stage, OTHER + STREAM + BY_SERIES + HOURS)
    deploy_config(stage, OTHER + STREAM + BY_SERIES + HOURS + DAYS)
    refresh(stage)
    state = stage.rollups.read_state("s")
    assert [(edge.rollup, edge.start) for edge in state.edges] == [("hours", FIRST), ("days", FIRST_DAY + 2 * DAY)]
    assert state.noted_since == ALWAYS


@pytest.mark.parametrize("form", [BY_TIME, BY_SERIES], ids=["by time", "by series"])
def test_a_refresher_that_runs_before_the_deploy_has_made_tables_does_not_delay_the_beginning(form: str) -> None:
    stage = Stage(NOON, OTHER)
    deploy_config(stage, OTHER)
    stage.config = parse(OTHER + STREAM + form + HOURS)
    stage.refresh()
    deploy_config(stage, OTHER + STREAM + form + HOURS)
    stage.refresh()
    state = stage.rollups.read_state("s")
    assert [(edge.start, edge.definition) for edge in state.edges] == [(FIRST, state.edges[0].definition)]
    assert state.noted_since == ALWAYS


def made() -> Stage:
    stage = Stage(NOON, OTHER)
    deploy_config(stage, OTHER)
    stage.clock.sleep(120)
    return stage


def test_a_stopped_deploy_is_repeated_or_taken_back_and_no_event_is_lost_to_the_rollup() -> None:
    """Taken back, the stream comes again without its rollup, whose writers note nothing; then the rollup comes."""
    whole = OTHER + STREAM + BY_SERIES + HOURS
    beginnings = set()
    for calls, stopped in killed_after_every_change(made, lambda stage: deploy_config(stage, whole)):
        if stopped.changes:
            stopped.clock.sleep(60)
            stopped.dynamo.account.settle()
        again, back = stopped.copy(), stopped.copy()
        deploy_config(again, whole)
        refresh(again)
        state = again.rollups.read_state("s")
        assert (state.noted_since, len(state.edges)) == (ALWAYS, 1), f"stopped after {calls} calls"
        beginnings.add(state.edges[0].start)
        check(again, send(again, timedelta(0), 19 * HOUR), {"s-hours"})

        deploy_config(back, OTHER)
        deploy_config(back, OTHER + STREAM + BY_SERIES)
        send(back, timedelta(0))
        state = back.rollups.read_state("s")
        assert (state.noted_since, list(state.edges)) == (None, []), f"stopped after {calls} calls"
        back.clock.sleep(7_200)
        deploy_config(back, whole)
        refresh(back)
        state = back.rollups.read_state("s")
        assert state.noted_since == back.clock.now() + 15 * MINUTE
        assert [edge.start for edge in state.edges] == [FIRST_DAY + 2 * DAY]
    assert beginnings == {FIRST}


STOPPED = Noting(NOON - DAY, NOON - 2 * DAY, stopped=True)
RUNNING = Noting(NOON, NOON - DAY)


@pytest.mark.parametrize(
    ("noting", "expected"),
    [
        (None, Noting(ALWAYS, NOON)),
        (STOPPED, Noting(ALWAYS, NOON)),
        (RUNNING._replace(since=NOON + MINUTE), Noting(ALWAYS, NOON)),
        # Nobody knows how such a record can be of a stream that is new: it stays.
        (RUNNING, RUNNING),
    ],
)
def test_only_a_record_by_which_nothing_is_noted_yet_is_replaced(noting: Noting | None, expected: Noting) -> None:
    rollups = FakeRollups()
    if noting is not None:
        rollups.noting["s"] = noting
    stream = parse(STREAM + BY_SERIES + HOURS).streams["s"]
    begin_with_stream(stream, rollups, NOON)
    assert rollups.noting["s"] == expected
    edges = rollups.read_state("s").edges
    # A later call changes nothing.
    begin_with_stream(stream, rollups, NOON + MINUTE)
    assert (rollups.noting["s"], rollups.read_state("s").edges) == (expected, edges)


def test_a_run_of_the_refresher_between_the_read_and_the_write_is_noticed() -> None:
    stream = parse(STREAM + BY_TIME + HOURS).streams["s"]
    for refused in ("put_noting", "put_edge"):
        rollups = FakeRollups()
        setattr(rollups, refused, lambda *_: False)
        with pytest.raises(StoreUnavailable, match="another run began the rollups of s"):
            begin_with_stream(stream, rollups, NOON)


def test_an_edge_of_the_future_is_replaced_and_one_of_the_past_stays() -> None:
    stream = parse(STREAM + BY_TIME + DAYS + HOURS).streams["s"]
    for start, expected in ((NOON + HOUR, FIRST), (NOON, NOON)):
        rollups = FakeRollups()
        rollups.put_edge("s", Edge("hours", start, start, "{}"), None)
        begin_with_stream(stream, rollups, NOON)
        starts = {edge.rollup: edge.start for edge in rollups.read_state("s").edges}
        assert starts == {"hours": expected, "days": FIRST_DAY}
