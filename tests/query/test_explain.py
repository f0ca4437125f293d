"""Explained queries against what they then consumed, on the strict service."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes.serial import everywhere
from tests.fakes.stage import Stage
from tidetable.query import explain_query, parse_query, run_query
from tidetable.times import to_text

MIDNIGHT = datetime(2026, 3, 16, tzinfo=UTC)  # when two whole days are full
CONFIG = """
[streams.s]
period = "day"
late = "2d"
retention = 5
key = { partition_by = "time", bucket = "6h", shards = 8 }
"""
EVENTS = 1200


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Two days of events of half a kilobyte, evenly spread; a day later DynamoDB has told the sizes."""
    with pytest.MonkeyPatch.context() as patch:
        everywhere(patch)
        made = Stage(MIDNIGHT, CONFIG)
        made.run_lifecycle()
        events = [
            {
                "series": f"s{number % 5}",
                "id": f"e{number}",
                "time": to_text(MIDNIGHT - timedelta(minutes=2.3 * number + 0.1)),
                "data": {"text": "x" * 400},
            }
            for number in range(EVENTS)
        ]
        for start in range(0, EVENTS, 100):
            assert made.send("s", json.dumps(events[start : start + 100]).encode()).accepted == 100
        made.clock.sleep(12 * 3600)
        yield made


def both(stage: Stage, **parameters: str) -> tuple[dict[str, Any], list[Any]]:
    """The plan, and the answers page by page."""
    policy, now, pages = stage.config.streams["s"], stage.clock.now(), []
    given = {name: [value] for name, value in parameters.items()}
    plan = explain_query(parse_query(policy, given, now, stage.seal), policy, stage.reader(), stage.tables, now)
    while True:
        pages.append(run_query(parse_query(policy, given, now, stage.seal), policy, stage.reader(), now, lambda: 100.0))
        following = pages[-1].next
        if following is None:
            return plan, pages
        given = {"cursor": [following], "limit": given["limit"]}


HALF_DAY = {"from": to_text(MIDNIGHT - timedelta(hours=12)), "to": to_text(MIDNIGHT)}


@pytest.mark.parametrize("limit", ["20", "100", "1000"])
@pytest.mark.parametrize("span", [HALF_DAY, {"from": to_text(MIDNIGHT - timedelta(hours=40)), "to": to_text(MIDNIGHT)}])
def test_a_page_costs_about_what_was_estimated(stage: Stage, limit: str, span: dict[str, str]) -> None:
    plan, pages = both(stage, **span, limit=limit)
    page = plan["estimate"]["page"]
    assert plan["estimate"]["tables_of_unknown_size"] == 0
    assert page["read_units"] / 1.6 <= pages[0].cost.units <= page["read_units"] * 1.6
    assert page["requests"] / 1.6 <= pages[0].cost.requests <= page["requests"] * 1.6


def test_what_is_filtered_after_reading_is_said_and_counted(stage: Stage) -> None:
    plan, pages = both(stage, **HALF_DAY, series="s1", limit="1000")
    assert {tuple(one["filtered_by"]) for one in plan["stages"]} == {("series",)}
    units = plan["estimate"]["all_pages"]["read_units"]
    assert units / 1.6 <= sum(page.cost.units for page in pages) <= units * 1.6


def test_the_plan_names_what_would_be_read_and_what_is_not_there(stage: Stage) -> None:
    plan, _ = both(stage, **{"from": to_text(MIDNIGHT - timedelta(days=4)), "to": to_text(MIDNIGHT)}, limit="10")
    assert [one["source"] for one in plan["stages"]] == ["table"] * len(plan["stages"])
    assert {one["ranges"] for one in plan["stages"]} == {8}
    assert plan["stages"][0]["period"] == "2026-03-15"
    assert [gap["reason"] for gap in plan["gaps"]] == ["no table"]


def test_explaining_reads_no_event(stage: Stage) -> None:
    before = stage.dynamo.calls.get("Query", 0)
    policy, now = stage.config.streams["s"], stage.clock.now()
    query = parse_query(policy, {"from": [HALF_DAY["from"]], "explain": ["true"]}, now, stage.seal)
    explain_query(query, policy, stage.reader(), stage.tables, now)
    assert stage.dynamo.calls["Query"] - before <= 3, "only the catalog was asked"
