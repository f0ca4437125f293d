"""A month of rolling tables is priced by the hours after which the tables repeat."""

from datetime import UTC, datetime, timedelta

import pytest

from bill.amounts import Bill
from bill.table_bill import price_hour, price_rolling
from bill.workload import Workload, spread_by_hour
from tests.lifecycle.world import configuration

LADDER = (
    'mode = "provisioned"\nladder = [{ age = 0, write = 9, read = 9 }, { age = "late", write = 2, read = 9 }, '
    '{ age = 1, write = 1, read = 3 }, { age = 3, write = 1, read = 3, class = "infrequent-access" }]'
)


@pytest.mark.parametrize("capacity", [LADDER, 'mode = "on-demand"'])
@pytest.mark.parametrize(("period", "late", "hours"), [("hour", "90m", 72), ("day", "36h", 72), ("week", "2d", 504)])
def test_a_longer_look_finds_nothing_else(period: str, late: str, hours: int, capacity: str) -> None:
    stream = configuration(period=period, late=late, retention="4", capacity=capacity).streams["s"]
    workload = Workload(spread_by_hour(3, 1), 700, 2.0, 8192, 0.5, stream)
    start, whole = datetime(2026, 6, 10, 5, 30, tzinfo=UTC), Bill()
    for hour in range(hours):
        whole += price_hour(workload, start + timedelta(hours=hour))
    assert price_rolling(workload).total == pytest.approx((whole * (730 / hours)).total)
