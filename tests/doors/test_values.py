"""Names, numbers, times and nested attributes that every dialect makes its events with, at their edges."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from doors.door import DoorRequest
from doors.reading import make_id, nest_attributes, set_values, split_nanos
from doors.series import fit_name


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("x" * 480, True),
        ("x" * 481, False),
        ("#" * 160, True),
        ("#" * 161, False),
        ("é" * 240, True),
        ("é" * 241, False),
    ],
)
def test_a_name_has_as_many_bytes_as_its_key_takes(name: str, kept: bool) -> None:
    """480 bytes, and a number sign is three of them."""
    found = fit_name(name)
    assert (found == name) == kept
    if not kept:
        assert found.startswith(name[:90] + "~")
        assert len(found) == 90 + 1 + 32


@pytest.mark.parametrize(
    ("nanos", "time", "rest"),
    [
        (0, "1970-01-01T00:00:00.000000Z", 0),
        (999, "1970-01-01T00:00:00.000000Z", 999),
        (1_772_323_440_000_001_002, "2026-03-01T00:04:00.000001Z", 2),
        (253_370_678_400 * 10**9 - 1, "9998-12-30T23:59:59.999999Z", 999),
    ],
)
def test_nanoseconds_are_whole_microseconds_and_a_rest(nanos: int, time: str, rest: int) -> None:
    assert split_nanos(nanos) == (time, rest)


@pytest.mark.parametrize("nanos", [-1, 253_370_678_400 * 10**9, 10**40])
def test_nanoseconds_outside_the_calendar_are_refused(nanos: int) -> None:
    """9998-12-31 and later, and before 1970."""
    with pytest.raises(ValueError, match="lie outside the years 1970 to 9998"):
        split_nanos(nanos)


@pytest.mark.parametrize(
    ("value", "name", "stored"),
    [
        (0.0, "v", Decimal("0.0")),
        (-40.5, "v", Decimal("-40.5")),
        (1e-130, "v", Decimal("1E-130")),
        (-1e-130, "v", Decimal("-1E-130")),
        (9e-131, "v_text", "9e-131"),
        (9.9e125, "v", Decimal("9.9E+125")),
        (-1e126, "v_text", "-1e+126"),
        (float("-inf"), "v_text", "-Infinity"),
    ],
)
def test_a_number_that_dynamodb_cannot_hold_is_text(value: float, name: str, stored: Any) -> None:
    data: dict[str, Any] = {}
    set_values([(data, "v", value)])
    assert data == {name: stored}


def test_the_text_of_a_number_replaces_no_other_field() -> None:
    data: dict[str, Any] = {"v_text": "mine", "v_text_text": "mine too"}
    set_values([(data, "v", float("nan"))])
    assert data == {"v_text": "mine", "v_text_text": "mine too", "v_text_text_text": "NaN"}


@pytest.mark.parametrize(
    ("pairs", "nested"),
    [
        ([("a.b.c", 1), ("a.b.d", 2)], {"a": {"b": {"c": 1, "d": 2}}}),
        ([("a.b", 1), ("a", 2)], {"a": 2, "a.b": 1}),
        ([("a.b.c", 1), ("a.b", 2)], {"a": {"b": 2}, "a.b.c": 1}),
        ([("a..b", 1), (".a", 2), ("a.", 3), ("", 4)], {"a..b": 1, ".a": 2, "a.": 3, "": 4}),
        ([("a", {"own": 1}), ("a.b", 2)], {"a": {"own": 1}, "a.b": 2}),
        # Eight levels are nested, and no more.
        ([("1.2.3.4.5.6.7.8.9", 0)], {"1": {"2": {"3": {"4": {"5": {"6": {"7": {"8": {"9": 0}}}}}}}}}),
        ([("1.2.3.4.5.6.7.8.9.10", 0)], {"1.2.3.4.5.6.7.8.9.10": 0}),
        ([("a.b", float("nan"))], {"a": {"b_text": "NaN"}}),
    ],
)
def test_names_with_dots_are_nested_where_they_can_be(pairs: list[tuple[str, Any]], nested: dict[str, Any]) -> None:
    assert nest_attributes(pairs) == nested
    assert nest_attributes(pairs[::-1]) == nested


@pytest.mark.parametrize("names", [("v", "v_text"), ("v_text", "v")])
def test_the_text_of_an_attribute_is_kept_beside_an_attribute_of_its_name(names: tuple[str, str]) -> None:
    values = {"v": float("nan"), "v_text": "mine"}
    assert nest_attributes([(name, values[name]) for name in names]) == {"v_text": "mine", "v_text_text": "NaN"}
    numbers = {"v": float("nan"), "v_text": 1.5}
    assert nest_attributes([(name, numbers[name]) for name in names]) == {
        "v_text": Decimal("1.5"),
        "v_text_text": "NaN",
    }


def test_an_id_is_a_hash_of_sixteen_digits_and_the_nanoseconds_that_remain() -> None:
    """The beginning of SHA-256 of the JSON ["a",1]. An event that is sent again must keep its id in every release."""
    assert make_id(["a", 1]) == "135f17a475a61afd"
    assert make_id(["a", 1], 7) == "135f17a475a61afd-007"


@pytest.mark.parametrize("kind", ["application/json", " Application/JSON ; charset=utf-8", "APPLICATION/JSON;"])
def test_the_type_of_a_body_has_any_case_and_parameters(kind: str) -> None:
    request = DoorRequest("/v1/metrics", datetime(2026, 3, 1, tzinfo=UTC), headers={"content-type": kind})
    assert (request.kind, request.content_type) == ("application/json", kind)


def test_floats_at_every_depth_are_stored_as_numbers() -> None:
    assert nest_attributes([("a.b", 1.5), ("a.c", -0.25), ("d", 1e300)]) == {
        "a": {"b": Decimal("1.5"), "c": Decimal("-0.25")},
        "d_text": "1e+300",
    }
    assert all(type(value) is Decimal for value in nest_attributes([("a", 1.5), ("b", 0.0)]).values())


@pytest.mark.parametrize(
    ("pairs", "nested"),
    [
        ([("a", "1"), ("a", "2")], {"a": ["1", "2"]}),
        ([("a", "2"), ("b", "x"), ("a", "1"), ("a", "2")], {"a": ["2", "1"], "b": "x"}),
        ([("a", "1"), ("a", "1")], {"a": "1"}),
        ([("a", 1), ("a", True), ("a", 1.5)], {"a": [1, True, Decimal("1.5")]}),
        ([("a", float("nan")), ("a", 1e300)], {"a": ["NaN", "1e+300"]}),
        ([("a.b", "1"), ("a.b", "2"), ("a.c", "3")], {"a": {"b": ["1", "2"], "c": "3"}}),
        ([("a", "1"), ("a", "2"), ("a.b", "3")], {"a": ["1", "2"], "a.b": "3"}),
        ([("a", None), ("a", {"b": 1}), ("a", [1])], {"a": [None, {"b": 1}, [1]]}),
    ],
)
def test_an_attribute_that_is_repeated_keeps_every_value(pairs: list[tuple[str, Any]], nested: dict[str, Any]) -> None:
    assert nest_attributes(pairs) == nested
