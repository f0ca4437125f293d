"""Local indexes on the strict service: from when they hold, what they read consistently, and their archive."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes.stage import Stage
from tidetable.catalog import State
from tidetable.config import parse
from tidetable.problems import ProblemError
from tidetable.query import explain_query, parse_query, run_query
from tidetable.query.rankings import explain_top, find_top, parse_ranking
from tidetable.times import to_text

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
PLAIN = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
[streams.s]
period = "day"
late = "1d"
retention = 5
key = { partition_by = "time", bucket = "6h", shards = 2 }
[streams.d]
period = "day"
late = "1d"
retention = 5
key = { partition_by = "series", shards = 2 }
"""
INDEXES = """
[[streams.{0}.index]]
name = "near"
local = true
sort_by = ["country", "region"]
[[streams.{0}.index]]
name = "brief"
local = true
sort_by = ["kind"]
project = "keys"
[[streams.{0}.index]]
name = "best"
local = true
sort_by = "n"
"""
LOCAL = PLAIN + INDEXES.format("s") + INDEXES.format("d")
PLACES = [("US", "CA"), ("US", "NV"), ("US", None), ("UK", "CA"), (None, "CA")]
REGION = {"where.country": "US", "where.region": "CA"}


def events(day: datetime, count: int = 40) -> list[dict[str, Any]]:
    """Events of the half day before an instant, of two series, in every place."""
    found = []
    for number in range(count):
        country, region = PLACES[number % 5]
        data = {"country": country, "region": region, "n": number, "kind": f"k{number % 4}", "text": "x" * 300}
        place = {name: value for name, value in data.items() if value is not None}
        at = day - timedelta(minutes=15 * number + 1)
        found.append({"series": f"s{number % 2}", "id": f"{day:%d}-{number}", "time": to_text(at), "data": place})
    return found


def send(stage: Stage, many: list[dict[str, Any]]) -> None:
    for stream in "sd":
        assert stage.send(stream, json.dumps(many).encode()).accepted == len(many)


def read_pages(stage: Stage, stream: str = "s", **parameters: str) -> tuple[list[str], list[Any], dict[str, Any]]:
    """The ids of all pages, their sources, and the plan."""
    policy, now = stage.config.streams[stream], stage.clock.now()
    query_string = {"from": [to_text(NOON - timedelta(days=1))], "to": [to_text(now)], "limit": ["7"]}
    query_string |= {name: [value] for name, value in parameters.items()}
    plan = explain_query(parse_query(policy, query_string, now, stage.seal), policy, stage.reader(), stage.tables, now)
    found: list[str] = []
    sources: list[Any] = []
    while True:
        query = parse_query(policy, query_string, now, stage.seal)
        answer = run_query(query, policy, stage.reader(), now, lambda: 100.0)
        document = answer.document()
        assert document["gaps"] == []
        found += [event["id"] for event in document["events"]]
        sources += [source for source in document["sources"] if source not in sources]
        if document["next"] is None:
            return found, sources, plan
        query_string = {"cursor": [document["next"]], "limit": ["7"]}


def expected_ids(*many: list[dict[str, Any]], **values: str) -> list[str]:
    """The ids of the events with these values, newest first."""
    met = [e for some in many for e in some if all(e["data"].get(name) == value for name, value in values.items())]
    return [event["id"] for event in sorted(met, key=lambda event: (event["time"], event["series"]), reverse=True)]


def test_a_local_index_that_is_added_later_holds_from_the_next_tables_on() -> None:
    """The tables of two days, and two ahead, are there already; they answer by themselves meanwhile."""
    stage = Stage(NOON, PLAIN)
    stage.run_lifecycle()
    early = events(NOON)
    send(stage, early)
    stage.config = parse(LOCAL)
    stage.settle()
    for _ in range(3):
        for _ in range(2):
            stage.run_lifecycle()
            stage.clock.sleep(300)
        stage.clock.sleep(86_400 - 600)
    stage.settle()
    later = events(stage.clock.now())
    send(stage, later)
    stage.clock.sleep(60)
    for stream, series in (("s", {}), ("d", {"series": "s0"})):
        found, sources, plan = read_pages(stage, stream, **REGION, **series)
        everything = [event for event in early + later if not series or event["series"] == "s0"]
        assert found == expected_ids(everything, country="US", region="CA")
        by_period = {source["period"]: source.get("index", source["from"]) for source in sources}
        assert by_period["2026-03-15"] == "table"
        assert by_period["2026-03-18"] == "near"
        assert plan["indexes_since"] == dict.fromkeys(("near", "brief", "best"), "2026-03-18T00:00:00.000000Z")
        assert {scan["index"] for scan in plan["stages"] if scan["period"] >= "2026-03-18"} == {"near"}
    newest = {"from": "2026-03-18T00:00:00Z"}
    assert "indexes_since" not in read_pages(stage, **REGION, **newest)[2]


