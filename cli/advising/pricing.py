"""The monthly price of a policy under a workload. In the advice, only this module computes bills."""

from __future__ import annotations

from bill.prices import HOURS, ON_DEMAND, PROVISIONED
from bill.table_bill import price_month
from bill.workload import Workload
from tidetable.config import TableClass
from tidetable.periods import Kind

__all__ = ["Workload", "price", "price_reads"]

# The bill repeats after this number of days. A month of 30 days is enough for advice; `cost` prices 31 days.
_CYCLE_DAYS = {Kind.HOUR: 1, Kind.DAY: 1, Kind.WEEK: 7, Kind.MONTH: 30}


def price(workload: Workload) -> float:
    """Dollars per month of the rolling tables of a workload: units, requests and storage at DynamoDB."""
    return price_month(workload, 24 * _CYCLE_DAYS[workload.stream.period]).total


def price_reads(units_per_second: float, *, on_demand: bool) -> float:
    """Dollars per month of read units in the class standard, if 70 percent of provisioned units are used."""
    if on_demand:
        return units_per_second * HOURS * 3600 * ON_DEMAND[TableClass.STANDARD].read
    return units_per_second / 0.7 * PROVISIONED[TableClass.STANDARD].read * HOURS
