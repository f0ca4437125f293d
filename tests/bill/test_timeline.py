"""The days of a stream from an empty start: tables, units and prices, calculated by hand from AWS's price list."""

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec.structs import replace

from bill import table_bill
from bill.amounts import Bill, TableCost
from bill.table_bill import price_rolling
from bill.timeline import Day, list_days
from bill.workload import Workload, spread_by_hour
from tests.lifecycle.world import configuration
from tidetable.config import Stream

START = datetime(2026, 6, 1, 12, tzinfo=UTC)
ON_DEMAND = 'mode = "on-demand"'
INDEXES = (
    '[[streams.s.index]]\nname = "status"\npartition_by = "status"\n'
    '[[streams.s.index]]\nname = "near"\nlocal = true\nsort_by = "ms"\n'
)
LADDER = (
    'mode = "provisioned"\nladder = [{ age = 0, write = 100, read = 10, index = { status = { write = 50, read = 5 } } }, '
    '{ age = 1, write = 1, read = 1 }, { age = 2, write = 1, read = 1, class = "infrequent-access" }]'
)


def make_stream(**changes: Any) -> Stream:
    return configuration(**{"late": "1h", "retention": 2, "premake": 1} | changes).streams["s"]


def days_of(stream: Stream, *args: Any, start: datetime = START, **options: Any) -> list[Day]:
    return list(list_days(stream, start, *args, **options))


def count(day: Day) -> tuple[int, ...]:
    return day.ahead, day.open, day.late, day.closed, day.write, day.read, day.infrequent


def test_a_day_counts_the_units_of_tables_and_indexes_and_their_price() -> None:
    """A local index has no units of its own. The table ahead stands by with a unit each, and so does its index."""
    first, _, _, last = days_of(make_stream(capacity=LADDER, more=INDEXES), 3)
    assert count(first) == (1, 1, 0, 0, 152, 17, 0)
    assert first.dollars == pytest.approx(24 * (152 * 0.00065 + 17 * 0.00013))
    # The tables of the two days before are closed; the older one is in the class whose units cost a quarter more.
    assert count(last) == (1, 1, 0, 2, 156, 21, 1)
    assert last.dollars == pytest.approx(24 * (154 * 0.00065 + 19 * 0.00013 + 2 * (0.00065 + 0.00013) * 1.25))
    assert (first.tables, last.tables) == (2, 4)


def test_units_are_paid_for_in_each_region_and_counted_in_one() -> None:
    alone = make_stream(capacity=LADDER, more=INDEXES)
    copied = replace(alone, replicas=("eu-west-1", "us-west-2"))
    (day,) = (day for day in days_of(copied, 0))
    own = day.write * 0.00065 + day.read * 0.00013
    assert day.write >= 100
    assert day.dollars == pytest.approx(3 * 24 * own)


def test_every_second_day_and_the_last_are_shown() -> None:
    found = days_of(make_stream(capacity=ON_DEMAND), 5, every=2)
    assert [(day.at - START).days for day in found] == [0, 2, 4, 5]


def test_a_table_is_open_until_it_closes_and_from_its_first_event_on() -> None:
    """An event of five minutes in the future is taken, and one that is an hour old to the second."""
    stream = make_stream(capacity=ON_DEMAND)
    _, day = days_of(stream, 1, start=START.replace(hour=1))
    assert count(day)[:4] == (1, 2, 0, 0)
    _, day = days_of(stream, 1, start=START.replace(hour=1, second=1))
    assert count(day)[:4] == (1, 1, 0, 1)
    (early,) = days_of(stream, 0, start=START.replace(hour=23, minute=54))
    (late,) = days_of(stream, 0, start=START.replace(hour=23, minute=56))
    assert (count(early)[:2], count(late)[:2]) == ((1, 1), (1, 2))


def test_a_day_with_a_workload_has_the_price_of_its_hours() -> None:
    """An event of 1,000 bytes per second: 86,400 write units at $0.625 per million, and what is stored at $0.25 per GB."""
    stream = make_stream(capacity=ON_DEMAND)
    workload = Workload(spread_by_hour(1.0, None), 1000, 0.0, 4096, 0.0, stream)
    days = [day.dollars for day in days_of(stream, 2, workload)]
    # Of the first day 0 to 23 hours of 3.6 MB are stored, of the second 1 to 24 hours, and of the third 25 to 48.
    hours = [sum(range(24)), sum(range(1, 25)), sum(range(25, 49))]
    each = 0.0036 * 0.25 / 730
    assert days == pytest.approx([0.054 + own * each for own in hours], abs=1e-9)


def test_a_table_of_before_the_start_is_not_paid_for() -> None:
    ladder = 'mode = "provisioned"\nladder = [{ age = 0, write = 10, read = 10 }]'
    stream = make_stream(capacity=ladder)
    workload = Workload(spread_by_hour(0.0, None), 1000, 0.0, 4096, 0.0, stream)
    (first,) = days_of(stream, 0, workload)
    # From noon to noon: ten units of the first table, of the second half a day of one and half of ten, and one of the third.
    units = 24 * 10 + 12 * 1 + 12 * 10 + 12 * 1
    assert first.dollars == pytest.approx(units * (0.00065 + 0.00013))


@pytest.mark.parametrize(("period", "hours"), [("hour", 24), ("day", 24), ("week", 168), ("month", 744)])
def test_a_month_is_priced_by_the_middle_of_each_hour_until_tables_repeat(
    period: str, hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Any = []
    monkeypatch.setattr(table_bill, "price_hour", lambda _, at: seen.append(at) or Bill(TableCost(1.0)))
    stream = make_stream(period=period, capacity=ON_DEMAND)
    bill = price_rolling(Workload([0.0] * 24, 100, 0.0, 4096, 0.0, stream))
    assert (seen[0], len(seen)) == (datetime(2026, 6, 1, 0, 30, tzinfo=UTC), hours)
    assert (seen[-1] - seen[0]).total_seconds() == 3600 * (hours - 1)
    assert bill.total == pytest.approx(730)


COLD = f'{ON_DEMAND}\nladder = [{{ age = 0 }}, {{ age = 1, class = "infrequent-access" }}]'


@pytest.mark.parametrize(
    ("period", "dollars"),
    [
        # A day ago: its table closed long ago.
        ("hour", 0.40734),
        # The week before, which is open for an hour of late events.
        ("week", (167 * 0.40734 + 0.3285) / 168),
    ],
)
def test_queries_of_old_events_read_yesterday_or_the_period_before(period: str, dollars: float) -> None:
    """2.628 million units per month, at $0.155 in the class of old tables and at $0.125 in that of new ones."""
    stream = make_stream(period=period, retention=30, capacity=COLD)
    bill = price_rolling(Workload(spread_by_hour(0.0, None), 700, 0.0, 4096, 2.0, stream))
    assert bill.tables.reads == pytest.approx(dollars)
