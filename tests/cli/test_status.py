"""A period's row in `status`: its price, calculated by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aws.meters import read_consumed_units
from bill.consumed import ConsumedUnits
from bill.current_tables import ObservedPeriod, PeriodRow, make_row, mark_period
from tests.lifecycle.world import configuration
from tests.worlds.entries import make_entry
from tidetable.catalog import Entry, Opening, State
from tidetable.config import TableClass
from tidetable.layout import Index, Layout
from tidetable.periods import parse_label
from tidetable.ports import Table

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
TABLE = "tidetable-t.s.2026-03-15"
LAYOUT = Layout("series", 1, "id", indexes=(Index("one", "a", 1), Index("two", "b", 1)), parts=True)
BILLION = 1_000_000_000


def row(*tables: Table, taken: dict[tuple[str, str], ConsumedUnits] | None = None, **changes: Any) -> PeriodRow:
    entry = make_entry("s", parse_label("2026-03-15"), TABLE, LAYOUT, State.OPEN, NOON, **changes)
    return make_row(
        ObservedPeriod(entry, configuration().streams["s"], {table.name: table for table in tables}), NOON, taken
    )


def provisioned(table_class: TableClass = TableClass.STANDARD) -> Table:
    sizes = {"one": (5, 2 * BILLION), "two": (5, BILLION)}
    units = {"one": (10, 4), "two": (20, 6)}
    return Table(TABLE, "ACTIVE", 100, 50, table_class, size_bytes=BILLION, index_units=units, index_sizes=sizes)


def on_demand(name: str, table_class: TableClass = TableClass.STANDARD) -> Table:
    return Table(name, "ACTIVE", None, None, table_class, size_bytes=BILLION)


def test_a_provisioned_table_costs_its_units_and_storage_and_those_of_its_indexes() -> None:
    shown_row = row(provisioned())
    # 130 write units at $0.00065 and 60 read units at $0.00013 an hour, for 730 hours; 4 GB at $0.25.
    assert shown_row.dollars == pytest.approx((130 * 0.00065 + 60 * 0.00013) * 730 + 4 * 0.25)
    assert (shown_row.bytes, shown_row.taken_write) == (4 * BILLION, None)


def test_the_cheap_class_costs_a_quarter_more_per_unit_and_a_tenth_of_a_dollar_per_gigabyte() -> None:
    expected = (130 * 0.00065 + 60 * 0.00013) * 730 * 1.25 + 4 * 0.10
    assert row(provisioned(TableClass.INFREQUENT)).dollars == pytest.approx(expected)


def test_an_on_demand_table_costs_what_it_its_indexes_and_its_parts_took() -> None:
    taken = {
        (TABLE, ""): ConsumedUnits(1e6, 2e6),
        (TABLE, "one"): ConsumedUnits(3e6, 0),
        (TABLE, "two"): ConsumedUnits(0, 4e6),
        (f"{TABLE}.parts", ""): ConsumedUnits(5e6, 0),
        ("another", ""): ConsumedUnits(9e9, 9e9),
    }
    tables = on_demand(TABLE, TableClass.INFREQUENT), on_demand(f"{TABLE}.parts")
    shown_row = row(*tables, taken=taken)
    # Infrequent: four million writes at $0.78, six million reads at $0.155, a GB at $0.10. Parts: five million at
    # $0.625, $0.25.
    assert shown_row.dollars == pytest.approx(4 * 0.78 + 6 * 0.155 + 0.10 + 5 * 0.625 + 0.25)
    assert (shown_row.taken_write, shown_row.taken_read) == (9e6, 6e6)
    unknown = row(*tables)
    assert unknown.dollars == pytest.approx(0.35)
    assert unknown.taken_write is None


def test_an_open_backfill_is_part_of_the_state() -> None:
    shown_row = row(provisioned(), opened=Opening(NOON + timedelta(hours=1), 5, 5))
    assert shown_row.shown_state == "open for a backfill until 2026-03-15T13:00Z"
    assert row(provisioned(), opened=Opening(NOON, 5, 5)).shown_state == "open"


@pytest.mark.parametrize(
    ("hours", "shown", "character"),
    [(11.9, "0", "#"), (12.3, "late", "+"), (36, "late", "+"), (36.1, "1", "#")],
    ids=["before its end", "lowered", "until it closes", "to be closed"],
)
def test_a_table_that_is_lowered_for_late_events_is_shown_so(hours: float, shown: str, character: str) -> None:
    ladder = '{ age = 0, write = 9, read = 9 }, { age = "late", write = 1, read = 9 }, { age = 1, write = 1, read = 1 }'
    stream = configuration(capacity=f'mode = "provisioned"\nladder = [{ladder}]').streams["s"]
    entry = Entry("s", parse_label("2026-03-15"), TABLE, LAYOUT, State.OPEN, NOON)
    now = NOON + timedelta(hours=hours)
    shown_row = make_row(ObservedPeriod(entry, stream, {TABLE: provisioned()}), now, None)
    assert (shown_row.shown_age, shown_row.late, mark_period(shown_row)[0]) == (shown, shown == "late", character)
    raised = replace(entry, opened=Opening(now + timedelta(hours=1), 50, 5))
    assert not make_row(ObservedPeriod(raised, stream, {TABLE: provisioned()}), now, None).late, (
        "it has a backfill's units"
    )


class Metrics:
    """CloudWatch with one unit per day for each metric, in two results."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def get_paginator(self, name: str) -> Any:
        return self

    def paginate(self, **given: Any) -> Any:
        self.calls.append(given)
        return [
            {"MetricDataResults": [{"Id": query["Id"], "Values": [1.0] * days} for query in given["MetricDataQueries"]]}
            for days in (20, 10)
        ]


