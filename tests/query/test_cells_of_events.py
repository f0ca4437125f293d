"""Statistics of a cell, and an aggregate that is cut between two steps."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from aws.sketches import DDSketches
from tests.fakes import SEAL
from tests.worlds.days import NOW, STREAM
from tidetable.layout import Layout, Packing
from tidetable.query.aggregates import parse_aggregation
from tidetable.query.aggregates.find import Aggregate
from tidetable.query.aggregates.stats import compute_stat
from tidetable.query.packs.scan import make_damaged_gap
from tidetable.query.scans import Gap
from tidetable.rollup_model.numbers import Numbers
from tidetable.times import to_text


def cell_of(*numbers: int) -> Numbers:
    cell = Numbers()
    if numbers:
        cell.add_all(numbers, DDSketches())
        cell.first, cell.last = numbers[0], numbers[-1]
    return cell


@pytest.mark.parametrize(
    ("numbers", "stat", "value"),
    [
        ((1, 1, 2), "avg", Decimal("1.3333333333333333")),
        ((3, 7, 1000), "p0", 3),
        ((3, 7, 1000), "p100", 1000),
        # The estimate of a percentile lies beyond the one number that there is.
        ((1001,), "p50", 1001.0),
        ((-1001,), "p50", -1001.0),
        ((), "count", 0),
        ((), "sum", None),
    ],
)
def test_a_statistic_of_a_cell(numbers: tuple[int, ...], stat: str, value: Any) -> None:
    assert compute_stat(cell_of(*numbers), stat) == value


def test_cells_are_joined_in_the_order_of_time() -> None:
    """The earlier cell has the first, the later cell the last; a cell of no numbers changes nothing."""
    cell = cell_of(5, 2)
    cell.merge(Numbers(), DDSketches())
    assert (cell.first, cell.last, cell.min, cell.max, cell.count) == (5, 2, 2, 5, 2)
    cell.merge(cell_of(9, 4), DDSketches())
    assert (cell.first, cell.last, cell.min, cell.max) == (5, 4, 2, 9)
    assert (compute_stat(cell, "sum"), compute_stat(cell, "p100")) == (20, 9)
    empty = Numbers()
    empty.merge(cell_of(9, 4), DDSketches())
    assert (empty.first, empty.last, compute_stat(empty, "p0")) == (9, 4, 4)


@pytest.mark.parametrize(
    ("top", "count", "kept"),
    [(None, 3, ["a", "b"]), (None, 4, ["a", "b", "a", "b"]), (None, 2, ["a", "b"]), (None, 1, None), ("1", 3, None)],
)
def test_an_aggregate_is_cut_between_two_steps_alone(top: str | None, count: int, kept: list[str] | None) -> None:
    parameters = {"step": ["1h"], "by": ["series"]} | ({} if top is None else {"top": [top]})
    starts = [to_text(NOW - timedelta(minutes=minutes)) for minutes in (180, 180, 120, 120, 60)]
    rows = [{"start": start, "group": {"series": name}} for start, name in zip(starts, "ababa", strict=True)]
    reader: Any = SimpleNamespace(seal=SEAL)
    cost: Any = None
    aggregation = parse_aggregation(STREAM, parameters, NOW, SEAL)
    answer = Aggregate(
        stream="s", next=None, gaps=(), cost=cost, sources=(), rows=rows, aggregation=aggregation, reader=reader
    )
    cut = answer.cut_to(count)
    assert (None if cut is None else [row["group"]["series"] for row in cut.rows]) == kept
    assert cut is None or cut.next is not None


def at(hour: int, minute: int = 0, microsecond: int = 0) -> datetime:
    return datetime(2026, 3, 1, hour, minute, 0, microsecond, tzinfo=UTC)


@pytest.mark.parametrize(
    ("start", "end", "gap"),
    [
        (at(10), at(11, 30), (at(11), at(11, 30))),
        (at(11, 30), at(13), (at(11, 30), at(12, 0, 1))),
        (at(10), at(10, 30), None),
        (at(10), at(11), None),
        (at(12, 0, 1), at(13), None),
    ],
    ids=["its beginning", "its end", "before it", "up to it", "behind it"],
)
def test_a_damaged_pack_leaves_a_gap_where_it_and_the_range_overlap(
    start: datetime, end: datetime, gap: tuple[datetime, datetime] | None
) -> None:
    """The pack has events from 11:00 to 12:00, both included."""
    item = {"pk": "p#0", "sk": f"{to_text(at(12))}#a#1", "oldest": to_text(at(11))}
    scan: Any = SimpleNamespace(start=start, end=end)
    found = make_damaged_gap(scan, item)
    assert (None if found is None else (found.start, found.end)) == gap
    assert found is None or isinstance(found, Gap)


def test_a_damaged_pack_of_a_single_time_leaves_a_gap_of_a_moment() -> None:
    item = {"pk": "p#0", "sk": f"{to_text(at(12))}#a#1", "oldest": to_text(at(12))}
    scan: Any = SimpleNamespace(start=at(10), end=at(13))
    found = make_damaged_gap(scan, item)
    assert found is not None
    assert (found.start, found.end) == (at(12), at(12, 0, 1))


@pytest.mark.parametrize("oldest", ["2026-03-01T13:00:00.000000Z", "2026-03-01T11:00:00", "yesterday", None])
def test_a_damaged_pack_without_a_credible_oldest_time_leaves_the_widest_gap_it_may_have(oldest: str | None) -> None:
    """The events of a pack are at most an hour apart in this period."""
    item = {"pk": "p#0", "sk": f"{to_text(at(12))}#a#1"} | ({} if oldest is None else {"oldest": oldest})
    entry = SimpleNamespace(layout=Layout("time", 1, "id", 3600, pack=Packing(3600, 9_000)))
    scan: Any = SimpleNamespace(start=at(10), end=at(13), entry=entry)
    found = make_damaged_gap(scan, item)
    assert found is not None
    assert (found.start, found.end) == (at(11), at(12, 0, 1))