def stage_of(config: str = LOCAL, **options: Any) -> tuple[Stage, list[dict[str, Any]]]:
    stage = Stage(NOON, config, **options)
    stage.run_lifecycle()
    stage.clock.sleep(700)
    many = events(stage.clock.now())
    send(stage, many)
    return stage, many


@pytest.mark.parametrize("more", [{}, {"fields": "region"}])
def test_a_consistent_query_is_answered_from_the_local_index_at_once(more: dict[str, str]) -> None:
    """Other reads of this service are up to ten minutes old."""
    stage, many = stage_of(stale_seconds=600.0)
    for stream, series in (("s", {}), ("d", {"series": "s0"})):
        some = [event for event in many if not series or event["series"] == "s0"]
        for conditions, name in (
            (REGION, "near"),
            ({"where.country": "US"}, "near"),
            ({"where.country:prefix": "U", "where.kind": "k1"}, "brief"),
            ({"where.kind": "k2"}, "brief"),
        ):
            found, sources, _ = read_pages(stage, stream, consistent="true", **conditions, **series, **more)
            values = {key.removeprefix("where."): value for key, value in conditions.items() if ":" not in key}
            met = [event for event in some if "country" in event["data"] or "where.country:prefix" not in conditions]
            assert found == expected_ids(met, **values)
            assert {source.get("index") for source in sources} == {name}
    assert read_pages(stage, **REGION)[0] == []


