"""Copies in other Regions: their lines, what no line prices, and the copies of single tables, calculated by hand."""

from dataclasses import replace

import pytest

from bill.amounts import Bill, TableCost
from bill.copied import list_copies, name_unpriced_copies
from bill.table_bill import price_one_on_demand, price_one_provisioned, price_rolling
from bill.workload import Workload, spread_by_hour
from bill.workload_bill import name_unpriced, price_lines
from tests.lifecycle.world import configuration

TWO = 'replicas = ["eu-west-1", "ap-northeast-1"]\n'
BILL = Bill(TableCost(1.0, 2.0, 3.0), TableCost(4.0, 5.0, 6.0), TableCost(7.0, 8.0, 9.0), transfer=0.5)


def workload(more: str = TWO) -> Workload:
    """Two events of 700 bytes per second, three queries of 8 KB, and one of old events."""
    stream = configuration(capacity='mode = "on-demand"', late="1h", more=more).streams["s"]
    return Workload(spread_by_hour(2.0, None), 700, 3.0, 8192, 1.0, stream)


def test_copies_have_a_line_for_each_kind_of_cost() -> None:
    lines = list_copies(BILL, ["eu-west-1", "ap-northeast-1", "eu-west-1"])
    assert lines == [
        ("copies, writes", 7.0, "each write of tables and indexes once more in ap-northeast-1, eu-west-1"),
        ("copies, reads", 8.0, "the provisioned read units of each copy"),
        ("copies, storage", 9.0, "the same bytes and the same class as in the Region of the stage"),
        # $0.50 at $0.02 per GB.
        ("copies, transfer", 0.5, "25.00 GB per month between Regions at $0.02"),
    ]
    on_demand = list_copies(Bill(copies=TableCost(7.0)), ["eu-west-1"])
    assert [name for name, *_ in on_demand] == ["copies, writes", "copies, storage", "copies, transfer"]
    assert list_copies(BILL, []) == []


def test_a_bill_of_a_stream_has_the_lines_of_its_copies_and_names_what_they_lack() -> None:
    names = [line.name for line in price_lines(workload(), BILL)]
    assert names[3:7] == ["copies, writes", "copies, reads", "copies, storage", "copies, transfer"]
    prices, readers, catalog = name_unpriced_copies(workload().stream.replicas)
    assert prices.startswith("the prices of ap-northeast-1, eu-west-1: ")
    assert (readers.startswith("the readers of the copies"), catalog.startswith("the catalog's copies")) == (True, True)
    assert name_unpriced(workload())[-3:] == [prices, readers, catalog]
    assert name_unpriced_copies([]) == []
    assert not [line.name for line in price_lines(workload(""), BILL) if line.name.startswith("copies")]


def test_one_table_on_demand_is_written_and_kept_in_each_region_and_read_in_one() -> None:
    bill = price_one_on_demand(workload())
    # 5.256 million events in 730 hours at $0.625; 864,000 events of 700 bytes at $0.25 per GB; 3.6792 GB at $0.02.
    assert (bill.tables.writes, bill.copies.writes) == pytest.approx((3.285, 2 * 3.285))
    assert (bill.tables.storage, bill.copies.storage) == pytest.approx((0.1512, 2 * 0.1512))
    # 10.512 million queries of a unit at $0.125.
    assert (bill.tables.reads, bill.copies.reads) == pytest.approx((1.314, 0))
    assert bill.transfer == pytest.approx(2 * 3.6792 * 0.02)


def test_one_provisioned_table_has_its_units_in_each_region() -> None:
    bill = price_one_provisioned(workload())
    # Two write units at $0.00065 and four read units at $0.00013, for 730 hours.
    assert (bill.tables.writes, bill.copies.writes) == pytest.approx((0.949, 2 * 0.949))
    assert (bill.tables.reads, bill.copies.reads) == pytest.approx((0.3796, 2 * 0.3796))
    assert bill.transfer == pytest.approx(2 * 3.6792 * 0.02)


def test_rolling_tables_on_demand_are_written_in_each_region_and_read_in_one() -> None:
    bill, alone = price_rolling(workload()), price_rolling(workload(""))
    assert (bill.tables.writes, bill.copies.writes) == pytest.approx((3.285, 2 * 3.285))
    assert (bill.tables.reads, bill.copies.reads) == pytest.approx((1.314, 0))
    assert bill.copies.storage == pytest.approx(2 * bill.tables.storage)
    assert bill.transfer == pytest.approx(2 * 3.6792 * 0.02)
    assert (alone.copies.writes, alone.copies.storage, alone.transfer) == (0, 0, 0)


def test_packs_are_sent_to_the_other_regions_as_they_are_stored() -> None:
    """A pack of a request's hundred events: the first has 700 bytes, the others a quarter, and 130 are the pack's own."""
    bill = price_rolling(replace(workload(TWO + 'pack = { span = "1h" }\n'), series_per_request=1))
    assert bill.transfer == pytest.approx(2 * 5.256e6 * 181.55 / 1e9 * 0.02, rel=2e-3)
