"""The lines of the last periods and of ``latest``, calculated by hand: a month has 730 hours, that is 30.4167 days.

$0.625 and $0.125 per million write and read units; a worker's call of 100 ms with 1.7275 GB is $0.0000025034; a request of
``latest`` is $3.50 per million at the gateway and $0.00000060 at the function, 30 ms with 1 GB.
"""

from dataclasses import replace
from typing import Any

import pytest

from bill.last_events import price_last_periods, price_latest
from bill.workload import Workload
from tidetable.config import parse

ROLLUP = '[[streams.s.rollup]]\nname = "h"\nevery = "1h"\nretention = "9d"\n'
BY_SERIES = 'key = { partition_by = "series", shards = 2 }\n'
PACKS = 'key = { partition_by = "time", bucket = "1h", shards = 4, shard_by = "series" }\npack = { span = "1m" }\n'
BY_TIME = 'key = { partition_by = "time", bucket = "1h" }\n'
ON_DEMAND = 'capacity = { mode = "on-demand" }\n'
UNITS = 'capacity = { mode = "provisioned", ladder = [{ age = 0, write = 5, read = 5 }] }\n'


def make_workload(text: str, period: str = "hour", retention: int = 100, **changes: Any) -> Workload:
    """One event of 1,000 bytes per second, of up to 1,000 series."""
    head = f'[streams.s]\nperiod = "{period}"\nlate = "1h"\nretention = {retention}\n'
    stream = parse(head + text).streams["s"]
    return replace(Workload([1.0] * 24, 1_000, 0.0, 4_096, 0.0, stream, groups=1_000, packed_bytes=100.0), **changes)


@pytest.mark.parametrize(
    ("text", "period", "dollars"),
    [
        # 1,000 series are 4 slots of 250 pairs, 3,060 bytes each: 12 write units, and one of the record. 4 read units of
        # slots, and 4.8 of notes. 730 hours: 9,490 write and 6,424 read units.
        (BY_SERIES + ROLLUP, "hour", 0.00593125 + 0.000803),
        (BY_SERIES + ROLLUP, "day", (0.00593125 + 0.000803) / 24),
        # The table has 3,600 events of 1,000 bytes, 879 read units, less than the 6,000 of all pages: 4 and 878.9 per hour
        # are 644,522. 1,460 calls with 5 read and 5 write units each.
        (BY_SERIES + ON_DEMAND, "hour", 0.00593125 + 0.08056525 + 0.003655 + 0.0009125 + 0.0045625),
        # Of a day: 2,000 pages of ten items, 3 read units each, are less than the table's 21,094. 30.4167 days, 760.42 calls.
        (BY_SERIES + ON_DEMAND, "day", 0.000247135 + 0.0228277 + 0.00190363 + 0.00047526 + 0.0023763),
        # A provisioned table is read by its own units.
        (BY_SERIES + UNITS, "hour", 0.00593125 + 0.000365 + 0.003655 + 0.0009125 + 0.0045625),
        (BY_TIME, "hour", None),
    ],
)
def test_the_last_periods_of_series(text: str, period: str, dollars: float | None) -> None:
    lines = price_last_periods(make_workload(text, period))
    assert [line.dollars for line in lines] == ([] if dollars is None else [pytest.approx(dollars, rel=1e-3)])


def test_with_late_events_each_table_is_read_once_more() -> None:
    """Two units more for the mark: 15 write units, and twice 878.9 read units beside the 4 of slots. 2,190 calls."""
    (line,) = price_last_periods(make_workload(BY_SERIES + ON_DEMAND, late_share=0.1))
    assert line.dollars == pytest.approx(0.00684375 + 0.16076545 + 0.0054825 + 0.00136875 + 0.00684375, rel=1e-3)


def test_a_line_says_what_is_read_and_written() -> None:
    (line,) = price_last_periods(make_workload(BY_SERIES + ROLLUP))
    how = "730.0 periods per month of 1,000 series: 13 write units, and 9 read units of notes and slots, each; 0 calls"
    assert (line.name, line.how) == ("last periods", how)


def test_packs_are_read_whole() -> None:
    """A pack per second of one event, of 239 bytes: 3,600 of them are 860,400 bytes, 210 read units, and 4 slots."""
    workload = make_workload(PACKS + ON_DEMAND, batch=1)
    assert workload.stored_bytes == pytest.approx(239, abs=0.5)
    (line,) = price_last_periods(workload)
    assert "13 write units, and 214 read units of the table and slots, each; 1,460 calls" in line.how
    assert price_last_periods(make_workload(PACKS + ON_DEMAND, retention=20)) == []


@pytest.mark.parametrize(
    ("text", "retention", "how"),
    [
        (BY_SERIES + ON_DEMAND + ROLLUP, 100, "2 tables with 400 requests, 305.0"),
        (BY_SERIES + ON_DEMAND, 100, "2 tables with 400 requests, 305.0"),
        # 21 tables and more: 2,000 requests are ten tables of 100 series in two shards.
        (BY_SERIES + ON_DEMAND, 20, "10 tables with 2,000 requests, 1,000.0"),
        (BY_SERIES + ON_DEMAND, 2, "5 tables with 1,000 requests, 500.0"),
        # The tables' own units pay for them.
        (BY_SERIES + UNITS, 100, "2 tables with 400 requests, 105.0"),
        # A shard of an hour has 215,000 bytes: 26.3 units, in each of two tables and four shards.
        (PACKS + ON_DEMAND, 100, "2 tables with 8 requests, 315.1"),
    ],
)
def test_requests_for_the_latest_events_of_silent_series(text: str, retention: int, how: str) -> None:
    workload = make_workload(text, retention=retention, batch=1)
    assert price_latest(workload) == []
    (line,) = price_latest(replace(workload, latest=0.5))
    assert f"1.31 M requests for 100 silent series: {how} read units, and the call" == line.how
    units = float(how.rpartition(" ")[2].replace(",", ""))
    # 1,314,000 requests.
    assert line.dollars == pytest.approx(1.314 * (3.5 + 0.6 + units * 0.125), rel=1e-3)


def test_with_late_events_the_tables_of_the_hours_of_late_are_searched() -> None:
    workload = make_workload(BY_SERIES + ON_DEMAND, late_share=0.1, latest=0.5)
    (line,) = price_latest(workload)
    assert "3 tables with 600 requests, 405.0 read units" in line.how
