"""The costs of tables beside their units, and the discounts on units, by hand: a month has 730 hours."""

from datetime import timedelta
from typing import Any

import pytest

from bill.consumed import ConsumedUnits
from bill.workload_bill import compute_whole_bill
from tests.worlds.billed import INDEX, NOON, TODAY, YESTERDAY, BilledStage, table
from tests.worlds.billed import make_workload as workload

BOTH = "autoscaling = { write = { min = 1, max = 900 }, read = { min = 1, max = 900 } }"
WRITE = "autoscaling = { write = { min = 1, max = 900 } }"
KEY = '[streams.s.table]\nencryption = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"\n'
ROLLUP = '[[streams.s.rollup]]\nname = "h"\nevery = "1h"\nby = ["series"]\nretention = "10d"\n'
COPIES = 'replicas = ["eu-west-1"]\n'
FREE = 'mode = "on-demand"'
LATE = ' { age = "late", write = 1, read = 1 },'


def make_capacity(more: str = "", late: str = "", closed: str = "write = 1, read = 1") -> str:
    ladder = f"{{ age = 0, write = 150, read = 210 }},{late} {{ age = 1, {closed} }}"
    return f'mode = "provisioned"\nladder = [{ladder}]\n{more}'


def line(name: str, **facts: Any) -> float | None:
    dollars = [found.dollars for found in compute_whole_bill(workload(**facts)).lines if found.name == name]
    return round(sum(dollars), 4) if dollars else None


@pytest.mark.parametrize(
    ("facts", "dollars"),
    [
        ({"capacity": make_capacity()}, None),
        # The tables of today and yesterday take events: four alarms for each of their dimensions, at $0.10.
        ({"capacity": make_capacity(BOTH)}, 1.6),
        ({"capacity": make_capacity(WRITE)}, 0.8),
        ({"capacity": make_capacity(BOTH), "more": INDEX}, 3.2),
        # A table that is lowered for late events is not scaled.
        ({"capacity": make_capacity(BOTH, LATE)}, 0.8),
        # With copies, the two tables that are ready for the next days are scaled, too, and so are the copies.
        ({"capacity": make_capacity(BOTH, closed=FREE), "more": COPIES}, 6.4),
    ],
)
def test_auto_scaling_has_four_alarms_per_dimension_of_an_open_table(
    facts: dict[str, Any], dollars: float | None
) -> None:
    assert line("auto scaling, alarms", **facts) == dollars


@pytest.mark.parametrize(
    ("facts", "dollars"),
    [
        ({}, None),
        # Eight tables: five of past days, of today and of the next two. Five functions, 8,760 requests each, $0.000003.
        ({"more": KEY}, 1.0512),
        ({"more": '[streams.s.table]\nencryption = "aws-managed"\n'}, 1.0512),
        # A table of chunks beside each.
        ({"more": KEY + '[streams.s.large]\nbeyond = "chunks"\n'}, 2.1024),
        # Two days more are two tables more.
        ({"more": KEY, "retention": 7}, 1.314),
    ],
)  # fmt: skip
def test_each_function_asks_kms_for_the_key_of_each_table_every_five_minutes(
    facts: dict[str, Any], dollars: float | None
) -> None:
    assert line("KMS, requests", **facts) == dollars


def test_the_tables_of_rollups_have_the_key_too_and_the_refresher_asks_for_it() -> None:
    # Eight tables, and four of months: this one, the one before and two ready ones. Six functions ask.
    assert line("KMS, requests", more=KEY + ROLLUP) == round(12 * 6 * 8760 * 0.000003, 4)


def test_the_present_tables_have_lines_for_alarms_and_requests_to_kms() -> None:
    stage = BilledStage(capacity=make_capacity(BOTH), more=INDEX + KEY)
    stage.add(TODAY, table(150, 210), scaled=True, active=("eu-west-1",))
    stage.add(YESTERDAY, table(150, 210), scaled=True)
    stage.add("2026-03-13", table(1, 1))
    found = {line["name"]: (round(line["dollars"], 4), line["how"]) for line in stage.stream()["lines"]}
    # Table and index, two dimensions, four alarms: 32 of today's with its copy, and 16 of yesterday's.
    assert found["auto scaling, alarms"] == (4.8, "48 alarms at $0.10: four per dimension of a table and of an index")
    assert found["KMS, requests"][0] == round(3 * 5 * 8760 * 0.000003, 4)
    assert not any("auto scaling" in text or "KMS" in text for text in stage.bill()["not_priced"])


def test_units_on_demand_have_a_savings_plan_and_no_reservation() -> None:
    """2,628,000 events and indexed events at $0.625, and as many half read units at $0.125: $3.45 per month."""
    (plan,) = compute_whole_bill(workload(rate=10.0, more=INDEX, reads=0.0, old=0.0)).discounts
    assert plan.name == "Database Savings Plan, 1 year"
    assert plan.dollars == pytest.approx(0.18 * 2 * 16.425)
    assert compute_whole_bill(workload(rate=0.1)).discounts == []


def test_provisioned_units_may_be_reserved_by_the_hundred() -> None:
    """At each hour two tables with 150 and 210 units, and six with one each: 306 write units and 426 read units."""
    found = compute_whole_bill(workload(make_capacity())).document()["discounts"]
    assert [(discount["name"], round(discount["dollars"], 2)) for discount in found] == [
        # 12% of $145.20 and $40.43.
        ("Database Savings Plan, 1 year", 22.27),
        # 300 write units at $0.00065 and 400 read units at $0.00013 are $180.31: 54% and 77%.
        ("reserved capacity, 1 year", 97.37),
        ("reserved capacity, 3 years", 138.84),
    ]
    assert "300 write units and 400 read units" in found[1]["how"]


def test_units_of_the_other_class_and_of_copies_cannot_be_reserved() -> None:
    steps = '{ age = 0, write = 1, read = 1 }, { age = 1, write = 900, read = 900, class = "infrequent-access" }'
    cold = f'mode = "provisioned"\nladder = [{steps}]'
    assert [found.name for found in compute_whole_bill(workload(cold)).discounts] == ["Database Savings Plan, 1 year"]
    copied = compute_whole_bill(workload(make_capacity(WRITE, closed=FREE), more=COPIES)).discounts
    # Four tables with 210 read units each. Their write units are copied.
    assert "0 write units and 800 read units" in copied[1].how
    assert copied[1].dollars == pytest.approx(0.54 * 800 * 0.00013 * 730)


def test_the_present_tables_have_discounts_on_their_units() -> None:
    stage = BilledStage(capacity=make_capacity())
    stage.add(TODAY, table(200, 20))
    stage.add(YESTERDAY, table(), created_at=NOON - timedelta(days=9))
    stage.meters.units = {("s.2026-03-14", ""): ConsumedUnits(160e6, 0)}
    # 18% of $100 on demand; 12% of 200 write and 20 read units, which are $94.90 and $1.898. 200 are two blocks.
    assert [(found["name"], round(found["dollars"], 2)) for found in stage.bill()["discounts"]] == [
        ("Database Savings Plan, 1 year", 29.62),
        ("reserved capacity, 1 year", 51.25),
        ("reserved capacity, 3 years", 73.07),
    ]
    assert [found["name"] for found in BilledStage().bill()["discounts"]] == []
