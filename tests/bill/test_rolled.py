"""The lines of a stream's rollups and feed, calculated by hand from AWS's price list: a month has 730 hours."""

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as change

from bill.rolled import list_rollups, price_feed, price_rollups, size_bucket
from bill.workload import Workload
from tests.lifecycle.world import configuration
from tidetable.config.stream import RollupPolicy
from tidetable.durations import Duration
from tidetable.periods import Kind

ON_DEMAND = 'mode = "on-demand"'
PROVISIONED = 'mode = "provisioned"\nladder = [{ age = 0, write = 100, read = 200 }, { age = 1, mode = "on-demand" }]'
ROLLUP = """
[[streams.s.rollup]]
name = "m"
every = "1m"
by = ["series"]
fields = ["mag"]
retention = "30d"
"""
QUARTERS = ROLLUP.replace('"m"', '"q"').replace('"1m"', '"15m"')
HOURS = ROLLUP.replace('"m"', '"h"').replace('"1m"', '"1h"')
FEED = 'feed = { targets = ["arn:aws:sqs:eu-central-1:123456789012:changes"] }\n'
# Days of a month of 730 hours.
MONTH = 730 / 24


def workload(more: str, rates: float | list[float] = 100.0, capacity: str = ON_DEMAND) -> Workload:
    """Events of 500 bytes."""
    hours = rates if isinstance(rates, list) else [rates] * 24
    return Workload(hours, 500, 0.0, 4096, 0.0, configuration(capacity=capacity, more=more).streams["s"], groups=1000)


def lines(found: Workload) -> dict[str, tuple[float, str]]:
    return {name: (dollars, how) for name, dollars, how in price_rollups(found, list_rollups(found))}


def test_each_line_says_how_it_was_calculated() -> None:
    found = lines(workload(ROLLUP + HOURS))
    assert {name: how for name, (_, how) in found.items()} == {
        "rollup s-m, writes": "1,440 buckets per day of 1,000 groups, 21 write units each, the edge included",
        "rollup s-m, reads": (
            "each event, a unit at least for each of 1,000 partition keys per bucket, and each bucket: read once, strongly"
            " consistent"
        ),
        "rollup s-m, storage": "20,130 bytes per bucket, 30 days",
        "rollup s-h, writes": "24 buckets per day of 1,000 groups, 21 write units each, the edge included",
        "rollup s-h, reads": "the cells of s-m, and each bucket: read once, strongly consistent",
        # In tables of a month each, of which one may be shorter than 30 days: two of them.
        "rollup s-h, storage": "20,130 bytes per bucket, 60 days",
        "notes of series": (
            "30,417 notes per month: 1,000 series in each period, as many as groups, with 1.02 write units and 2 read units each"
        ),
    }
    # $0.625 per million write units, $0.125 per million read units. In a minute, each of 1,000 series has six events of 500
    # bytes, which take a unit, and the notes of all take 4.5.
    assert found["rollup s-m, writes"][0] == pytest.approx(1_440 * 21 * MONTH * 0.625e-6)
    read = 1_440 * (1_000 + 4.5 + 20_130 / 4096)
    assert found["rollup s-m, reads"][0] == pytest.approx(read * MONTH * 0.125e-6)
    assert found["rollup s-h, reads"][0] == pytest.approx(24 * 61 * 20_130 / 4096 * MONTH * 0.125e-6)


@pytest.mark.parametrize(
    ("rate", "period", "notes", "how"),
    [
        (100.0, "day", 1000 * MONTH, "30,417 notes per month: 1,000 series in each period"),
        (100.0, "hour", 1000 * 730, "730,000 notes per month: 1,000 series in each period"),
        # Fewer events than series.
        (0.001, "day", 87 * MONTH, "2,646 notes per month: 87 series in each period"),
    ],
)
def test_a_stream_by_series_notes_each_series_once_per_period(rate: float, period: str, notes: float, how: str) -> None:
    found = workload(ROLLUP, rate)
    stream = change(found.stream, period=Kind(period))
    line = lines(replace(found, stream=stream))["notes of series"]
    assert line[0] == pytest.approx(notes * (1.02 * 0.625e-6 + 2 * 0.125e-6))
    assert line[1] == f"{how}, as many as groups, with 1.02 write units and 2 read units each"
    assert lines(replace(found, stream=change(stream, rollup=()))) == {}
    by_time = change(stream.key, partition_by="time", bucket=Duration(hours=1))
    assert "notes of series" not in lines(replace(found, stream=change(stream, key=by_time)))


