"""The parameters of a listing: their bounds, and what may stand beside a cursor."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import msgspec
import pytest

from tests.fakes import SEAL
from tests.worlds.listings import ask_listing, at, names_of, parse_listing, roll_up
from tests.worlds.rolled import START, STREAM, World, reading
from tidetable.config import Stream
from tidetable.events import Event
from tidetable.problems import ProblemError
from tidetable.query.listings import parse_values
from tidetable.query.listings.listing_parameters import find_place

EVENTS = (
    reading(65, 1, "a", kind="x"),
    Event("b", START + timedelta(minutes=70), "70", {"mag": "none", "kind": "y", "note": None}),
    reading(200, 1, "a", kind="x", tags=[]),
    reading(340, 2, "b/2", kind=True, place={"state": "CA"}),
)


def problem(world: World, what: str, stream: Stream = STREAM, /, **parameters: str) -> tuple[int, str, str]:
    with pytest.raises(ProblemError) as refused:
        ask_listing(world, what, lambda: 100.0, stream, **parameters)
    found = refused.value.problem
    return found.status, found.code, found.detail


PARAMETERS = [
    ({"limit": "10001"}, "bad_parameter", "limit must be a whole number from 1 to 10000"),
    ({"prefix": ""}, "bad_parameter", "prefix must have 1 to 480 bytes; leave it out to list everything"),
    (
        {"series": "a"},
        "unknown_parameter",
        "unknown parameter 'series'; known are consistent, cursor, escape, explain,",
    ),
    ({"from": at(60), "to": at(60)}, "bad_parameter", "from must lie before to: the range is [from, to)"),
]


@pytest.mark.parametrize(("parameters", "code", "detail"), PARAMETERS, ids=str)
def test_parameters_are_checked(parameters: dict[str, str], code: str, detail: str) -> None:
    status, found, text = problem(roll_up(), "series", **parameters)
    assert (status, found) == (400, code)
    assert text.startswith(detail)


@pytest.mark.parametrize("path", ["series", "a..b", "data.kind"])
def test_a_path_of_no_field_is_refused(path: str) -> None:
    with pytest.raises(ProblemError) as refused:
        parse_values(path, STREAM, {}, START, SEAL)
    assert (refused.value.problem.status, refused.value.problem.code) == (400, "bad_parameter")


def test_a_cursor_is_of_one_listing_and_parameters_beside_it_may_repeat() -> None:
    world = roll_up(*EVENTS)
    own = {"from": at(60), "to": at(360), "prefix": "b"}
    cursor = ask_listing(world, "series", limit="1", **own).next
    assert cursor is not None
    assert names_of(ask_listing(world, "series", cursor=cursor, **own)) == ["b/2"]
    # The rest of a walk reads what its first page read, also if time has passed.
    world.sleep(900)
    assert ask_listing(world, "series", cursor=cursor, limit="3").describe_rest()["to"] == at(360)
    for changed in ({"prefix": "a"}, {"from": at(61)}, {"to": at(361)}, {"consistent": "true"}):
        status, code, detail = problem(world, "series", cursor=cursor, **changed)
        assert (status, code) == (400, "invalid_cursor")
        assert f"repeat its {next(iter(changed))}," in detail
    assert problem(world, "fields", cursor=cursor)[2] == "this cursor belongs to a listing of series: begin without it"
    assert problem(world, "kind", cursor=cursor)[:2] == (400, "invalid_cursor")


def test_a_page_has_a_hundred_names_unless_the_request_says_otherwise() -> None:
    world = roll_up(*[reading(65 + n / 10, 1, f"s{n:03d}") for n in range(120)])
    span = {"from": at(60), "to": at(360)}
    assert len(ask_listing(world, "series", **span).rows) == 100
    assert len(ask_listing(world, "series", limit="120", **span).rows) == 120
    assert ask_listing(world, "series", limit="120", **span).next is None


PREFIXES = [("a" * 480, 200), ("a" * 481, 400), ("é" * 240, 200), ("é" * 240 + "a", 400)]


@pytest.mark.parametrize(("prefix", "status"), PREFIXES, ids=["480", "481", "480 in two bytes each", "481 so"])
def test_a_prefix_has_as_many_bytes_as_a_name_at_the_most(prefix: str, status: int) -> None:
    if status == 200:
        assert parse_listing("series", {"prefix": prefix}, START).prefix == prefix
    else:
        with pytest.raises(ProblemError, match="prefix must have 1 to 480 bytes"):
            parse_listing("series", {"prefix": prefix}, START)


def test_values_of_a_cold_field_are_not_listed() -> None:
    cold = msgspec.structs.replace(STREAM, cold=("note",))
    for field in ("note", "note.inner"):
        with pytest.raises(ProblemError, match="is a cold field of s: it is shown, and not searched"):
            parse_values(field, cold, {}, START, SEAL)


def test_a_cursor_of_the_values_of_a_field_is_of_no_other_field() -> None:
    world = roll_up(*EVENTS)
    cursor = ask_listing(world, "kind", limit="1", **{"from": at(60), "to": at(360)}).next
    assert cursor is not None
    detail = problem(world, "mag", cursor=cursor)[2]
    assert detail == "this cursor belongs to a listing of values: begin without it"


def test_a_prefix_of_series_is_a_condition_of_the_reads() -> None:
    """What is left out there is not paid for twice: of values and fields no read knows a prefix."""
    assert parse_listing("series", {"prefix": "b"}, START).query.names.series_prefix == "b"
    assert parse_listing("fields", {"prefix": "b"}, START).query.names.series_prefix == ""


PLACES = [
    ("x" * 256, ("text", "x" * 256, "")),
    (Decimal("2.50"), ("number", Decimal("2.5"), "")),
    (True, ("truth", "true", "")),
    (False, ("truth", "false", "")),
]


def test_a_text_of_256_characters_is_its_own_place() -> None:
    for value, place in PLACES:
        assert find_place(value) == place
    assert find_place(None) is None
    longer = find_place("x" * 257)
    assert longer is not None
    assert (longer.kind, longer.head, len(longer.hash)) == ("text", "x" * 256, 32)
