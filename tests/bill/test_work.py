"""The price of work in the background, by hand: $0.20 per million calls, $0.40 per million requests to SQS, AWS's units."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bill import prices
from bill.amounts import Line
from bill.rolled import list_rollups
from bill.work import price_late_events, price_scheduler, price_workers
from bill.workload import Workload
from tests.lifecycle.world import configuration
from tidetable.config import parse

ON_DEMAND = 'mode = "on-demand"'
PACK = 'pack = { span = "1h" }\n'
ROLLUP = """
[[streams.s.rollup]]
name = "m"
every = "1m"
by = ["series"]
fields = ["mag"]
retention = "30d"
"""
HOURS = ROLLUP.replace('"m"', '"h"').replace('"1m"', '"1h"')
# A second of a worker: 1,769 MB at $0.0000133334 per GB.
SECOND = 1769 / 1024 * 0.0000133334
WRITE, READ = 0.625e-6, 0.125e-6
# A part of a stream by series, with 1,000 cells of 20,130 bytes, reads the notes of 1,000 series: 4.5 read units.
PART = (3 + 4.5 + 20_130 / 4096) * READ + (5 + 2 * 20_130 / 1024) * WRITE
# Of 100 events per second, in 730 hours.
EVENTS = 262_800_000
RESULTS = json.loads((Path(__file__).parents[2] / "bench" / "results.json").read_text())


def workload(more: str, rate: float = 100.0, **facts: Any) -> Workload:
    """Events of 500 bytes of 1,000 series."""
    stream = configuration(capacity=ON_DEMAND, more=more).streams["s"]
    return replace(Workload([rate] * 24, 500, 0.0, 4096, 0.0, stream, groups=1000), **facts)


def price(found: Workload) -> Line:
    return price_workers(found, list_rollups(found))


def test_a_worker_is_called_per_bucket_reads_each_event_once_and_makes_the_cells() -> None:
    """A worker reads four units and one per rollup, writes four, and its message takes two requests."""
    line = price(workload(ROLLUP))
    seconds = 43_800 * 0.1 + EVENTS * 2.0e-6 + 43_800 * 1000 * 28e-6
    assert line.dollars == pytest.approx(43_800 * (1.0e-6 + 5 * READ + 4 * WRITE) + seconds * SECOND)
    assert line.how == (
        "43,800 calls, assumed: 100 ms each; measured: 2.0 microseconds per event and 28 per cell at 1,769 MB; and their"
        " messages, reads and writes"
    )


def test_a_rollup_of_a_rollup_reads_its_cells_and_no_events() -> None:
    """The cells of 43,800 minutes are made, and read for 730 hours, which have as many."""
    seconds = 43_800 * 0.1 + EVENTS * 2.0e-6 + (2 * 43_800 + 730) * 1000 * 28e-6
    assert price(workload(ROLLUP + HOURS)).dollars == pytest.approx(
        43_800 * (1.0e-6 + 6 * READ + 4 * WRITE) + seconds * SECOND
    )


def test_two_rollups_that_read_events_read_each_event_twice() -> None:
    """43,800 minutes and 730 hours of 1,000 cells. An hour has 360,000 events, in four parts."""
    parts = 4 * 730
    seconds = (43_800 + parts) * 0.1 + 2 * EVENTS * 2.0e-6 + (43_800 + 730 + parts) * 1000 * 28e-6
    line = price(workload(ROLLUP + HOURS.replace('["mag"]', '["depth"]')))
    dollars = 43_800 * (1.0e-6 + 6 * READ + 4 * WRITE) + parts * (1.0e-6 + PART) + seconds * SECOND
    assert line.dollars == pytest.approx(dollars)


def test_with_longer_buckets_workers_are_called_less_often() -> None:
    parts = 4 * 730
    seconds = (730 + parts) * 0.1 + EVENTS * 2.0e-6 + (730 + parts) * 1000 * 28e-6
    line = price(workload(HOURS))
    dollars = 730 * (1.0e-6 + 5 * READ + 4 * WRITE) + parts * (1.0e-6 + PART) + seconds * SECOND
    assert line.dollars == pytest.approx(dollars)
    assert line.how.startswith("3,650 calls")


def test_an_event_in_a_pack_takes_less_time() -> None:
    seconds = 43_800 * 0.1 + EVENTS * 1.8e-6 + 43_800 * 1000 * 28e-6
    line = price(workload(PACK + ROLLUP))
    assert line.dollars == pytest.approx(43_800 * (1.0e-6 + 5 * READ + 4 * WRITE) + seconds * SECOND)
    assert "measured: 1.8 microseconds per event" in line.how


BY_TIME = """
[streams.s]
period = "day"
late = "1h"
retention = 10
key = {{ partition_by = "time", bucket = "1h", shards = 8 }}
{}"""


def test_a_long_bucket_is_read_in_parts_whose_cells_are_stored_and_merged() -> None:
    """10,000 events per second: a minute has 600,000, in 6 parts of 1,000 cells. A part takes 3 reads and 5 writes, and its
    20,130 bytes are written, read and removed.
    """
    stream = parse(BY_TIME.format(ROLLUP)).streams["s"]
    found = Workload([10_000.0] * 24, 500, 0.0, 4096, 0.0, stream, groups=1000)
    parts = 43_800 * 6
    calls = 43_800 + parts
    seconds = calls * 0.1 + 100 * EVENTS * 2.0e-6 + calls * 1000 * 28e-6
    reads = 43_800 * 5 + parts * (3 + 20_130 / 4096)
    writes = 43_800 * 4 + parts * (5 + 2 * 20_130 / 1024)
    assert price(found).dollars == pytest.approx(calls * 1.0e-6 + reads * READ + writes * WRITE + seconds * SECOND)
    # 300,000 events are read as a whole.
    assert price(replace(found, events_per_second=[4_999.0] * 24)).how.startswith("43,800 calls")
    assert price(replace(found, events_per_second=[5_001.0] * 24)).how.startswith("219,000 calls")
    # A stream by series has the same parts.
    assert price(workload(ROLLUP, 10_000.0)).how.startswith("306,600 calls")
    # 3,000,000 events of packs are read as a whole.
    packed = BY_TIME.format(ROLLUP).replace("key =", f"{PACK}key =")
    in_packs = replace(found, stream=parse(packed).streams["s"])
    assert price(in_packs).how.startswith("43,800 calls")
    # 3,600,000 events are read in two parts, and each reads the packs of a minute more.
    minute = parse(packed.replace('"1h" }\nkey', '"1m" }\nkey')).streams["s"]
    faster = replace(in_packs, stream=minute, events_per_second=[60_000.0] * 24)
    calls, parts = 43_800 * 3, 43_800 * 2
    seconds = calls * 0.1 + 600 * EVENTS * 1.8e-6 + calls * 1000 * 28e-6
    reads = 43_800 * 5 + parts * (3 + 3_600_000 * faster.stored_bytes / 4096 + 20_130 / 4096)
    writes = 43_800 * 4 + parts * (5 + 2 * 20_130 / 1024)
    assert price(faster).dollars == pytest.approx(calls * 1.0e-6 + reads * READ + writes * WRITE + seconds * SECOND)


@pytest.mark.parametrize(
    ("name", "constant"),
    [
        ("sealing_microseconds_per_event", prices.SEALED_EVENT_SECONDS),
        ("packed_sealing_microseconds_per_event", prices.SEALED_PACKED_SECONDS),
        ("sealing_microseconds_per_cell", prices.CELL_SECONDS),
    ],
)
def test_the_times_of_a_worker_are_those_that_the_benches_measured_rounded_up(name: str, constant: float) -> None:
    assert RESULTS[name] <= constant * 1e6 <= 1.5 * RESULTS[name]


def test_without_late_events_nothing_is_added() -> None:
    found = workload(ROLLUP)
    assert price_late_events(found, list_rollups(found)) == []


@pytest.mark.parametrize(("more", "rollups"), [(ROLLUP, 1), (ROLLUP + HOURS, 2)])
def test_a_new_late_event_is_written_by_a_transaction_with_its_mark_and_added_to_its_cells(
    more: str, rollups: int
) -> None:
    """With one rollup 9 write units with its own: 2 for the event, 2 for the mark, 2 to change and 1 to remove it, 2 for the
    cell. It is read by its key, and the 20,130 bytes of each bucket are read.
    """
    found = workload(more, late_share=0.01)
    (line,) = price_late_events(found, list_rollups(found))
    late = 0.01 * EVENTS
    assert line.dollars == pytest.approx(late * ((6 + 2 * rollups) * WRITE + (1 + 5 * rollups) * READ))
    assert line.how == (
        f"2,628,000 new late events, {6 + 2 * rollups} write units each besides their own: each is added to its cells"
    )


def test_a_large_late_event_takes_each_of_its_units_twice() -> None:
    """Two units of 1,500 bytes."""
    found = workload(ROLLUP, late_share=0.01, event_bytes=1_500)
    (line,) = price_late_events(found, list_rollups(found))
    assert line.dollars == pytest.approx(0.01 * EVENTS * (9 * WRITE + 6 * READ))


def test_a_late_event_in_a_pack_has_its_bucket_computed_anew_at_most_so_often() -> None:
    """`late` is 1 h, so a bucket is computed anew 5 times at the most; 6,000 events of 130.05 bytes, and a cell of a unit."""
    found = workload(PACK + ROLLUP, series_per_request=1)
    bucket = 6_000 * found.stored_bytes / 4096 + 5
    late_hours = found.stream.late.total_seconds() / 3600
    for share, anew in ((1e-5, 2_628.0), (0.01, 43_800 * (4 + late_hours))):
        late = share * EVENTS
        (line,) = price_late_events(replace(found, late_share=share), list_rollups(found))
        each = bucket * READ + WRITE + 6_000 * 1.8e-6 * SECOND
        assert line.dollars == pytest.approx(late * 2 * WRITE + anew * each)
        assert line.how.endswith(f"up to {anew:,.0f} buckets are computed anew, and read once more")


STREAM = '[streams.{0}]\nperiod = "day"\nlate = "1h"\nretention = 5\nkey = {{ partition_by = "series" }}\n'


@pytest.mark.parametrize("count", [1, 3])
def test_the_scheduler_looks_every_minute_also_while_nothing_happens(count: int) -> None:
    """Four reads and the lease, and a read per stream with rollups; 5 ms each and 100 ms of 1.728 GB."""
    rollup = '[[streams.{0}.rollup]]\nname = "h"\nevery = "1h"\nretention = "9d"\n'
    config = parse("".join((STREAM + rollup).format(f"s{number}") for number in range(count)) + STREAM.format("plain"))
    (line,) = price_scheduler(config)
    seconds = 0.1 + (5 + count) * 0.005
    assert line.name == "scheduler"
    assert line.dollars == pytest.approx(43_800 * (0.2e-6 + seconds * SECOND + (4 + count) * READ + WRITE))
    assert line.how == (
        f"a run per minute of {5 + count} requests, one of them per stream that it looks at; assumed: {seconds * 1000:.0f} ms"
    )


def test_a_stage_without_rollups_has_no_scheduler() -> None:
    assert price_scheduler(parse(STREAM.format("s"))) == []
