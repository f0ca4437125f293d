"""Listings of a stream by series: from the cells of its rollup, and from its noted series where nothing is sealed."""

from datetime import timedelta
from functools import partial

import pytest

from tests.fakes import SEAL
from tests.worlds.noted import CountedStore, begin_noting
from tests.worlds.rolled import BY_SERIES, DAYS, PLAIN, SERIES, START, World, reading
from tidetable.periods import Kind
from tidetable.ports import Noting
from tidetable.problems import ProblemError
from tidetable.query.listings import find_listing, parse_fields, parse_series, parse_values
from tidetable.query.listings.listing_page import Listed
from tidetable.times import to_text

DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)


def list_names(world: World, what: str, **parameters: str) -> Listed:
    """A page of ``series``, of ``fields``, or of the values of a field."""
    given = {name: [value] for name, value in parameters.items()}
    parse = {"series": parse_series, "fields": parse_fields}.get(what) or partial(parse_values, what)
    return find_listing(parse(BY_SERIES, given, world.time, SEAL), BY_SERIES, world.reader, world.time, lambda: 100.0)


def test_series_are_listed_from_cells_and_the_unsealed_ones_from_notes() -> None:
    world = begin_noting()
    world.sleep(1_000)
    world.refresh()
    world.write(reading(116, 1, "new"))
    page = list_names(world, "series", **{"from": to_text(START), "limit": "10"})
    counted = CountedStore(world, world.entry("s", START).table)
    page = list_names(world, "series", **{"from": to_text(START), "limit": "10"})
    assert counted.count == 0, "a listing of series reads no events of a stream by series"
    assert [row["series"] for row in page.rows] == ["a", "b", "c", "d", "e", "new"]
    day = {"first": to_text(START), "first_within": "1d", "last": to_text(START + DAY), "last_within": "1d"}
    assert page.rows[-1] == {"series": "new", **day}
    assert page.rows[0]["first_within"] == page.rows[0]["last_within"] == "10m"
    assert [row["series"] for row in list_names(world, "series", limit="2").rows] == ["a", "b"]
    only = list_names(world, "series", **{"prefix": "n", "from": to_text(START)})
    assert [row["series"] for row in only.rows] == ["new"]


def test_noted_series_cost_the_units_of_their_notes() -> None:
    """Nothing is sealed, so the notes of five series are all that is read."""
    assert list_names(begin_noting(), "series", **{"from": to_text(START)}).cost.units == 5


def test_a_series_that_is_noted_for_a_day_and_for_an_hour_has_the_length_of_each_beside_its_time() -> None:
    """The stream's periods were days, and are hours since a change of the configuration. Nothing is sealed."""
    world = begin_noting()
    assert world.twin is not None
    hour = START + DAYS * DAY
    world.add_period("s", Kind.HOUR, hour, SERIES)
    world.twin.add_period("s", Kind.HOUR, hour, PLAIN)
    world.time = hour + 30 * MINUTE
    world.write(reading(100, 1, "both"), reading(DAYS * 1_440 + 10, 1, "both"), reading(DAYS * 1_440 + 20, 1, "young"))
    world.write(reading(1_450, 1, "days"), reading(100, 1, "days"))
    page = list_names(world, "series", **{"from": to_text(START), "limit": "10"})
    rows = {row["series"]: tuple(row.values())[1:] for row in page.rows if len(row["series"]) > 1}
    assert rows == {
        "both": ("2026-03-02T00:00:00.000000Z", "1d", "2026-03-06T01:00:00.000000Z", "1h"),
        "days": ("2026-03-02T00:00:00.000000Z", "1d", "2026-03-04T00:00:00.000000Z", "1d"),
        "young": ("2026-03-06T00:00:00.000000Z", "1h", "2026-03-06T01:00:00.000000Z", "1h"),
    }


@pytest.mark.parametrize("what", ["fields", "kind"])
def test_fields_and_values_are_read_by_noted_series_where_no_rollup_has_sealed(what: str) -> None:
    world = begin_noting()
    world.sleep(1_000)
    world.refresh()
    world.time = START + 118 * MINUTE
    world.write(
        reading(112, 1, "b", kind="y"), reading(117, 1, "a", kind="x", wide=True), reading(113, 1, "z", kind="x")
    )
    page = list_names(world, what, **{"from": to_text(START), "limit": "10"})
    rows = {next(iter(row.values())): (row["first"][11:16], row["last"][11:16]) for row in page.rows}
    if what == "fields":
        assert rows == {"kind": ("01:52", "01:57"), "mag": ("00:10", "01:57"), "wide": ("01:57", "01:57")}
    else:
        assert rows == {"x": ("01:53", "01:57"), "y": ("01:52", "01:52")}


def test_values_before_series_were_noted_are_refused() -> None:
    world = begin_noting()
    world.rollups.noting["s"] = Noting(START + DAY, START)
    with pytest.raises(ProblemError) as error:
        list_names(world, "series", **{"from": to_text(START)})
    assert error.value.problem.code == "needs_series"
