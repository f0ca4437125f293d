"""The estimates of explained queries, compared with the consumed units on the strict service."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes import SEAL
from tests.fakes.stage import Stage
from tests.worlds.days import START, STREAM, Days
from tidetable.layout import Layout
from tidetable.periods import Kind, find_containing
from tidetable.query import explain_query, parse_query, run_query
from tidetable.query.aggregates import explain_aggregate, find_aggregate, parse_aggregation
from tidetable.query.rankings import explain_top, find_top, parse_ranking
from tidetable.times import to_text

MIDNIGHT = datetime(2026, 3, 16, tzinfo=UTC)  # when two whole days are full
CONFIG = """
[streams.s]
period = "day"
late = "2d"
retention = 5
key = { partition_by = "time", bucket = "6h", shards = 8 }
[streams.d]
period = "day"
late = "2d"
retention = 5
key = { partition_by = "series" }
[[streams.d.index]]
name = "everything"
partition_by = "*"
shards = 4
project = ["n"]
[[streams.d.index]]
name = "by_kind"
partition_by = "kind"
shards = 2
project = "keys"
[[streams.d.index]]
name = "by_rare"
partition_by = "rare"
shards = 2
[[streams.d.index]]
name = "best"
partition_by = "*"
sort_by = "n"
shards = 4
project = "keys"
[[streams.d.index]]
name = "again"
replica = true
"""
EVENTS = 1200


def rare(number: int) -> dict[str, str]:
    """One event of ten has a field of two values."""
    return {"rare": "yes" if number % 20 else "no"} if number % 10 == 0 else {}


@pytest.fixture(scope="module")
def stage() -> Stage:
    """Two days of events of half a kilobyte, evenly spread; a day later DynamoDB has counted the sizes."""
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
        some = events[start : start + 100]
        assert made.send("s", json.dumps(some).encode()).accepted == 100
        indexed: list[dict[str, Any]] = [
            {**event, "data": {"text": "x" * 400, "n": start + n, "kind": f"k{(start + n) % 100}"} | rare(start + n)}
            for n, event in enumerate(some)
        ]
        assert made.send("d", json.dumps(indexed).encode()).accepted == 100
    made.clock.sleep(12 * 3600)
    return made


def both(stage: Stage, stream: str = "s", **parameters: str) -> tuple[dict[str, Any], list[Any]]:
    """The plan, and the answers page by page."""
    policy, now, pages = stage.config.streams[stream], stage.clock.now(), []
    query_string = {name: [value] for name, value in parameters.items()}
    plan = explain_query(parse_query(policy, query_string, now, stage.seal), policy, stage.reader(), stage.tables, now)
    while True:
        pages.append(
            run_query(parse_query(policy, query_string, now, stage.seal), policy, stage.reader(), now, lambda: 100.0)
        )
        following = pages[-1].next
        if following is None:
            return plan, pages
        query_string = {"cursor": [following], "limit": query_string["limit"]}


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
    assert {tuple(scan["filtered_by"]) for scan in plan["stages"]} == {("series",)}
    units = plan["estimate"]["all_pages"]["read_units"]
    assert units / 1.6 <= sum(page.cost.units for page in pages) <= units * 1.6


def test_the_plan_names_what_would_be_read_and_what_is_not_there(stage: Stage) -> None:
    plan, _ = both(stage, **{"from": to_text(MIDNIGHT - timedelta(days=4)), "to": to_text(MIDNIGHT)}, limit="10")
    assert [scan["source"] for scan in plan["stages"]] == ["table"] * len(plan["stages"])
    assert {scan["ranges"] for scan in plan["stages"]} == {8}
    assert plan["stages"][0]["period"] == "2026-03-15"
    assert [gap["reason"] for gap in plan["gaps"]] == ["no table"]


def test_explaining_reads_no_event(stage: Stage) -> None:
    before = stage.dynamo.calls.get("Query", 0)
    policy, now = stage.config.streams["s"], stage.clock.now()
    query = parse_query(policy, {"from": [HALF_DAY["from"]], "explain": ["true"]}, now, stage.seal)
    explain_query(query, policy, stage.reader(), stage.tables, now)
    assert stage.dynamo.calls["Query"] - before <= 3, "only the catalog was asked"


WHOLE = {"from": to_text(MIDNIGHT - timedelta(hours=40)), "to": to_text(MIDNIGHT)}


@pytest.mark.parametrize("limit", ["50", "1000"])
@pytest.mark.parametrize("more", [{"fields": "n"}, {"fields": "n", "where.n:ge": "100"}])
def test_an_index_is_estimated_by_its_own_size(stage: Stage, limit: str, more: dict[str, str]) -> None:
    plan, pages = both(stage, "d", **WHOLE, **more, limit=limit)
    assert {(scan["index"], scan["fetches"]) for scan in plan["stages"]} == {("everything", False)}
    estimate = plan["estimate"]
    assert estimate["guessed_shares"] == 0
    units = sum(page.cost.units for page in pages)
    if limit == "1000":
        assert estimate["all_pages"]["read_units"] / 1.6 <= units <= estimate["all_pages"]["read_units"] * 1.6
    # The share of a filter is unknown: a page is estimated as if no event passed.
    least = 0 if "where.n:ge" in more else estimate["page"]["read_units"] / 1.6
    assert least <= pages[0].cost.units <= estimate["page"]["read_units"] * 1.6


def test_a_value_is_taken_for_all_that_its_index_holds_which_is_little_if_few_events_have_the_field(
    stage: Stage,
) -> None:
    """One event in ten has the field, with two equally frequent values: the estimate is twice the units that are read."""
    plan, pages = both(stage, "d", **WHOLE, limit="1000", **{"where.rare": "yes"})
    assert {(scan["index"], scan["fetches"], scan["ranges"]) for scan in plan["stages"]} == {("by_rare", False, 2)}
    assert plan["estimate"]["guessed_shares"] == len(plan["stages"]) == 2
    (page,) = pages
    assert (page.count, plan["estimate"]["pages"]) == (52, 1)
    for estimated in (plan["estimate"]["page"], plan["estimate"]["all_pages"]):
        assert page.cost.units <= estimated["read_units"] <= 2.5 * page.cost.units


def test_fetching_what_an_index_does_not_hold_is_estimated_too(stage: Stage) -> None:
    plan, pages = both(stage, "d", **WHOLE, limit="10", **{"where.kind": "k7"})
    assert {(scan["index"], scan["fetches"], scan["ranges"]) for scan in plan["stages"]} == {("by_kind", True, 2)}
    # Each suffix of each day costs half a unit at least, and so does each of the 10 events that are fetched from the table.
    assert pages[0].cost.units >= 2 * 0.5 + 10 * 0.5
    assert pages[0].cost.units / 1.6 <= plan["estimate"]["page"]["read_units"] <= pages[0].cost.units * 1.6


@pytest.mark.parametrize(("limit", "more"), [("20", {}), ("20", {"where.n:ge": "0"}), ("7", {"where.n:lt": "900"})])
def test_all_pages_are_counted_as_pages(stage: Stage, limit: str, more: dict[str, str]) -> None:
    """Each page reads every suffix ahead again, so a walk of small pages costs more than one of a large page."""
    plan, pages = both(stage, "s" if not more else "d", **HALF_DAY, limit=limit, **more)
    estimate = plan["estimate"]
    units, requests = sum(page.cost.units for page in pages), sum(page.cost.requests for page in pages)
    assert len(pages) / 1.6 <= estimate["pages"] <= len(pages) * 1.6
    assert estimate["all_pages"]["read_units"] / 2 <= units <= estimate["all_pages"]["read_units"] * 2
    assert estimate["all_pages"]["requests"] / 2.5 <= requests <= estimate["all_pages"]["requests"] * 2.5


def test_an_id_is_estimated_by_its_own_suffix(stage: Stage) -> None:
    plan, pages = both(stage, **HALF_DAY, id="e3", limit="1000")
    assert {scan["ranges"] for scan in plan["stages"]} == {1}
    assert {tuple(scan["filtered_by"]) for scan in plan["stages"]} == {("id",)}
    assert plan["query"]["id"] == ["e3"]
    assert pages[0].cost.units / 1.6 <= plan["estimate"]["page"]["read_units"] <= pages[0].cost.units * 1.6


def test_the_replica_takes_what_the_table_would(stage: Stage) -> None:
    plan, pages = both(stage, "d", **WHOLE, series="s1", limit="1000", priority="low")
    assert {scan["source"] for scan in plan["stages"]} == {"replica"}
    _, normal = both(stage, "d", **WHOLE, series="s1", limit="1000")
    assert [page.cost.units for page in pages] == [page.cost.units for page in normal]
    assert pages[0].document()["events"] == normal[0].document()["events"]


def test_what_a_filter_leaves_out_is_read_and_paid_for(stage: Stage) -> None:
    """DynamoDB charges for all events that it reads: those of the whole day."""
    day = {"from": to_text(MIDNIGHT - timedelta(days=1)), "to": to_text(MIDNIGHT)}
    _, (few,) = both(stage, "d", **day, series="s1", limit="1000", **{"where.n:lt": "10"})
    _, (all_of_them,) = both(stage, "d", **day, series="s1", limit="1000")
    assert (few.count, few.cost.read) == (2, all_of_them.count)
    assert few.cost.units == all_of_them.cost.units


@pytest.mark.parametrize("limit", ["5", "50"])
def test_the_first_of_a_ranking_cost_about_what_was_estimated(stage: Stage, limit: str) -> None:
    policy, now = stage.config.streams["d"], stage.clock.now()
    query_string = {name: [value] for name, value in (WHOLE | {"limit": limit}).items()}
    ranking = parse_ranking(policy, query_string, now, stage.seal)
    plan = explain_top(ranking, policy, stage.reader(), stage.tables, now)
    # The range cuts the older day, and a ranking is not ordered by time.
    assert [(scan["index"], scan["ranges"], scan["filtered_by"]) for scan in plan["stages"]] == [
        ("best", 4, ["time"]),
        ("best", 4, []),
    ]
    top = find_top(ranking, policy, stage.reader(), now, lambda: 100.0)
    page = plan["estimate"]["page"]
    assert len(top.rows) == int(limit)
    assert plan["estimate"]["all_pages"]["read_units"] >= page["read_units"]
    assert page["read_units"] / 2 <= top.cost.units <= page["read_units"] * 2
    # All first events are of one day here, so its ranges are read several times.
    assert page["requests"] / 2 <= top.cost.requests <= page["requests"] * 3


def test_an_aggregate_is_estimated_as_a_whole(stage: Stage) -> None:
    policy, now = stage.config.streams["d"], stage.clock.now()
    query_string = {name: [value] for name, value in WHOLE.items()} | {"field": ["n"], "stat": ["sum"]}
    aggregation = parse_aggregation(policy, query_string, now, stage.seal)
    plan = explain_aggregate(aggregation, policy, stage.reader(), stage.tables, now)
    answer = find_aggregate(aggregation, policy, stage.reader(), now, lambda: 100.0)
    assert plan["query"]["limit"] is None
    assert plan["estimate"]["page"] == plan["estimate"]["all_pages"]
    assert {(scan["index"], scan["fetches"]) for scan in plan["stages"]} == {("everything", False)}
    units = plan["estimate"]["page"]["read_units"]
    assert units / 1.6 <= answer.cost.units <= units * 1.6


def test_an_index_of_unknown_size_is_reported(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """DynamoDB counts an index separately from its table: an index without a size is not empty."""
    real = stage.tables.describe

    def young(name: str) -> Any:
        table = real(name)
        return None if table is None else replace(table, index_sizes={"best": (0, 0)})

    monkeypatch.setattr(stage.tables, "describe", young)
    policy, now = stage.config.streams["d"], stage.clock.now()
    ranking = parse_ranking(policy, {name: [value] for name, value in WHOLE.items()}, now, stage.seal)
    estimate = explain_top(ranking, policy, stage.reader(), stage.tables, now)["estimate"]
    assert estimate["tables_of_unknown_size"] == 2
    assert estimate["all_pages"]["read_units"] >= estimate["page"]["read_units"]


class NoTables:
    """Nobody knows a table's size."""

    def describe(self, table: str) -> None:
        """No table is there."""


@pytest.mark.parametrize(("hours", "shown", "left_out"), [(500, 500, 0), (502, 500, 2)])
def test_a_plan_shows_five_hundred_scans_and_counts_the_others(hours: int, shown: int, left_out: int) -> None:
    days, layout = Days(), Layout("time", 1, "id", 3_600)
    for hour in range(hours):
        days.add_table(find_containing(START + timedelta(hours=hour), Kind.HOUR), layout, ())
    end = START + timedelta(hours=hours)
    query = parse_query(STREAM, {"from": [to_text(START)], "to": [to_text(end)], "order": ["asc"]}, end, SEAL)
    plan = explain_query(query, STREAM, days.reader, NoTables(), end)  # type: ignore[arg-type]
    assert (len(plan["stages"]), plan["stages_left_out"]) == (shown, left_out)
    assert (plan["stages"][0]["period"], plan["stages"][-1]["period"]) == ("2026-03-01T00", "2026-03-21T19")
