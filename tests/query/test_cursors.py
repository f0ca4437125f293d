"""Walks with cursors while the stage changes: events are written, tables are lowered and archived, and the
configuration changes.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes.stage import Stage, prepare_once
from tidetable.config import parse
from tidetable.problems import ProblemError
from tidetable.query import parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.rankings import find_top, parse_ranking
from tidetable.times import to_text

START = datetime(2026, 3, 16, tzinfo=UTC)
HOURS = 10
CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
[streams.s]
period = "hour"
late = "2h"
retention = 8
key = {{ partition_by = "time", bucket = "{bucket}", shards = {shards} }}
[[streams.s.index]]
name = "by_kind"
partition_by = "kind"
shards = {shards}
project = ["kind"]
[[streams.s.index]]
name = "ranking"
partition_by = "*"
sort_by = "n"
shards = {shards}
project = "keys"
"""


@prepare_once
def make_stage() -> Stage:
    """Ten hours of events, a minute apart; the layout changes in the middle."""
    made = Stage(START, CONFIG.format(bucket="15m", shards=3))
    for hour in range(HOURS):
        if hour == HOURS // 2:
            made.config = parse(CONFIG.format(bucket="1h", shards=5))
        settle(made)
        made.clock.time = max(made.clock.now(), START + timedelta(hours=hour, minutes=59))
        send(made, [START + timedelta(hours=hour, minutes=minute) for minute in range(60)])
    made.clock.time = START + timedelta(hours=HOURS)
    settle(made)
    return made


@pytest.fixture
def stage() -> Stage:
    return make_stage()


def settle(stage: Stage) -> None:
    while stage.run_lifecycle().count("done"):
        stage.clock.sleep(30)


def send(stage: Stage, times: list[datetime], prefix: str = "e") -> None:
    events = [
        {
            "series": f"s{time.minute % 4}",
            "time": to_text(time),
            "id": f"{prefix}{time:%H%M}",
            "data": {"n": (time.hour * 60 + time.minute) * 7919 % 1000, "kind": "odd" if time.minute % 2 else "even"},
        }
        for time in times
    ]
    outcome = stage.send("s", json.dumps(events).encode())
    assert (outcome.accepted, outcome.rejections) == (len(events), [])


SPAN = {"from": to_text(START), "to": to_text(START + timedelta(hours=HOURS))}
WANTED = [f"e{hour:02d}{minute:02d}" for hour in range(HOURS) for minute in range(60)]


def meets(name: str, where: dict[str, str]) -> bool:
    """Whether one of the first events meets the conditions."""
    minutes = int(name[1:3]) * 60 + int(name[3:])
    number = minutes * 7919 % 1000
    odd = "where.kind" not in where or minutes % 2 == 1
    return odd and ("where.n:lt" not in where or number < 500) and ("where.n:ge" not in where or number >= 500)


def moved(stage: Stage, turn: int) -> None:
    """Change the stage between two pages: events come, an hour passes, periods are archived, the layout changes."""
    stage.clock.sleep(1200)
    now = stage.clock.now()
    send(stage, [now, now - timedelta(hours=1)], f"new{turn}-")
    stage.config = parse(CONFIG.format(bucket="30m", shards=1 + turn % 4))
    settle(stage)


@pytest.mark.parametrize(
    "where", [{}, {"where.kind": "odd"}, {"where.n:lt": "500"}, {"where.kind": "odd", "where.n:ge": "500"}]
)
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_walk_gives_every_event_that_was_there_once_and_in_order(
    stage: Stage, order: str, where: dict[str, str]
) -> None:
    # Enough pages that periods are archived during the walk.
    limit = "25" if len(where) == 2 else "70"
    parameters: dict[str, Any] = {**SPAN, **where, "order": order, "limit": limit}
    events, sources, turn = [], set(), 0
    while True:
        policy, now = stage.config.streams["s"], stage.clock.now()
        query = parse_query(policy, {name: [value] for name, value in parameters.items()}, now, stage.seal)
        answer: Any = run_query(query, policy, stage.reader(), now, lambda: 100.0)
        document = answer.document()
        assert document["gaps"] == []
        events += document["events"]
        sources |= {source["from"] for source in document["sources"]}
        if answer.next is None:
            break
        parameters, turn = {"cursor": answer.next, "limit": limit}, turn + 1
        moved(stage, turn)
    times = [row["time"] for row in events]
    assert times == sorted(times, reverse=order == "desc")
    ids = [row["id"] for row in events]
    assert len(set(ids)) == len(ids)
    wanted = [name for name in WANTED if meets(name, where)]
    assert sorted(name for name in ids if name.startswith("e")) == wanted
    assert turn >= 4
    assert "archive" in sources


