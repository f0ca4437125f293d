"""The estimate of an aggregate that a rollup answers, against the answer, on the strict service."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes.stage import Stage
from tests.worlds.showcase import refresh, settle
from tidetable.query.aggregates import explain_aggregate, find_aggregate, parse_aggregation
from tidetable.times import to_text

START = datetime(2026, 3, 1, tzinfo=UTC)
CONFIG = """
[streams.s]
period = "day"
late = "1h"
retention = 9
key = { partition_by = "time", bucket = "6h" }
[[streams.s.rollup]]
name = "hours"
every = "1h"
by = ["series"]
fields = ["mag"]
retention = "365d"
"""


@pytest.fixture(scope="module")
def stage() -> Stage:
    """Two days of 20 series; each hour is a pack of cells. DynamoDB has counted all of them."""
    stage = Stage(START - timedelta(hours=2), CONFIG)
    settle(stage)
    refresh(stage)
    for hour in range(48):
        at = START + timedelta(hours=hour)
        stage.clock.time = max(stage.clock.now(), at + timedelta(minutes=30))
        settle(stage)
        events = [
            {"series": f"s{number}", "id": f"{hour}", "time": to_text(at), "data": {"mag": number + hour / 7}}
            for number in range(20)
        ]
        stage.send("s", json.dumps(events).encode())
        stage.drain()
        refresh(stage)
    stage.clock.sleep(3 * 3600)
    refresh(stage)
    stage.clock.sleep(7 * 3600)
    return stage


def compare(stage: Stage, **parameters: str) -> tuple[Any, Any]:
    """The estimate of all pages, and the answer's cost."""
    policy, now = stage.config.streams["s"], stage.clock.now()
    texts = {"from": to_text(START), "to": to_text(START + timedelta(days=2)), "by": "series", **parameters}
    aggregation = parse_aggregation(policy, {name: [text] for name, text in texts.items()}, now, stage.seal)
    plan = explain_aggregate(aggregation, policy, stage.reader(), stage.tables, now)
    assert [rollup["used"] for rollup in plan["rollups"]] == [True]
    assert plan["estimate"]["tables_of_unknown_size"] == 0
    answer = find_aggregate(aggregation, policy, stage.reader(), now, lambda: 100.0)
    return plan["estimate"], answer.cost


def test_cells_are_estimated_as_they_are_read(stage: Stage) -> None:
    """Strongly consistent, which costs twice as much, and all packs of a bucket by one request."""
    estimated, cost = compare(stage, step="2h")
    # 24 packs of 566 bytes a day. The estimate spreads all packs over the table's time up to now; its last ten hours are empty.
    assert (cost.units, cost.requests) == (8.0, 2)
    assert estimated["all_pages"] == estimated["page"] == {"read_units": 6.0, "requests": 2}


def test_a_range_of_few_packs_takes_one_request(stage: Stage) -> None:
    estimated, cost = compare(stage, step="1h", to=to_text(START + timedelta(hours=3)))
    assert (estimated["all_pages"]["requests"], cost.requests) == (1, 1)
    assert cost.units <= estimated["all_pages"]["read_units"] <= cost.units + 1
