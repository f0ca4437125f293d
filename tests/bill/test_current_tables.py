"""The rows of a stage's periods: which are read, and their marks in the timeline."""

from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bill.consumed import ConsumedUnits
from bill.current_tables import (
    ObservedPeriod,
    PeriodRow,
    _estimate_bytes_per_unit,
    make_row,
    mark_period,
    observe_periods,
)
from tests.fakes.catalog import FakeCatalog
from tests.fakes.serial import Serial
from tests.lifecycle.world import NOON, configuration
from tidetable.catalog import Entry, Horizon, State
from tidetable.config import TableClass
from tidetable.periods import parse_label
from tidetable.ports import Table

MARKS = [
    ("creating", ".", "yellow"),
    ("open", "#", "green"),
    ("closed", "=", "blue"),
    ("archiving", ">", "yellow"),
    ("restoring", ">", "yellow"),
    ("archived", "a", "magenta"),
    ("deleted", "-", "dim"),
    ("LOST", "!", "bold red"),
    ("unheard of", "?", ""),
]


def row(state: str, **facts: Any) -> PeriodRow:
    return PeriodRow("s", "2026-03-15", state, 0, None, None, None, None, None, None, 0.0, **facts)


@pytest.mark.parametrize(("state", "mark", "colour"), MARKS)
def test_every_state_has_a_mark(state: str, mark: str, colour: str) -> None:
    assert mark_period(row(state)) == (mark, colour)


def test_an_open_period_may_be_ahead_or_late() -> None:
    assert mark_period(row("open", ahead=True)) == (".", "cyan")
    assert mark_period(row("open", late=True)) == ("+", "green")
    assert mark_period(row("closed", ahead=True, late=True)) == ("=", "blue")


@pytest.mark.parametrize(("all_periods", "start"), [(False, NOON), (True, None)])
def test_periods_before_the_horizon_are_read_only_if_they_are_wanted(all_periods: bool, start: datetime | None) -> None:
    """After some years there are very many of them, all deleted."""
    starts: list[datetime | None] = []

    def walk(_: str, start: datetime | None, end: datetime | None, *, at_once: int) -> list[Entry]:
        assert (end, at_once) == (None, 500)
        starts.append(start)
        return []

    catalog = SimpleNamespace(read_horizon=lambda _: Horizon(NOON), walk=walk)
    tables = SimpleNamespace(describe=None)
    stream = configuration().streams["s"]
    found = observe_periods(stream, cast("Any", catalog), cast("Any", tables), Serial, all_periods=all_periods)
    assert found == ([], None)
    assert starts == [start]


@pytest.mark.parametrize(
    ("before", "labels"),
    [
        (None, ["2026-03-16", "2026-03-14", "2026-02-02", "2020-01-01"]),
        (14, ["2026-02-02", "2020-01-01"]),
        (1, ["2026-02-02", "2020-01-01"]),
    ],
)
def test_far_periods_come_last_each_once(before: int | None, labels: list[str]) -> None:
    """One far period lies behind the horizon: it is restored. The page begins before a day of March, or at the end."""
    stream, catalog = configuration().streams["s"], FakeCatalog()
    states = {
        "2020-01-01": State.CLOSED, "2024-07-01": State.DELETED, "2026-02-02": State.CLOSED, "2026-03-10": State.DELETED,
        "2026-03-14": State.RESTORING, "2026-03-16": State.OPEN,
    }  # fmt: skip
    for label, state in states.items():
        entry = Entry("s", parse_label(label), f"t.s.{label}", stream.layout, state, NOON)
        catalog.items["s", entry.period] = entry
        if state in (State.CLOSED, State.RESTORING):
            catalog.note_far(entry)
    catalog.set_horizon("s", parse_label("2026-03-10").end)
    tables: Any = SimpleNamespace(describe=lambda _: None)
    at = None if before is None else NOON.replace(day=before, hour=0)
    found, _ = observe_periods(stream, cast("Any", catalog), tables, Serial, all_periods=False, before=at)
    assert [period.entry.period.label for period in found] == labels
    # Nothing is read between the far periods.
    walked = [start for start, end, _ in catalog.reads if start != end]
    assert walked == ([] if before == 1 else [parse_label("2026-03-10").end])


def test_the_periods_of_a_removed_stream_say_since_when_it_is_removed() -> None:
    stream = configuration().streams["s"]
    entry = Entry("s", parse_label("2026-03-15"), "t.s.2026-03-15", stream.layout, State.OPEN, NOON)
    catalog = SimpleNamespace(read_horizon=lambda _: Horizon(NOON), walk=lambda *_, **__: [entry])
    tables = SimpleNamespace(describe=lambda _: None)
    for removed, shown in ((NOON, "2026-03-15T12:00:00.000000Z"), (None, None)):
        (period,), _ = observe_periods(
            stream, cast("Any", catalog), cast("Any", tables), Serial, all_periods=False, removed=removed
        )
        row = make_row(period, NOON, None)
        assert (row.removed_since, row.state, row.bytes) == (shown, "LOST", None)


def test_a_table_on_demand_whose_index_took_no_units_has_the_units_of_the_table() -> None:
    index = '[[streams.s.index]]\nname = "status"\npartition_by = "status"'
    stream = configuration(capacity='mode = "on-demand"', more=index).streams["s"]
    name = "t.s.2026-03-15"
    entry = Entry("s", parse_label("2026-03-15"), name, stream.layout, State.OPEN, NOON)
    period = ObservedPeriod(entry, stream, {name: Table(name, "ACTIVE", None, None, TableClass.STANDARD)})
    row = make_row(period, NOON, {(name, ""): ConsumedUnits(3.0, 2.0)})
    assert (row.taken_write, row.taken_read) == (3.0, 2.0)
    assert (make_row(period, NOON, {}).taken_write, make_row(period, NOON, None).taken_write) == (0, None)


@pytest.mark.parametrize(
    ("items", "size", "each"),
    [(0, 0, 1024), (5, 0, 1024), (0, 5, 1024), (2, 200, 100), (1, 1024, 1024), (1, 1025, 512.5), (2, 6000, 1000)],
)
def test_a_write_unit_has_the_bytes_of_an_item_or_of_a_part_of_it(items: int, size: int, each: float) -> None:
    """A unit writes up to 1,024 bytes. Before DynamoDB has counted the table, it counts as full."""
    table = Table("t", "ACTIVE", None, None, TableClass.STANDARD, size_bytes=size, item_count=items)
    assert _estimate_bytes_per_unit(table) == each