def test_what_was_taken_is_asked_for_in_days_and_five_hundred_metrics_at_a_time() -> None:
    client = Metrics()
    tables = {f"table{number}": ["index"] for number in range(150)}
    units = read_consumed_units(client, tables, datetime(2026, 3, 15, 12, 34, 56, tzinfo=UTC))
    assert [len(call["MetricDataQueries"]) for call in client.calls] == [500, 100]
    assert {(call["StartTime"], call["EndTime"]) for call in client.calls} == {
        (datetime(2026, 2, 13, 13, tzinfo=UTC), datetime(2026, 3, 15, 13, tzinfo=UTC))
    }
    assert len(units) == 300
    assert set(units.values()) == {ConsumedUnits(30.0, 30.0)}
    stat = client.calls[0]["MetricDataQueries"][2]["MetricStat"]
    assert (stat["Period"], stat["Stat"], stat["Metric"]["MetricName"]) == (86_400, "Sum", "ConsumedWriteCapacityUnits")
    assert stat["Metric"]["Dimensions"] == [
        {"Name": "TableName", "Value": "table0"},
        {"Name": "GlobalSecondaryIndexName", "Value": "index"},
    ]


def test_copies_cost_the_writes_and_storage_of_the_table_again_and_the_transfer() -> None:
    """Two copies of a table on demand: 4 million items of 250 bytes, which took 5 million write units."""
    table = replace(on_demand(TABLE), item_count=4_000_000)
    taken = {(TABLE, ""): ConsumedUnits(5e6, 8e6), (TABLE, "one"): ConsumedUnits(1e6, 2e6)}
    alone, copied = (row(table, taken=taken, active=copies) for copies in ((), ("eu-west-1", "eu-north-1")))
    # Six million units at $0.625, a GB at $0.25, and 5 million times 250 bytes at $0.02 per GB, in each of two Regions.
    assert copied.dollars - alone.dollars == pytest.approx(2 * (6 * 0.625 + 0.25 + 1.25 * 0.02))


def test_a_provisioned_table_has_its_read_units_in_each_copy() -> None:
    alone, copied = (row(provisioned(), taken={}, active=copies) for copies in ((), ("eu-west-1",)))
    assert copied.dollars == pytest.approx(2 * alone.dollars)


def test_of_a_table_that_is_not_counted_each_unit_sends_a_kilobyte() -> None:
    table = replace(on_demand(TABLE), size_bytes=0)
    taken = {(TABLE, ""): ConsumedUnits(1e6, 0)}
    assert row(table, taken=taken, active=("eu-west-1",)).dollars == pytest.approx(2 * 0.625 + 1.024 * 0.02)