def test_events_of_a_provisioned_table_are_read_by_its_units() -> None:
    """An old table may be on demand: events are read of a new one."""
    found = lines(workload(ROLLUP + HOURS, capacity=PROVISIONED))
    dollars, how = found["rollup s-m, reads"]
    assert (
        how
        == "each event, a unit at least for each of 1,000 partition keys per bucket, at the price of its table's provisioned"
        " units, and each bucket: read once, strongly consistent"
    )
    assert dollars == pytest.approx(1_440 * 20_130 / 4096 * MONTH * 0.125e-6)
    assert found["rollup s-h, reads"][1] == "the cells of s-m, and each bucket: read once, strongly consistent"


def test_events_in_packs_are_read_as_they_are_stored() -> None:
    """A pack of a request's hundred events: the first has 500 bytes, the others a quarter, and 130 are the pack's own."""
    packed = replace(workload('pack = { span = "1h" }\n' + ROLLUP), series_per_request=1)
    found = lines(
        replace(
            packed,
            stream=change(packed.stream, key=change(packed.stream.key, partition_by="time", bucket=Duration(hours=1))),
        )
    )
    read = 8_640_000 * 130.05 + 1_440 * 20_130
    assert found["rollup s-m, reads"][0] == pytest.approx(read / 4096 * MONTH * 0.125e-6, rel=2e-3)


def test_a_rollup_is_made_of_the_coarsest_that_has_what_it_needs() -> None:
    found = list_rollups(workload(ROLLUP + QUARTERS + HOURS))
    assert [(rollup.name, rollup.finer) for rollup in found] == [("s-m", ""), ("s-q", "s-m"), ("s-h", "s-q")]


@pytest.mark.parametrize(
    ("rates", "more", "groups"),
    [
        ([1.0] * 12 + [0.5] * 12, ROLLUP, 60),
        (0.01, ROLLUP, 1),
        (0.0, ROLLUP, 1),
        (0.02, ROLLUP, 2),
        (20.0, ROLLUP, 1000),
        (20.0, ROLLUP.replace('["series"]', "[]"), 1),
    ],
)
def test_a_bucket_has_the_groups_of_the_busiest_hours_events_at_the_most(rates: Any, more: str, groups: int) -> None:
    (found,) = list_rollups(workload(more, rates))
    assert found.groups == groups
    assert f"1,440 buckets per day of {groups:,} groups" in lines(workload(more, rates))["rollup s-m, writes"][1]


def test_a_pack_of_cells_has_up_to_64_kb() -> None:
    """3,270 cells of 20 bytes are 65,400, and 130 of the pack: 64 units, and the edge's. Seven more are two packs."""
    rollup = RollupPolicy(name="m", every=Duration(minutes=1), retention=Duration(days=1), fields=("mag",))
    assert size_bucket(rollup, 3_270) == (65_530, 65)
    assert size_bucket(rollup, 3_277) == (65_800, 67)


def test_times_are_kept_of_groups_and_of_fields() -> None:
    """100 cells of 7 + 2 * 7 bytes, and of each of two fields 13 + 2 * 7; 130 bytes of the pack."""
    rollup = RollupPolicy(name="m", every=Duration(minutes=1), retention=Duration(days=1), fields=("a", "b"))
    assert size_bucket(change(rollup, stats=("count", "first_at", "last_at")), 100) == (7_630, 9)


