"""What one range is estimated to cost, what an answer reports to the operator, and a listing that is cut."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tidetable.catalog import GapReason
from tidetable.query.estimate import Spent, _estimate_cost
from tidetable.query.listings.listing_page import Listed
from tidetable.query.page import Events
from tidetable.query.scans import Gap


@pytest.mark.parametrize(
    ("events", "consistent", "units", "requests"),
    [
        (0, False, 0.5, 1),
        (0, True, 1.0, 1),
        (4, False, 0.5, 1),
        (5, False, 1.0, 1),
        (5, True, 2.0, 1),
        (1024, True, 256.0, 1),
        (1025, True, 257.0, 2),
    ],
)
def test_a_range_costs_a_unit_per_4_kb_half_of_it_read_eventually_and_a_request_per_mb(
    events: float, consistent: bool, units: float, requests: int
) -> None:
    """AWS bills half a unit for a range at the least. The events have 1 KB each."""
    assert _estimate_cost(events, 1024, consistent=consistent) == (units, requests)


def test_what_is_spent_is_raised_to_what_is_spent_at_least() -> None:
    spent = Spent(3.0, 1)
    spent.raise_to(Spent(2.0, 5))
    assert (spent.units, spent.requests) == (3.0, 5)


def test_a_part_of_a_request_is_shown_as_a_request() -> None:
    assert Spent(1.24, 1.2).document() == {"read_units": 1.2, "requests": 2}


def test_gaps_of_damage_are_reported_to_the_operator_with_lost_data() -> None:
    start, end = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)
    gaps = [Gap(start, end, GapReason.DAMAGED_PACK), Gap(start, end, GapReason.DELETED)]
    nothing: Any = None
    answer = Events(
        stream="s",
        next=None,
        gaps=gaps,
        cost=nothing,
        sources=(),
        rows=(),
        projection=nothing,
        make_cursor=nothing,
        data_losses=["x"],
    )
    assert answer.losses == [
        "x",
        f"{GapReason.DAMAGED_PACK} from 2026-03-01 00:00:00+00:00 to 2026-03-02 00:00:00+00:00",
    ]


@pytest.mark.parametrize(
    ("name", "own"), [("series", ["series"]), ("fields", ["field", "types"]), ("values", ["value", "type"])]
)
def test_a_listing_has_the_columns_of_its_kind(name: str, own: list[str]) -> None:
    nothing: Any = None
    page = Listed(
        name=name,
        stream="s",
        next=None,
        gaps=(),
        cost=nothing,
        sources=(),
        rows=[],
        listing=nothing,
        reader=nothing,
        places=(),
    )
    assert list(page.columns) == [*own, "first", "first_within", "last", "last_within"]


@pytest.mark.parametrize(
    ("count", "rows", "following"), [(0, None, None), (1, ["a"], "after A"), (2, ["a", "b"], "after B")]
)
def test_a_listing_that_is_cut_goes_on_after_its_last_row(
    count: int, rows: list[str] | None, following: str | None
) -> None:
    places: Any = ["A", "B", "C"]
    listing: Any = SimpleNamespace(make_cursor=lambda place: f"after {place}")
    reader: Any = SimpleNamespace(seal=SimpleNamespace(seal=lambda cursor: cursor))
    names = [{"series": name} for name in "abc"]
    nothing: Any = None
    page = Listed(
        name="series",
        stream="s",
        next=None,
        gaps=(),
        cost=nothing,
        sources=(),
        rows=names,
        listing=listing,
        reader=reader,
        places=places,
    )
    cut = page.cut_to(count)
    assert (None if cut is None else [row["series"] for row in cut.rows]) == rows
    assert (None if cut is None else cut.next) == following
