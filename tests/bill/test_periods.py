"""The bill of a period's tables as they stand, and its row, calculated by hand from AWS's price list."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from bill import current_tables
from bill.consumed import ConsumedUnits
from bill.current_tables import ObservedPeriod, compute_bill, describe_entries, make_row, observe_periods
from tests.fakes import FakeCatalog
from tests.fakes.serial import Serial
from tests.lifecycle.world import configuration
from tests.worlds.entries import make_entry
from tidetable.catalog import ArchiveFacts, Entry, Horizon, Opening, State
from tidetable.config import TableClass
from tidetable.layout import Layout
from tidetable.periods import parse_label
from tidetable.ports import Table

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
NAME = "tidetable-t.s.2026-03-15"
STREAM = configuration(capacity='mode = "on-demand"').streams["s"]
LADDER = (
    'mode = "provisioned"\nladder = [{ age = 0, write = 9, read = 9 }, { age = "late", write = 2, read = 9 }, '
    "{ age = 1, write = 1, read = 3 }]"
)


def entry(label: str = "2026-03-15", state: State = State.OPEN, **facts: Any) -> Entry:
    name = f"tidetable-t.s.{label}"
    return make_entry(
        "s", parse_label(label), name, Layout("series", 1, "id"), state, NOON - timedelta(days=9), **facts
    )


def period(table: Table | None, found: Entry | None = None, stream: Any = STREAM) -> ObservedPeriod:
    found = found or entry()
    return ObservedPeriod(found, stream, {} if table is None else {found.table: table})


def test_provisioned_units_cost_a_quarter_more_in_the_class_for_infrequent_access_and_storage_less() -> None:
    table = Table(
        NAME, "ACTIVE", 10, 20, TableClass.INFREQUENT,
        size_bytes=10 * 10**9, index_units={"status": (3, 4)}, index_sizes={"status": (5, 2 * 10**9)},
    )  # fmt: skip
    bill = compute_bill(period(table, entry(active=("eu-west-1",))), {})
    # For 730 hours at $0.00065 and $0.00013, times 1.25; 10 and 2 GB at $0.10.
    assert (bill.tables.writes, bill.tables.reads, bill.tables.storage) == pytest.approx((5.93125, 2.3725, 1.0))
    assert (bill.indexes.writes, bill.indexes.reads, bill.indexes.storage) == pytest.approx((1.779375, 0.4745, 0.2))
    # A copy of a provisioned table has its read units too.
    assert (bill.copies.writes, bill.copies.reads, bill.copies.storage) == pytest.approx((7.710625, 2.847, 1.2))


@pytest.mark.parametrize(("items", "sent"), [(1000, 768), (0, 1024)])
def test_units_on_demand_are_those_that_were_consumed(items: int, sent: int) -> None:
    """An item of 1,536 bytes takes two units, so each is 768 bytes; a table that is not counted yet has whole KBs."""
    table = Table(NAME, "ACTIVE", None, None, TableClass.STANDARD, size_bytes=1_536_000, item_count=items)
    layout = Layout("series", 1, "id", indexes=STREAM_WITH_INDEX.layout.indexes)
    found = replace(entry(active=("eu-west-1", "eu-west-3")), layout=layout)
    consumed = {(NAME, ""): ConsumedUnits(2e6, 4e6), (NAME, "status"): ConsumedUnits(1e6, 8e6)}
    bill = compute_bill(period(table, found), consumed)
    # $0.625 and $0.125 per million.
    assert (bill.tables.writes, bill.tables.reads) == pytest.approx((1.25, 0.5))
    assert (bill.indexes.writes, bill.indexes.reads) == pytest.approx((0.625, 1.0))
    # Two copies are written as often and read by nobody that is known; two million units travel to each, at $0.02 per GB.
    assert (bill.copies.writes, bill.copies.reads) == pytest.approx((3.75, 0.0))
    assert bill.transfer == pytest.approx(2 * 2e6 * sent / 1e9 * 0.02)
    row = make_row(period(table, found), NOON, consumed)
    assert (row.taken_write, row.taken_read) == (3e6, 12e6)


STREAM_WITH_INDEX = configuration(
    capacity='mode = "on-demand"', more='[[streams.s.index]]\nname = "status"\npartition_by = "status"'
).streams["s"]


def test_a_table_and_its_chunks_are_one_row_whose_chunks_have_no_index() -> None:
    table = Table(
        NAME, "ACTIVE", None, None, TableClass.STANDARD, size_bytes=100, item_count=7, index_sizes={"status": (1, 20)}
    )
    found = replace(entry(), layout=Layout("series", 1, "id", indexes=STREAM_WITH_INDEX.layout.indexes))
    observed = ObservedPeriod(found, STREAM_WITH_INDEX, {NAME: table, "chunks": replace(table, index_sizes={})})
    assert observed.on_demand == {NAME: ["status"], "chunks": []}
    row = make_row(observed, NOON, None)
    assert (row.items, row.bytes, row.taken_write, row.taken_read) == (7, 220, None, None)


def test_a_period_with_chunks_has_the_table_beside_it_too() -> None:
    chunked = replace(entry(), layout=Layout("series", 1, "id", parts=True))
    gone = entry("2026-03-14", State.DELETED)

    def describe(name: str) -> Table | None:
        return Table(name, "ACTIVE", None, None, TableClass.STANDARD, size_bytes=len(name))

    observed = describe_entries([chunked, gone], STREAM, describe, cast("Any", Serial))
    # "tidetable-t.s.2026-03-15" has 24 characters.
    sizes = [{name: table.size_bytes for name, table in period.tables.items()} for period in observed]
    assert sizes == [{NAME: 24, f"{NAME}.parts": 30}, {}]


@pytest.mark.parametrize(
    ("state", "shown"),
    [(State.OPEN, "LOST"), (State.CLOSED, "LOST"), (State.ARCHIVED, "archived"), (State.DELETED, "deleted")],
)
def test_only_a_table_that_should_be_there_is_lost(state: State, shown: str) -> None:
    row = make_row(period(None, entry(state=state)), NOON, {})
    assert (row.state, row.bytes, row.write, row.dollars) == (shown, None, None, 0.0)


def test_provisioned_tables_have_no_consumed_units() -> None:
    table = Table(NAME, "ACTIVE", 5, 6, TableClass.STANDARD)
    row = make_row(period(table), NOON, {(NAME, ""): ConsumedUnits(1.0, 2.0)})
    assert (row.write, row.read, row.taken_write, row.taken_read) == (5, 6, None, None)


@pytest.mark.parametrize(
    ("now", "ahead"), [("2026-03-14T12:00", True), ("2026-03-14T23:50", True), ("2026-03-14T23:55", False)]
)
def test_a_period_is_ahead_until_its_first_events_may_come(now: str, ahead: bool) -> None:
    """Events of five minutes in the future are taken."""
    table = Table(NAME, "ACTIVE", None, None, TableClass.STANDARD)
    assert make_row(period(table), datetime.fromisoformat(f"{now}+00:00"), {}).ahead == ahead


@pytest.mark.parametrize(
    ("now", "late"), [("2026-03-15T12:00", False), ("2026-03-16T12:00", True), ("2026-03-18T12:00", False)]
)
def test_a_table_is_late_from_its_periods_end_until_it_closes(now: str, late: bool) -> None:
    stream = configuration(capacity=LADDER).streams["s"]
    table = Table(NAME, "ACTIVE", 2, 9, TableClass.STANDARD)
    row = make_row(period(table, stream=stream), datetime.fromisoformat(f"{now}+00:00"), {})
    assert (row.late, row.shown_age == "late") == (late, late)


def test_a_backfill_is_shown_until_it_ends() -> None:
    until = datetime(2026, 3, 20, 12, tzinfo=UTC)
    found = period(None, entry("2026-03-10", State.CLOSED, opened=Opening(until, 50, 5)))
    assert make_row(found, until - timedelta(minutes=1), {}).backfill_until == "2026-03-20T12:00:00.000000Z"
    assert make_row(found, until + timedelta(minutes=1), {}).backfill_until is None


def test_periods_are_listed_newest_first_and_only_tables_that_may_exist_are_described() -> None:
    entries = [entry("2026-03-12", State.DELETED), entry("2026-03-13", State.CLOSED), entry("2026-03-14")]
    described: list[str] = []

    def describe(name: str) -> Table | None:
        described.append(name)
        return Table(name, "ACTIVE", 1, 1, TableClass.STANDARD) if name.endswith("14") else None

    catalog: Any = SimpleNamespace(read_horizon=lambda _: Horizon(NOON), walk=lambda *_, **__: entries[::-1])
    tables: Any = SimpleNamespace(describe=describe)
    found, following = observe_periods(STREAM, catalog, tables, cast("Any", Serial), all_periods=True)
    assert following is None
    assert [(seen.entry.period.label, list(seen.tables)) for seen in found] == [
        ("2026-03-14", ["tidetable-t.s.2026-03-14"]),
        ("2026-03-13", []),
        ("2026-03-12", []),
    ]
    assert described == ["tidetable-t.s.2026-03-14", "tidetable-t.s.2026-03-13"]
    found, _ = observe_periods(STREAM, catalog, tables, cast("Any", Serial), all_periods=False)
    assert [seen.entry.period.label for seen in found] == ["2026-03-14", "2026-03-13"]
    assert describe_entries([], STREAM, describe, cast("Any", Serial)) == []


def test_a_row_has_what_is_known_of_its_period() -> None:
    """A closed table of the class for infrequent access, two periods after it closed, whose stream was removed."""
    table = Table(
        "tidetable-t.s.2026-03-11", "ACTIVE", 10, 20, TableClass.INFREQUENT,
        size_bytes=10**10, item_count=7, index_sizes={"status": (5, 10**9)},
    )  # fmt: skip
    found = entry("2026-03-11", State.CLOSED, archive=ArchiveFacts("m", 9, 1, NOON, untyped={"ms": 4}))
    observed = ObservedPeriod(found, STREAM, {table.name: table}, NOON - timedelta(hours=6))
    document = asdict(make_row(observed, NOON, None))
    # Ten and twenty units for 730 hours at $0.00065 and $0.00013, times 1.25; 11 GB at $0.10.
    assert document.pop("dollars") == pytest.approx(5.93125 + 2.3725 + 1.1)
    assert document == {
        "stream": "s",
        "period": "2026-03-11",
        "state": "closed",
        "age": 3,
        "write": 10,
        "read": 20,
        "table_class": "infrequent-access",
        "items": 7,
        "bytes": 11 * 10**9,
        "archived_events": 9,
        "ahead": False,
        "taken_write": None,
        "taken_read": None,
        "late": False,
        "backfill_until": None,
        "removed_since": "2026-03-15T06:00:00.000000Z",
        "untyped": {"ms": 4},
    }


def test_a_row_is_shown_by_its_age_and_with_the_end_of_its_backfill() -> None:
    until = datetime(2026, 3, 20, 12, tzinfo=UTC)
    row = make_row(period(None, entry("2026-03-10", opened=Opening(until, 50, 5))), until - timedelta(minutes=1), {})
    assert (row.shown_age, row.shown_state) == (str(row.age), "LOST for a backfill until 2026-03-20T12:00Z")
    table = Table(NAME, "ACTIVE", None, None, TableClass.STANDARD)
    row = make_row(period(table), NOON, {(NAME, ""): ConsumedUnits(2e6, 4e6)})
    # Two and four million units at $0.625 and $0.125 per million.
    assert (row.shown_state, row.shown_age) == ("open", "0")
    assert row.dollars == pytest.approx(1.75)


def test_a_page_of_periods_ends_and_the_next_page_begins_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_tables, "MAX_PERIODS", 2)
    catalog: Any = FakeCatalog()
    for day in range(9, 15):
        catalog.add(entry(f"2026-03-{day:02}", State.DELETED if day in (10, 13) else State.CLOSED))
    tables: Any = SimpleNamespace(describe=lambda _: None)
    pages, before = list[list[str]](), None
    for every, expected in (
        (False, [["2026-03-14", "2026-03-12"], ["2026-03-11", "2026-03-09"]]),
        (True, [["2026-03-14", "2026-03-13"], ["2026-03-12", "2026-03-11"], ["2026-03-10", "2026-03-09"]]),
    ):
        pages.clear()
        while not pages or before is not None:
            found, before = observe_periods(
                STREAM, catalog, tables, cast("Any", Serial), all_periods=every, before=before
            )
            pages.append([seen.entry.period.label for seen in found])
        assert pages == expected
