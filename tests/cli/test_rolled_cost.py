"""`cost` of rollups and feeds: prices are calculated by hand here, from AWS's price list."""

import json
from pathlib import Path

import pytest

from bill.rolled import size_bucket
from tests.worlds.commands import run
from tidetable.config.stream import RollupPolicy
from tidetable.durations import Duration

STREAM = """
[streams.s]
period = "day"
late = "1h"
retention = 10
key = { partition_by = "time", bucket = "6h" }
"""
FEED = 'feed = { targets = ["arn:aws:sqs:eu-central-1:123456789012:changes"] }\n'
MINUTES = """
[[streams.s.rollup]]
name = "m"
every = "1m"
by = ["series"]
fields = ["mag"]
retention = "30d"
"""
HOURS = MINUTES.replace('"m"', '"h"').replace("1m", "1h").replace("30d", "730d")
LOAD = ("--rate", "100", "--bytes", "500", "--reads", "0", "--groups", "1000")
# Days of a month of 730 hours.
MONTH = 730 / 24


def lines_of(file: Path, text: str, *words: str) -> dict[str, float]:
    file.write_text(text)
    result = run("cost", str(file), *words, "--json")
    assert result.exit_code == 0, result.output
    return {line["name"]: line["dollars"] for line in json.loads(result.stdout)["lines"]}


def rollup(groups: int, **changes: object) -> tuple[float, float]:
    policy = {"name": "h", "every": Duration(hours=1), "retention": Duration(days=1), "fields": ("mag",)} | changes
    return size_bucket(RollupPolicy(**policy), groups)  # type: ignore[arg-type]


def test_a_bucket_is_its_cells_in_packs_of_64_kb_and_its_edge() -> None:
    # 7 bytes per cell and 13 per field, and 130 of the pack: 20,130 bytes are 20 units, and one is the edge's.
    assert rollup(1000) == (20_130, 21)
    assert rollup(1000, fields=()) == (7_130, 8)
    assert rollup(1000, stats=("first", "last")) == (46_130, 47)
    assert rollup(1000, stats=("percentiles",), fields=("a", "b")) == (117_260, 117)
    # 200,000 bytes are four packs of 50,130 bytes, of 49 units each.
    assert rollup(10_000) == (200_520, 197)
    assert rollup(1, fields=()) == (137, 2)


def test_the_lines_of_rollups_are_what_the_price_list_says(file: Path) -> None:
    found = lines_of(file, STREAM + MINUTES + HOURS, *LOAD)
    # 1,440 buckets per day of 21 units at $0.625 per million.
    assert found["rollup s-m, writes"] == pytest.approx(1_440 * 21 * MONTH * 0.625e-6, rel=1e-3)
    # 8.64 million events of 500 bytes, and the cells that are there: 1,061,764 units of 4 KB per day at $0.125 per million.
    assert found["rollup s-m, reads"] == pytest.approx(1_061_764 * MONTH * 0.125e-6, rel=1e-3)
    # 29 MB per day, for 30 days and half of the present one, at $0.25 per GB.
    assert found["rollup s-m, storage"] == pytest.approx(0.028987 * 30.5 * 0.25, rel=1e-2)
    assert found["rollup s-h, writes"] == pytest.approx(24 * 21 * MONTH * 0.625e-6, rel=1e-3)
    # An hour is made of 60 minutes' cells, and its own are looked at: 61 times 20,130 bytes are 299.8 units.
    assert found["rollup s-h, reads"] == pytest.approx(299.8 * 730 * 0.125e-6, rel=1e-3)
    # 43,800 calls at $0.20 per million and 0.1 s of 1.728 GB; 262.8 million events of 2.0 microseconds, and 1,000 cells of 28 in
    # 43,800 minutes, which are read once more, and in 730 hours; six reads, four writes and two requests to SQS per worker.
    seconds, units = 4_380 + 525.6 + 2_473.1, 43_800 * (6 * 0.125e-6 + 4 * 0.625e-6 + 2 * 0.4e-6)
    runs = 43_800 * 0.2e-6
    assert found["workers"] == pytest.approx(runs + seconds * 1769 / 1024 * 0.0000133334 + units, rel=1e-3)