def test_copies_of_a_rollup_are_written_kept_and_sent() -> None:
    load = workload(ROLLUP, capacity=ON_DEMAND)
    copied = replace(load, stream=workload('replicas = ["eu-west-1", "us-west-2"]\n' + ROLLUP).stream)
    plain, found = lines(load), lines(copied)
    assert "rollup s-m, copies" not in plain
    dollars, how = found["rollup s-m, copies"]
    assert how == "writes, storage and transfer: eu-west-1, us-west-2"
    # Two copies; 1,440 buckets of 20,130 bytes per day to each, at $0.02 per GB.
    each = plain["rollup s-m, writes"][0] + plain["rollup s-m, storage"][0] + 1_440 * 20_130 * MONTH / 1e9 * 0.02
    assert dollars == pytest.approx(2 * each)
    assert {name: found[name] for name in plain} == plain


@pytest.mark.parametrize(
    ("feed", "rates", "capacity", "calls", "how"),
    [
        (FEED, 100.0, ON_DEMAND, 14_400, "10.51 M calls: assumed 4 shards with a call per window of 1 s"),
        (FEED, 100.0, PROVISIONED, 3_600, "2.63 M calls: assumed 1 shard with a call per window of 1 s"),
        # Half of the day: 7,200 calls per hour on average.
        (FEED, [100.0] * 12 + [0.0] * 12, ON_DEMAND, 7_200, "5.26 M calls: assumed 4 shards with a call per window of 1 s"),
        (FEED, 0.5, ON_DEMAND, 1_800, "1.31 M calls: assumed 4 shards with a call per window of 1 s"),
        (FEED, 1000.0, ON_DEMAND, 36_000, "26.28 M calls: assumed 4 shards with a call per window of 1 s"),
        (
            FEED.replace(" }", ', window = "0s" }'), 100.0, ON_DEMAND, 57_600,
            "42.05 M calls: assumed 4 shards with a call per window of 0.25 s",
        ),
        (
            FEED.replace(" }", ", parallel = 2 }"), 100.0, PROVISIONED, 7_200,
            "5.26 M calls: assumed 1 shard with 2 calls per window of 1 s",
        ),
        # The hundred events of a request and series are a pack, which is one record.
        (
            FEED + 'pack = { span = "1h" }\n', 100.0, ON_DEMAND, 3_600,
            "2.63 M calls: assumed 4 shards with a call per window of 1 s",
        ),
    ],
)  # fmt: skip
def test_a_feed_has_a_call_per_batch_and_window_of_a_shard(
    feed: str, rates: Any, capacity: str, calls: int, how: str
) -> None:
    """A batch has 100 records. Calls cost $0.20 per million, and 50 ms of half a GB each."""
    ((name, dollars, text),) = price_feed(replace(workload(feed, rates, capacity), series_per_request=1))
    assert (name, text) == ("feed, function", f"{how}, 50 ms at 512 MB each")
    assert dollars == pytest.approx(calls * 730 * (0.2e-6 + 0.025 * 0.0000133334))
    assert not list(price_feed(workload("", rates, capacity)))


@pytest.mark.parametrize(
    ("changes", "size", "units"),
    [
        # 1,000 cells: 7 bytes each, and 13 per field, and 13 more for its first or last, and 42 for its percentiles.
        ({"fields": ()}, 7_130, 8),
        ({"fields": ("a", "b")}, 33_130, 34),
        ({"stats": ("first",)}, 33_130, 34),
        ({"stats": ("last", "max")}, 33_130, 34),
        ({"stats": ("first", "last")}, 46_130, 47),
        ({"stats": ("percentiles",)}, 62_130, 62),
        ({"stats": ("percentiles",), "fields": ("a", "b")}, 117_260, 117),
    ],
)
def test_a_cell_has_the_bytes_of_its_fields_and_statistics(changes: Any, size: int, units: int) -> None:
    known = {"name": "m", "every": Duration(minutes=1), "retention": Duration(days=1), "fields": ("mag",)}
    assert size_bucket(RollupPolicy(**(known | changes)), 1000) == (size, units)