def test_a_local_index_reads_a_part_of_what_the_table_would() -> None:
    """Of 40 events of 400 bytes 8 are of the region: 4 partitions of half a unit each, where the table has a unit each."""
    stage, _ = stage_of()
    stage.clock.sleep(10)
    policy, now = stage.config.streams["d"], stage.clock.now()

    def read(**conditions: str) -> tuple[int, float]:
        query_string = {"from": [to_text(NOON - timedelta(days=1))], "limit": ["1000"], "series": ["s0"]}
        query_string |= {name: [value] for name, value in conditions.items()}
        answer = run_query(
            parse_query(policy, query_string, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
        )
        return answer.count, answer.cost.read

    assert read(**REGION) == (4, 4)
    assert read(**{"where.region": "CA"}) == (12, 20), "the key begins with the country, so the table is filtered"


@pytest.mark.parametrize("project", ["", 'project = "keys"\n'])
def test_a_local_ranking_is_read_consistently_and_a_global_ranking_is_not(project: str) -> None:
    """Other reads of this service are up to ten minutes old. What an index of keys lacks is read from the table."""
    far = '\n[[streams.d.index]]\nname = "far"\npartition_by = "kind"\nsort_by = "n"\n'
    stage, _ = stage_of((LOCAL + far).replace('"n"\n\n[[', f'"n"\n{project}\n[['), stale_seconds=600.0)
    policy, now = stage.config.streams["d"], stage.clock.now()

    def top(**parameters: str) -> Any:
        query_string = {"limit": ["3"], **{name: [value] for name, value in parameters.items()}}
        ranking = parse_ranking(policy, query_string, now, stage.seal)
        return find_top(ranking, policy, stage.reader(), now, lambda: 100.0).document()

    assert top(index="best", value="s1")["top"] == []
    first = top(index="best", value="s1", consistent="true")
    assert [row["value"] for row in first["top"]] == [39, 37, 35]
    assert [row["data"]["n"] for row in top(cursor=first["next"])["top"]] == [33, 31, 29]
    assert top(cursor=first["next"], consistent="true")["top"] != []
    with pytest.raises(ProblemError, match="the index far is global"):
        top(index="far", value="k1", consistent="true")


def test_part_of_a_hierarchy_costs_the_same_for_each_page() -> None:
    """All of it is read for a page of one event, and the plan says so."""
    stage = Stage(NOON, LOCAL)
    stage.run_lifecycle()
    stage.clock.sleep(700)
    many = [
        {**event, "data": event["data"] | {"country": "US", "text": "x" * 3000}} for event in events(stage.clock.now())
    ]
    send(stage, many)
    stage.clock.sleep(12 * 3600)
    policy, now = stage.config.streams["s"], stage.clock.now()

    def costs(limit: str) -> tuple[float, float]:
        bucket = {"from": [to_text(NOON - timedelta(hours=6))], "to": [to_text(NOON)]}
        query_string = {**bucket, "limit": [limit], "where.country": ["US"]}
        query = parse_query(policy, query_string, now, stage.seal)
        plan = explain_query(query, policy, stage.reader(), stage.tables, now)
        answer = run_query(query, policy, stage.reader(), now, lambda: 100.0)
        return plan["estimate"]["page"]["read_units"], answer.cost.units

    (planned, first), (_, most) = costs("1"), costs("1000")
    assert first == most >= 20 * 3000 / 4096 / 2
    assert planned == costs("1000")[0]


@pytest.mark.parametrize("stream", ["s", "d"])
def test_a_local_ranking_ranks_a_series_or_all_events(stream: str) -> None:
    stage, _ = stage_of()
    stage.clock.sleep(10)
    policy, now = stage.config.streams[stream], stage.clock.now()
    value = {"value": ["s1"]} if stream == "d" else {}
    numbers = [number for number in range(39, -1, -1) if stream == "s" or number % 2]
    query_string: dict[str, list[str]] = {"limit": ["15"], **value}
    plan = explain_top(parse_ranking(policy, query_string, now, stage.seal), policy, stage.reader(), stage.tables, now)
    assert {scan["index"] for scan in plan["stages"]} == {"best"}
    found: list[int] = []
    while True:
        ranking = parse_ranking(policy, query_string, now, stage.seal)
        document = find_top(ranking, policy, stage.reader(), now, lambda: 100.0).document()
        found += [row["value"] for row in document["top"]]
        if document["next"] is None:
            break
        query_string = {"cursor": [document["next"]], "limit": ["15"]}
    assert found == numbers
    wrong = {"value": ["s1"]} if stream == "s" else {}
    with pytest.raises(ProblemError, match="leave value out" if stream == "s" else "the events of one series"):
        parse_ranking(policy, wrong, now, stage.seal)


def test_a_plan_of_a_consistent_ranking_has_twice_the_units() -> None:
    """Two suffixes of a series are read in each of the tables that there are, of which the least is half a unit."""
    stage, _ = stage_of()
    policy, now = stage.config.streams["d"], stage.clock.now()
    units = []
    for consistent in ("false", "true"):
        query_string = {"index": ["best"], "value": ["s1"], "limit": ["3"], "consistent": [consistent]}
        ranking = parse_ranking(policy, query_string, now, stage.seal)
        plan = explain_top(ranking, policy, stage.reader(), stage.tables, now)
        least = sum(scan["ranges"] for scan in plan["stages"]) * (1.0 if consistent == "true" else 0.5)
        estimated = plan["estimate"]
        assert (estimated["page"]["read_units"], estimated["all_pages"]["read_units"]) == (least, least)
        units.append(find_top(ranking, policy, stage.reader(), now, lambda: 100.0).cost.units)
    assert units[1] == 2 * units[0]


CAPACITY = """
[streams.s.capacity]
mode = "provisioned"
ladder = [{ age = 0, write = 90, read = 30 }, { age = 1, write = 2, read = 3 }]
"""


def test_an_archive_and_a_restored_table_answer_as_the_table_did() -> None:
    """The restored table leaves on-demand mode with units of its own, and none for its local indexes."""
    stage, many = stage_of(LOCAL + CAPACITY)
    stage.clock.sleep(10)
    before = [read_pages(stage, "s", **REGION)[0], read_pages(stage, "d", series="s0", **REGION)[0]]
    assert before == [expected_ids(many, country="US", region="CA"), expected_ids(many[::2], country="US", region="CA")]
    stage.clock.sleep(8 * 86_400)
    for _ in range(30):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    stage.settle()
    states = {entry.state for entry in stage.catalog.entries("s", NOON, NOON)}
    assert states == {State.DELETED}
    to = {"to": to_text(NOON + timedelta(days=1))}
    assert [read_pages(stage, "s", **REGION, **to)[0], read_pages(stage, "d", series="s0", **REGION, **to)[0]] == before
    for stream in "sd":
        assert stage.restore(stream, "2026-03-15").state == "closed"
    for _ in range(4):
        assert stage.run_lifecycle().healthy
        stage.clock.sleep(300)
    table = stage.dynamo.account.tables["tidetable-lapse.s.2026-03-15"]
    assert (table.on_demand, table.write, set(table.indexes)) == (False, 2, {"near", "brief", "best"})
    for stream, series, ids in (("s", {}, before[0]), ("d", {"series": "s0"}, before[1])):
        found, sources, _ = read_pages(stage, stream, **REGION, **to, **series)
        assert found == ids
        assert {source.get("index") for source in sources if source["period"] == "2026-03-15"} == {"near"}