def test_a_ranking_goes_on_though_its_periods_are_archived(stage: Stage) -> None:
    parameters: dict[str, Any] = {**SPAN, "limit": "150"}
    ranked: list[Any] = []
    for turn in range(100):
        policy, now = stage.config.streams["s"], stage.clock.now()
        ranking = parse_ranking(policy, {name: [value] for name, value in parameters.items()}, now, stage.seal)
        top = find_top(ranking, policy, stage.reader(), now, lambda: 100.0)
        assert not top.extras["tied"]
        ranked += [(row["value"], row["id"]) for row in top.rows if row["id"].startswith("e")]
        if top.next is None:
            break
        parameters = {"cursor": top.next, "limit": "150"}
        moved(stage, turn)
    assert [number for number, _ in ranked] == sorted((number for number, _ in ranked), reverse=True)
    assert sorted(name for _, name in ranked) == WANTED


def test_an_aggregate_goes_on_at_the_step_where_it_ended(stage: Stage) -> None:
    parameters: dict[str, Any] = {**SPAN, "step": "20m", "by": "kind", "limit": "9", "where.n:ge": "0"}
    counts: list[int] = []
    for turn in range(100):
        policy, now = stage.config.streams["s"], stage.clock.now()
        aggregation = parse_aggregation(policy, {name: [value] for name, value in parameters.items()}, now, stage.seal)
        answer = find_aggregate(aggregation, policy, stage.reader(), now, lambda: 100.0)
        counts += [row["count"] for row in answer.rows]
        if answer.next is None:
            break
        parameters = {"cursor": answer.next, "limit": "9"}
        stage.clock.sleep(1200)
        settle(stage)
        assert turn < 50
    assert counts == [10] * (2 * 3 * HOURS)


def test_a_cursor_of_another_pipeline_is_refused(stage: Stage) -> None:
    policy, now = stage.config.streams["s"], stage.clock.now()
    query = parse_query(policy, {name: [value] for name, value in SPAN.items()}, now, stage.seal)
    following = run_query(query, policy, stage.reader(), now, lambda: 100.0).next
    assert following
    other = Stage(START, CONFIG.format(bucket="15m", shards=3))
    settle(other)
    with pytest.raises(ProblemError, match="not a cursor"):
        parse_query(policy, {"cursor": [following]}, now, other.seal)


SERIES_CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
[streams.s]
period = "hour"
late = "2h"
retention = 3
key = {{ partition_by = "series", shards = {shards} }}
"""


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_several_series_are_walked_in_one_order_on_the_strict_service(order: str) -> None:
    """Three of four series, all with an event at the same moments; pages end between events of one moment."""
    stage = Stage(START, SERIES_CONFIG.format(shards=2))
    for hour in range(4):
        settle(stage)
        moments = [START + timedelta(hours=hour, minutes=minute) for minute in (0, 20, 40)]
        stage.clock.time = START + timedelta(hours=hour, minutes=50)
        events = [
            {"series": series, "time": to_text(moment), "id": f"{hour}{number}"}
            for number, moment in enumerate(moments)
            for series in ("a", "b#", "c", "d")
        ]
        assert stage.send("s", json.dumps(events).encode()).accepted == 12
    stage.clock.time = START + timedelta(hours=7)
    settle(stage)
    span = {"from": [to_text(START)], "to": [to_text(START + timedelta(hours=5))]}
    query_string = span | {"series": ["c", "b#", "a"], "order": [order], "limit": ["4"]}
    names: list[tuple[str, str]] = []
    sources: set[str] = set()
    for _ in range(30):
        policy, now = stage.config.streams["s"], stage.clock.now()
        answer: Any = run_query(
            parse_query(policy, query_string, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
        )
        document = answer.document()
        names += [(row["id"], row["series"]) for row in document["events"]]
        sources |= {source["from"] for source in document["sources"]}
        if answer.next is None:
            break
        query_string = {"cursor": [answer.next], "limit": ["4"]}
    wanted = [(f"{hour}{number}", series) for hour in range(4) for number in range(3) for series in ("a", "b#", "c")]
    assert names == (wanted if order == "asc" else wanted[::-1])
    assert sources == {"table", "archive"}
