"""Units and prices of a workload at the edges where AWS rounds up, calculated by hand from its price list."""

from dataclasses import replace
from datetime import timedelta
from math import ceil
from typing import Any

import msgspec
import pytest

from bill.amounts import Bill, TableCost
from bill.compare import Proposal, compare_change
from bill.table_bill import price_one_on_demand, price_one_provisioned, price_rolling
from bill.workload import Workload, count_least_shards, spread_by_hour
from bill.workload_bill import advise, compute_whole_bill
from tests.lifecycle.world import NOON, configuration
from tidetable.config import Config, parse
from tidetable.periods import parse_label

ON_DEMAND = 'mode = "on-demand"'
INDEX = '[[streams.s.index]]\nname = "status"\npartition_by = "status"'
KEYS = '[[streams.s.index]]\nname = "status"\npartition_by = "status"\nproject = "keys"'


def workload(
    size: int, *, rate: float = 3.0, reads: float = 0.0, read: int = 4096, old: float = 0.0, **changes: str
) -> Workload:
    stream = configuration(**{"capacity": ON_DEMAND} | changes).streams["s"]
    return Workload(spread_by_hour(rate, None), size, reads, read, old, stream)


@pytest.mark.parametrize(("size", "units"), [(1, 1), (1024, 1), (1025, 2), (2048, 2), (2049, 3)])
def test_a_write_unit_is_a_kb_begun_in_the_table_and_in_an_index(size: int, units: int) -> None:
    found = workload(size, more=INDEX)
    assert (found.event_units, found.index_units) == (units, units)


def test_an_index_of_keys_alone_holds_no_more_than_keys() -> None:
    found = workload(5_000, more=KEYS)
    assert (found.event_units, found.index_units, found.index_bytes) == (5, 1, 200)
    assert workload(150, more=KEYS).index_bytes == 150


@pytest.mark.parametrize(("size", "units"), [(1, 0.5), (4096, 0.5), (4097, 1.0), (8193, 1.5)])
def test_a_query_takes_half_a_unit_for_each_4_kb_begun(size: int, units: float) -> None:
    assert workload(500, read=size).read_units == units


@pytest.mark.parametrize(
    ("key", "size", "units"),
    [
        # Half a unit per shard, or a quarter more than the bytes for each further shard.
        ({"shards": 4}, 4096, 2.0),
        ({"shards": 4}, 8192, 2.0),
        ({"shards": 4}, 10_240, 2.0),
        ({"shards": 4}, 10_241, 2.5),
        ({"shards": 4}, 81_920, 11.0),
        ({"shards": 64}, 4096, 32.0),
        ({"shards": 4, "shard_by": "series"}, 8192, 2.0),
    ],
)
def test_a_query_takes_half_a_unit_of_each_shard(key: dict[str, Any], size: int, units: float) -> None:
    found = workload(500, read=size)
    changed = msgspec.structs.replace(found.stream.key, **key)
    assert found.change_stream(key=changed).read_units == units
    # A table without Tidetable has one shard.
    assert found.change_stream(key=changed).plain.read_units == ceil(size / 4096) / 2


def test_a_query_of_a_series_in_packs_reads_its_shard() -> None:
    found = replace(workload(500, more='[streams.s.pack]\nspan = "1h"', read=8192), series_per_request=1)
    for by, units in (("id", 32), ("series", 2)):
        key = msgspec.structs.replace(found.stream.key, shards=64, shard_by=by)
        assert found.change_stream(key=key).read_units == units


@pytest.mark.parametrize(("units", "shards"), [(0, 1), (500, 1), (500.1, 2), (1_000, 2), (1_001, 3), (40_000, 80)])
def test_shards_take_twice_the_units_of_the_busiest_moment(units: float, shards: int) -> None:
    assert count_least_shards(units) == shards


def test_one_provisioned_table_has_whole_units_for_its_busiest_hour() -> None:
    bill = price_one_provisioned(workload(700, rate=2.5, reads=0.7, old=0.5, more=INDEX))
    # 2.5 units per second need 3, at $0.00065 for 730 hours. 1.2 queries of half a unit need one, at $0.00013.
    assert bill.tables.writes == pytest.approx(1.4235)
    assert bill.tables.reads == pytest.approx(0.0949)
    assert bill.indexes.writes == pytest.approx(1.4235)
    assert bill.indexes.reads == pytest.approx(0.0949)
    # 216,000 events per day of 700 bytes for 5 days, at $0.25 per GB-month; all are in the index once more.
    assert bill.tables.storage == pytest.approx(0.189)
    assert bill.indexes.storage == pytest.approx(0.189)