def test_a_rollup_that_no_other_can_be_made_of_reads_the_events(file: Path) -> None:
    found = lines_of(file, STREAM + MINUTES + HOURS.replace('["mag"]', '["depth"]'), *LOAD)
    assert found["rollup s-h, reads"] == pytest.approx((1_054_687.5 + 24 * 20_130 / 4096) * MONTH * 0.125e-6, rel=1e-3)


def test_events_of_a_provisioned_table_are_read_by_the_units_that_it_has(file: Path) -> None:
    provisioned = (
        STREAM + '[streams.s.capacity]\nmode = "provisioned"\nladder = [{ age = 0, write = 100, read = 200 }]\n'
    )
    found = lines_of(file, provisioned + MINUTES, *LOAD)
    assert found["rollup s-m, reads"] == pytest.approx(1_440 * 20_130 / 4096 * MONTH * 0.125e-6, rel=1e-3)


def test_a_bucket_has_no_more_groups_than_events_and_one_without_by(file: Path) -> None:
    few = lines_of(file, STREAM + MINUTES, "--rate", "0.5", "--reads", "0", "--groups", "1000")
    # 30 events a minute: 30 cells are 730 bytes, one unit and the edge's.
    assert few["rollup s-m, writes"] == pytest.approx(1_440 * 2 * MONTH * 0.625e-6, rel=1e-3)
    ungrouped = lines_of(file, STREAM + MINUTES.replace('["series"]', "[]"), *LOAD)
    assert ungrouped["rollup s-m, writes"] == pytest.approx(1_440 * 2 * MONTH * 0.625e-6, rel=1e-3)


@pytest.mark.parametrize(
    ("feed", "rate", "calls"),
    [
        # Four shards, a call per second each, as their batches of 100 are not full before.
        (FEED, "100", 14_400),
        (FEED.replace(" }", ', window = "10s" }'), "100", 3_600),
        # A call takes 100 records.
        (FEED, "1000", 36_000),
        # Fewer events than windows: each has a call.
        (FEED, "1", 3_600),
        # Without a window Lambda looks four times per second.
        (FEED.replace(" }", ', window = "0s" }'), "100", 57_600),
        # The 100 events of a request are one pack.
        (FEED + 'pack = { span = "1m" }\n', "100", 3_600),
    ],
)
def test_the_feeds_function_is_called_per_batch_and_window(file: Path, feed: str, rate: str, calls: int) -> None:
    found = lines_of(file, STREAM + feed, "--rate", rate, "--reads", "0")
    # Calls per hour at $0.20 per million, and 50 ms of half a GB.
    assert found["feed, function"] == pytest.approx(calls * 730 * (0.2e-6 + 0.025 * 0.0000133334), rel=1e-3)


def test_a_stream_without_them_has_no_lines_of_rollups_and_feeds(file: Path) -> None:
    found = lines_of(file, STREAM, *LOAD)
    assert not [name for name in found if name.startswith(("rollup", "refresher", "feed"))]
    file.write_text(STREAM)
    assert "feed" not in run("cost", str(file), *LOAD).output


def test_what_is_left_out_of_their_price_is_listed(file: Path) -> None:
    file.write_text(STREAM + FEED + MINUTES)
    shown = run("cost", str(file), *LOAD).output
    assert "not priced: the targets of the feed" in shown
    assert "not priced: the rollups' archives" in shown


def test_the_days_of_rollups_are_priced(file: Path) -> None:
    file.write_text(STREAM + MINUTES)
    result = run("cost", str(file), "--days", "40", *LOAD, "--json")
    assert result.exit_code == 0, result.output
    days = json.loads(result.stdout)["days"]["s-m"]
    # The writes and reads of a day; and on the 41st day 0.87 to 0.9 GB are there, of 30 days and the present one.
    day = 1_440 * 21 * 0.625e-6 + 1_061_764 * 0.125e-6
    assert days[0]["dollars"] == pytest.approx(day, rel=0.01)
    assert days[40]["dollars"] - day == pytest.approx(0.028987 * 30.5 * 0.25 / MONTH, rel=0.05)
