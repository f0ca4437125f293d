"""What queries say that they took, where they read earlier versions of events, or data in the table of chunks.

The units are those of the items that the strict service holds, by its own rules.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from strict.units import measure_item, read_units
from tests.fakes.noise import noise
from tests.fakes.stage import Stage
from tests.worlds.large import CONFIG, DAY, NOON, built, event, ready, send
from tidetable.forms.field_columns import DATA
from tidetable.large.table_names import name_chunks_table
from tidetable.query import Cost, find_latest, parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.plan import plan_query
from tidetable.query.rankings import find_top, parse_ranking
from tidetable.query.session import ReadSession
from tidetable.query.whole import WholeBatch, WholeReader, make_query
from tidetable.times import to_text

RANKED = (
    CONFIG
    + """
[streams.ranked]
period = "day"
late = "1d"
retention = 5
large = { compress_above = 1024, beyond = "chunks" }
key = { partition_by = "time", bucket = "6h", shards = 2 }
index = [{ name = "by_n", partition_by = "*", sort_by = "n", project = ["kind"] }]
"""
)
# A day and an hour meet five buckets of six hours, of two suffixes each. A page of a range has at most two items here, which have
# less than 4 KB together: half a unit.
RANGES = 10
EVERYTHING = {"from": to_text(NOON - timedelta(days=1)), "to": to_text(NOON + timedelta(hours=1))}


def cost_of(stage: Stage, stream: str, **parameters: str) -> tuple[float, int]:
    """The units and requests of a query of all events of a series."""
    policy, now = stage.config.streams[stream], stage.clock.now()
    query_string = {name: [value] for name, value in (EVERYTHING | {"series": "a"} | parameters).items()}
    query = parse_query(policy, query_string, now, stage.seal)
    return spent(run_query(query, policy, stage.reader(), now, lambda: 100.0).cost)


def spent(cost: Cost) -> tuple[float, int]:
    return cost.units, cost.requests


def table_of(stage: Stage, stream: str) -> str:
    """The table of the day of all events here."""
    entries = stage.catalog.entries(stream, consistent=True)
    return next(entry.table for entry in entries if entry.period.label == DAY)


def units_of_all(stage: Stage, table: str) -> float:
    """The units of all items of a table, if each is read by its key and strongly consistent."""
    items: list[Mapping[str, Any]] = stage.dynamo.call("Scan", {"TableName": table})["Items"]
    assert items
    return sum(read_units(measure_item(item), consistent=True) for item in items)


def send_large(stage: Stage, stream: str, *numbers: int) -> float:
    """Store events whose data is in chunks; the units of the chunks."""
    for number in numbers:
        data = {"n": number, "kind": "large", "text": noise(900_000, number)}
        assert send(stage, stream, event(number, data)).accepted == 1
    stage.settle()
    return units_of_all(stage, name_chunks_table(table_of(stage, stream)))


@pytest.mark.parametrize(("count", "requests"), [(3, 1), (102, 2)])
def test_the_earlier_versions_of_an_event_are_in_the_cost_of_a_query(count: int, requests: int) -> None:
    """BatchGetItem takes a hundred keys. Each version has some nine kilobytes, and is read strongly consistent."""
    stage = built()
    for number in range(count):
        assert send(stage, "history", event(0, {"n": number, "text": "x" * 9_000})).accepted == 1
        stage.clock.sleep(1)
    stage.settle()
    newest = cost_of(stage, "history")
    everything = cost_of(stage, "history", versions="all")
    assert everything == (newest[0] + 3 * (count - 1), newest[1] + requests)


def test_data_in_chunks_is_in_the_cost_of_a_query() -> None:
    stage = built()
    units = send_large(stage, "chunked", 1, 2)
    assert units > 100
    assert cost_of(stage, "chunked") == (RANGES / 2 + units, RANGES + 1)


def test_chunks_that_a_condition_looks_into_are_in_the_cost_too() -> None:
    """They are read for the condition, and once more for the answer."""
    stage = built()
    units = send_large(stage, "chunked", 7)
    assert cost_of(stage, "chunked", **{"where.n": "7"}) == (RANGES / 2 + 2 * units, RANGES + 2)
    assert cost_of(stage, "chunked", **{"where.n": "8"}) == (RANGES / 2 + units, RANGES + 1)


@pytest.mark.parametrize("condition", [{}, {"where.n": "1"}], ids=["all", "one of them"])
def test_chunks_that_an_aggregate_reads_are_in_its_cost(condition: dict[str, str]) -> None:
    """They are read once, for each page by one request: the events are of two suffixes."""
    stage = built()
    units = send_large(stage, "chunked", 1, 2)
    policy, now = stage.config.streams["chunked"], stage.clock.now()
    named = EVERYTHING | {"series": "a", "stat": "sum", "field": "n"} | condition
    texts = {name: [value] for name, value in named.items()}
    found = find_aggregate(
        parse_aggregation(policy, texts, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
    )
    assert [row["sum"] for row in found.rows] == [1 if condition else 3]
    assert spent(found.cost) == (RANGES / 2 + units, RANGES + 2)


def test_chunks_are_in_the_cost_of_a_whole_read_of_all_data() -> None:
    """Listings and rollups read so."""
    stage = built()
    units = send_large(stage, "chunked", 1, 2)
    query = make_query("chunked", NOON - timedelta(days=1), NOON + timedelta(hours=1))
    session = ReadSession(stage.reader())
    plan = plan_query(query, stage.catalog.entries("chunked", consistent=True))
    batches = WholeReader(query, session, (DATA,)).read(plan.scans)
    values = [data for batch in batches if isinstance(batch, WholeBatch) for data in batch.columns.values.get(DATA, ())]
    assert sorted(data["n"] for data in values) == [1, 2]
    # Strongly consistent reads of ranges take a whole unit each.
    assert spent(session.cost) == (RANGES + units, RANGES + 2)


def test_data_in_chunks_is_in_the_cost_of_the_latest_event() -> None:
    stage = built()
    units = send_large(stage, "texts", 1)
    policy, now = stage.config.streams["texts"], stage.clock.now()
    latest = find_latest(policy, {"series": ["a"]}, stage.reader(), now, lambda: 100.0)
    assert list(latest.events) == ["a"]
    # Another series is looked for in as many tables at least, and has no chunks.
    without = find_latest(policy, {"series": ["b"]}, stage.reader(), now, lambda: 100.0)
    assert units < latest.cost.units <= units + without.cost.units


def test_data_in_chunks_is_in_the_cost_of_a_ranking() -> None:
    stage = Stage(NOON, RANKED)
    stage.part_bytes = 10**7
    ready(stage)
    policy = stage.config.streams["ranked"]

    def cost_of_top(**parameters: str) -> tuple[float, int]:
        now = stage.clock.now()
        named = {"from": to_text(NOON - timedelta(days=1)), "index": "by_n"} | parameters
        ranking = parse_ranking(policy, {name: [value] for name, value in named.items()}, now, stage.seal)
        return spent(find_top(ranking, policy, stage.reader(), now, lambda: 100.0).cost)

    units = send_large(stage, "ranked", 1, 2)
    brief, whole = cost_of_top(fields="kind"), cost_of_top()
    assert whole == (brief[0] + 2 * 0.5 + units, brief[1] + 2)
