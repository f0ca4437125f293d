"""Aggregates and rollups read all events of a range: in as few requests as memory allows, however many shards there are."""

from collections.abc import Sequence
from datetime import timedelta

import pytest

from tests.fakes.stage import Stage
from tests.worlds.busy import MINUTE, START, make_events, make_stage
from tidetable.ports import RangeRead
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.aggregates.find import Aggregate
from tidetable.query.packs.walk import count_fitting_packs
from tidetable.times import to_text

COUNT = 20_000


def aggregate(stage: Stage, **parameters: str) -> Aggregate:
    given = {"from": to_text(START), "to": to_text(START + MINUTE), "stat": "count,sum", "field": "mag"} | parameters
    asked = {name: [value] for name, value in given.items()}
    query = parse_aggregation(stage.config.streams["s"], asked, stage.clock.now(), stage.seal)
    return find_aggregate(query, stage.config.streams["s"], stage.reader(), stage.clock.now(), lambda: 100.0)


# One request per shard, and one more for each page of 1 MB that is not the last of its shard.
@pytest.mark.parametrize(
    ("shards", "span", "requests", "units"),
    [(1, None, 3, 300.5), (50, None, 50, 315.5), (200, None, 200, 354.0), (1, "1m", 1, 37.0), (20, "1m", 20, 42.0)],
)
def test_an_aggregate_takes_a_request_per_shard_and_the_units_of_its_events(
    shards: int, span: str | None, requests: int, units: float
) -> None:
    answer = aggregate(make_stage(shards, make_events(COUNT), span=span))
    assert [row["count"] for row in answer.rows] == [COUNT]
    assert answer.cost.read == COUNT
    assert (answer.cost.requests, answer.cost.units) == (requests, units)


def test_the_refresher_reads_many_shards_in_few_requests() -> None:
    stage = make_stage(100, make_events(8_000), rollup=True)
    stage.dynamo.calls.clear()
    (begun,) = stage.rollups.read_state("s").edges
    reads = stage.store.query_fields
    requests = 0

    def count_reads(ranges: list[RangeRead], fields: Sequence[str], **options: bool) -> object:
        nonlocal requests
        requests += sum(".s." in keys.table for keys, _ in ranges)
        return reads(ranges, fields, **options)

    stage.store.query_fields = count_reads  # type: ignore[method-assign, assignment]
    stage.refresh()
    answer = aggregate(stage, by="series", to=to_text(START + timedelta(hours=1)))
    assert {scan.entry.stream for scan in answer.sources} == {"s-hours"}
    assert sum(row["count"] for row in answer.rows) == 8_000
    # The other hours that are sealed have no events: 100 requests each.
    sealed = stage.rollups.read_state("s").edges[0]
    empty = (sealed.sealed - begun.sealed) // timedelta(hours=1) - 1
    assert requests - 100 * empty == 100


@pytest.mark.parametrize(
    ("item_bytes", "ranges", "limit"),
    [
        (120, 200, 615),
        (120, 1, 123_076),  # AWS: the page ends at 1 MB
        (1_024, 256, 175),
        (102_400, 200, 4),  # of 400 bytes fewer it would be 3: a page costs half a unit, so it has at least 4 items
        (16_384, 100, 38),
    ],
)
def test_as_many_packs_are_read_as_64_mb_for_all_ranges_hold(item_bytes: int, ranges: int, limit: int) -> None:
    assert count_fitting_packs(100 * item_bytes / 8192, 100, ranges) == limit