def test_an_index_that_holds_next_to_nothing_still_needs_a_unit() -> None:
    sparse = Workload(spread_by_hour(0.0, None), 700, 0.0, 4096, 0.0, configuration(more=INDEX).streams["s"])
    assert price_one_provisioned(sparse).indexes.writes == pytest.approx(0.00065 * 730)


def test_one_on_demand_table_takes_each_event_and_query() -> None:
    bill = price_one_on_demand(workload(700, rate=2.0, reads=3.0, old=1.0, read=8192, more=INDEX))
    # 5.256 million events in 730 hours at $0.625; 10.512 million queries of a unit each at $0.125.
    assert bill.tables.writes == pytest.approx(3.285)
    assert bill.tables.reads == pytest.approx(1.314)
    assert bill.indexes.writes == pytest.approx(3.285)
    assert bill.indexes.reads == 0


@pytest.mark.parametrize("period", ["hour", "day", "week", "month"])
def test_a_month_has_as_many_nights_as_days_whatever_the_period(period: str) -> None:
    stream = configuration(period=period, late="1h", capacity=ON_DEMAND).streams["s"]
    # 16 hours of 3 and 8 of 1 are 201,600 events per day: 6.132 million in 730 hours, at $0.625.
    assert price_rolling(Workload(spread_by_hour(3, 1), 700, 0.0, 4096, 0.0, stream)).tables.writes == pytest.approx(
        3.8325
    )


def test_queries_of_old_events_are_priced_in_the_class_of_old_tables() -> None:
    cold = f'{ON_DEMAND}\nladder = [{{ age = 0 }}, {{ age = 1, class = "infrequent-access" }}]'
    bill = price_rolling(workload(700, rate=0.0, reads=1.0, old=2.0, capacity=cold, late="1h"))
    # 2.628 million at $0.125 and 5.256 million at $0.155, half a unit each; but in the first of 24 hours the day before
    # is open, and costs $0.125.
    assert bill.tables.reads == pytest.approx(0.16425 + (23 * 0.40734 + 0.3285) / 24)


def test_queries_of_old_events_cost_nothing_more_where_old_tables_are_provisioned() -> None:
    ladder = 'mode = "provisioned"\nladder = [{ age = 0, write = 1, read = 1 }]'
    loads = [workload(700, rate=0.0, reads=reads, old=old, capacity=ladder) for reads, old in ((0.0, 0.0), (2.0, 3.0))]
    without, bill = map(price_rolling, loads)
    assert bill == without
    assert bill.tables.reads > 0


def test_an_export_reads_each_table_once_strongly() -> None:
    lines = {line.name: line.dollars for line in compute_whole_bill(workload(4096, rate=1_000.0)).lines}
    # 2.628 billion events of a read unit each at $0.125 a million.
    assert lines["archive, reads"] == pytest.approx(328.5)
    # 10,764 GB, a quarter of it as Parquet, kept for twelve months of 30.4 days, at $0.023.
    assert lines["archive, S3"] == pytest.approx(742.75, rel=1e-4)


def days_of(config: Config) -> list[int]:
    found = Workload(spread_by_hour(3, None), 700, 0.0, 4096, 0.0, config.streams["s"])
    return [day["day"] for day in compare_change(config, Proposal(found, ""), NOON, "us-east-1")["before"]["days"]]


def test_a_comparison_shows_each_nth_day_and_the_last() -> None:
    """Tables are kept for the retention and the late events' day, and two more days show that nothing changes."""
    assert days_of(configuration()) == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert days_of(configuration(retention=20)) == [*range(0, 23, 2), 23]


def test_events_are_counted_by_the_hours_that_have_passed() -> None:
    found = Workload(spread_by_hour(3, 1), 700, 0.0, 4096, 0.0, configuration().streams["s"])
    today = parse_label("2026-03-15")
    # Seven hours of night at 1 and five at 3; half an hour more; a whole day; and nothing of the future.
    assert found.count_events(today, NOON) == 3600 * (7 + 5 * 3)
    assert found.count_events(today, NOON + timedelta(minutes=30)) == 3600 * (7 + 5 * 3) + 1800 * 3
    assert found.count_events(today, NOON + timedelta(days=9)) == 3600 * (8 + 16 * 3)
    assert found.count_events(today, NOON - timedelta(days=9)) == 0


