"""The columns of a part: numbers by value, however they are written, and no value twice."""

import json
from collections.abc import Mapping
from decimal import Decimal, localcontext
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.archive.data_columns import Column
from tests.worlds.parts import RANKED, make_item, names, round_trip, values
from tidetable.archive import Manifest
from tidetable.layout import Layout

BY_SERIES = Layout("series", 2, "id")


def part(numbers: list[str], kind: str) -> Any:
    """The rows of a part whose field ``x`` has a declared type and these numbers."""
    items = [make_item(BY_SERIES, "s", n, f"id{n}", {"x": {"N": text}}, {}) for n, text in enumerate(numbers)]
    return pq.read_table(BytesIO(round_trip(BY_SERIES, items, {"x": kind}, pages=100)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("5.0", 5),
        ("5.000", 5),
        ("1.0", 1),
        ("1E+2", 100),
        ("1e2", 100),
        ("-1.50E+1", -15),
        ("1000000000000000000", 10**18),
        ("9223372036854775807", 9223372036854775807),
        ("-9223372036854775808", -9223372036854775808),
        ("9.223372036854775807E+18", 9223372036854775807),
        ("0.0", 0),
        ("-0", 0),
        ("9223372036854775808", None),
        ("-9223372036854775809", None),
        ("1E+19", None),
        ("0.5", None),
        ("1E-1", None),
        ("1E+125", None),
    ],
)
def test_an_integer_column_holds_every_integer_of_64_bits_however_it_is_written(text: str, value: int | None) -> None:
    table = part(["7", text, text], "integer")
    assert table.column("x").to_pylist() == [7, value, value]
    exact = str(value) == text
    kept = "{}" if exact else json.dumps({"x": {"N": text}}, separators=(",", ":"))
    assert table.column("data").to_pylist() == ["{}", kept, kept], "the text comes back as it was"


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("decimal(12,2)", "1E+2", "100"),
        ("decimal(12,2)", "1.500", "1.5"),
        ("decimal(12,2)", "1.50", "1.50"),
        ("decimal(12, 2)", "1.5", "1.5"),
        ("decimal(12,2)", "15E-1", "1.5"),
        ("decimal(12,2)", "9999999999.99", "9999999999.99"),
        ("decimal(12,2)", "99999999990E-1", "9999999999"),
        ("decimal(12,2)", "10000000000", None),
        ("decimal(12,2)", "0.005", None),
        ("decimal(12,2)", "1E+10", None),
        ("decimal(5,0)", "1.2E+4", "12000"),
        ("decimal(5,0)", "12345.0", "12345"),
        ("decimal(5,0)", "0.5", None),
        ("decimal(2,2)", "0.25", "0.25"),
        ("decimal(2,2)", "2.5E-1", "0.25"),
        ("decimal(2,2)", "5", None),
        ("decimal(2,2)", "5.00", None),
        ("decimal(38,0)", "12345678901234567890123456789012345678", "12345678901234567890123456789012345678"),
        ("decimal(38,38)", "0.12345678901234567890123456789012345678", "0.12345678901234567890123456789012345678"),
    ],
)
def test_a_decimal_column_holds_every_number_of_its_digits_however_it_is_written(
    kind: str, text: str, value: str | None
) -> None:
    values = part(["0", text], kind).column("x").to_pylist()
    assert values == [0, None if value is None else Decimal(value)]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30)
        | st.integers(-(2**65), 2**65).map(Decimal),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(["integer", "decimal(20,4)", "decimal(38,0)", "decimal(3,3)"]),
)
def test_a_column_has_the_value_or_nothing(numbers: list[Decimal], kind: str) -> None:
    wire = pa.array([str(number) for number in numbers], pa.string())
    column, _ = Column("x", kind).convert(wire)
    for number, held in zip(numbers, column.to_pylist(), strict=True):
        if kind == "integer":
            fits = number == number.to_integral_value() and -(2**63) <= number < 2**63
        else:
            digits, scale = map(int, kind[8:-1].split(","))
            with localcontext(prec=100):
                scaled = number.scaleb(scale)
                fits = abs(number) < Decimal(10) ** (digits - scale) and scaled == scaled.to_integral_value()
        assert (held is not None) == fits, number
        assert held is None or Decimal(held) == number


def ranked(count: int, **changes: Any) -> list[Any]:
    return [
        make_item(RANKED, f"s{n % 3}", n * 1000, f"id{n}", {"n": {"N": f"{n}.25"}, "status": {"S": "new"}}, {})
        | changes
        for n in range(count)
    ]


def test_what_follows_from_event_and_layout_is_kept_once() -> None:
    items = ranked(50)
    assert {"pk_ranking", "sk_ranking", "in_status", "pk_kinds"} <= items[0].keys()
    table = pq.read_table(BytesIO(round_trip(RANKED, items, {"n": "decimal(12,2)"}, pages=20)))
    assert table.column("attributes").null_count == 50
    assert set(table.column("data").to_pylist()) == {"{}"}
    assert [name for name in table.column_names if name.startswith(("pk_", "sk_", "in_"))] == [
        "pk_status",
        "pk_kinds",
        "pk_ranking",
    ]
    assert sorted(set(table.column("pk_ranking").to_pylist())) == ["*#0", "*#1"]


def test_events_that_a_ranking_does_not_have_come_back_without_it() -> None:
    items = ranked(4)
    items[1] = make_item(RANKED, "s", 1, "x", {"status": {"S": "old"}}, {})
    items[2] = make_item(RANKED, "s", 2, "y", {"n": {"S": "no number"}, "a": {"M": {"b": {"S": "deep"}}}}, {})
    assert "pk_ranking" not in items[1]
    table = pq.read_table(BytesIO(round_trip(RANKED, items, {}, pages=4)))
    assert table.column("attributes").null_count == 4


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(names, values, max_size=3)
            | st.fixed_dictionaries({"n": st.just({"N": "5.0"}), "status": st.just({"S": "x"})}),
            st.sampled_from(["pk_ranking", "sk_ranking", "in_status", "in_ranking", ""]),
            st.sampled_from(["gone", "other", "as it is"]),
        ),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 4),
)
def test_an_attribute_that_does_not_follow_is_kept_as_it_is(
    rows: list[tuple[Mapping[str, Any], str, str]], pages: int
) -> None:
    """A copy that was changed by hand is restored unchanged, and the digests agree."""
    items = []
    for number, (data, name, change) in enumerate(rows):
        item = make_item(RANKED, "s", number, f"id{number}", dict(data), {})
        if change == "gone":
            item.pop(name, None)
        elif change == "other" and name:
            item[name] = {"M": {"z": {"N": "1"}}} if name.startswith("in_") else {"S": "by hand"}
        items.append(item)
    round_trip(RANKED, items, {}, pages=pages)


@pytest.mark.parametrize(("version", "readable"), [(2, False), (3, True), (4, True), (5, False)])
def test_manifests_of_this_format_and_of_the_one_before_are_read(version: int, readable: bool) -> None:
    manifest = Manifest(
        version=version, stream="s", period="2026-03-01", table="t", layout=BY_SERIES, events=0,
        size=0, digest="0", columns={}, written_at="2026-03-02T00:00:00.000000Z", parts=(),
    )  # fmt: skip
    if readable:
        assert Manifest.decode(manifest.encode()) == manifest
    else:
        with pytest.raises(ValueError, match=f"version {version}"):
            Manifest.decode(manifest.encode())