def test_events_in_packs_take_their_share_of_the_packs_units() -> None:
    """500 bytes, the first of a pack as large as an item, 99 others a quarter of it, and some 130 bytes of the pack: 13 KB
    for the 100 events of a series.
    """
    found = replace(workload(500, more='[streams.s.pack]\nspan = "1h"', read=8192), series_per_request=1)
    assert (found.event_units, found.items_per_event) == (0.13, 0.01)
    assert found.stored_bytes == pytest.approx(130, abs=0.5)
    # A query of 8,192 bytes of plain events needs 2,130 of packs, and reads one pack more: 15,135 bytes.
    assert found.read_units == 2
    measured = replace(found, packed_bytes=300.0)
    assert measured.event_units == 0.3
    assert measured.stored_bytes == pytest.approx(301.3, abs=0.3)
    # 100 events of 2,000 bytes in packs of 65,536 at the most: 4 packs of 50,130 bytes, 49 write units each.
    large = replace(found, packed_bytes=2000.0)
    assert (large.event_units, large.items_per_event) == (1.96, 0.04)
    # 65,536 bytes are one pack to the byte.
    full = replace(found, packed_bytes=655.36)
    assert (full.event_units, full.items_per_event) == (0.65, 0.01)
    assert (large.plain.event_units, large.plain.stored_bytes) == (1, 500)


LOCAL = (
    '[[streams.s.index]]\nname = "near"\nlocal = true\nsort_by = "ms"\n'
    '[[streams.s.index]]\nname = "status"\npartition_by = "status"'
)


def test_a_local_index_takes_its_units_from_the_table() -> None:
    found = replace(workload(1500, more=LOCAL), index_shares={"near": 0.5, "status": 0.25})
    # Two units of the table and half of two of the local index; a quarter of two of the other index.
    assert (found.event_units, found.index_units) == (3.0, 0.5)
    assert found.index_bytes == 1500 * 0.75


BUCKETS = """
[streams.s]
period = "day"
late = "1h"
retention = 10
key = { partition_by = "time", bucket = "6h", shards = 2 }
"""


def test_a_partition_key_with_local_indexes_holds_the_events_of_a_bucket_and_their_copies() -> None:
    """The busiest hour: 900 events per second of 500 bytes, half of them in the index, on two suffixes for six hours."""
    index = '[[streams.s.index]]\nname = "near"\nlocal = true\nsort_by = "ms"'
    rates = [900.0] + [1.0] * 23
    found = Workload(rates, 500, 1.0, 4096, 0.0, parse(BUCKETS + index).streams["s"], index_shares={"near": 0.5})
    assert found.collection_bytes == 900 * 6 * 3600 / 2 * 750
    assert replace(found, stream=parse(BUCKETS).streams["s"]).collection_bytes is None
    assert workload(500, more=LOCAL).collection_bytes is None, "how many events a series has is not known"


@pytest.mark.parametrize(("rate", "advised"), [(1988.0, False), (1989.0, True)])
def test_a_partition_key_that_outgrows_ten_gigabytes_is_told(rate: float, advised: bool) -> None:
    """10,800 events of 500 bytes per unit of the rate: 1,988.4 of them are 10 times 1,024 cubed."""
    index = '[[streams.s.index]]\nname = "near"\nlocal = true\nsort_by = "ms"'
    stream = parse(BUCKETS + index).streams["s"]
    found = Workload([rate] + [0.0] * 23, 500, 0.0, 4096, 0.0, stream, index_shares={"near": 0.0})
    bills = {"rolling": Bill(TableCost(1.0)), "provisioned": Bill(TableCost(99.0)), "on demand": Bill(TableCost(99.0))}
    texts = [text for text in advise(found, bills) if text.startswith("a suffix of a bucket of 6h gets 10.0 GB")]
    assert bool(texts) is advised


def test_the_night_is_from_23_to_7_oclock() -> None:
    assert spread_by_hour(3, 1) == [1] * 7 + [3] * 16 + [1]
    assert spread_by_hour(3, None) == [3] * 24
