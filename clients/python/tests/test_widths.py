"""Numbers of any size in frames: no frame fails because of a number, and none loses a digit of it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import httpx
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from doubles import ManualClock
from halves import Connect
from tidetable_client import Failure


class Stage:
    """Answers the same body to every request."""

    def __init__(self, body: str) -> None:
        self.transport = httpx.MockTransport(lambda _: httpx.Response(200, content=body.encode()))


def read(connect: Connect, clock: ManualClock, numbers: Sequence[str | None], *, decimals: bool = True) -> Any:
    """A query whose rows have these numbers, as JSON, in the field n."""
    values = ",".join("null" if number is None else number for number in numbers)
    series = ",".join(['"s"'] * len(numbers))
    client = connect(Stage(f'{{"columns":{{"series":[{series}],"data.n":[{values}]}},"next":null,"gaps":[]}}'), clock)
    return client.events("quakes", limit=len(numbers), decimals=decimals)


BIG, LONG = 2**63, "12345678901234567890123456789012345678"
DEEP = "0.12345678901234567890123"


@pytest.mark.parametrize(
    ("numbers", "kind", "values"),
    [
        (["1", None, "-9223372036854775808"], pa.int64(), [1, None, -(2**63)]),
        ([str(BIG), None], pa.uint64(), [BIG, None]),
        (["18446744073709551615"], pa.uint64(), [2**64 - 1]),
        (["18446744073709551616", "1"], pa.decimal128(20, 0), [Decimal(2**64), Decimal(1)]),
        ([str(BIG), "-1"], pa.decimal128(19, 0), [Decimal(BIG), Decimal(-1)]),
        ([str(BIG), "0.5"], pa.decimal128(20, 1), [Decimal(BIG), Decimal("0.5")]),
        ([LONG, f"-{LONG}"], pa.decimal128(38, 0), [Decimal(LONG), Decimal(f"-{LONG}")]),
        ([LONG, "0.1"], pa.decimal256(39, 1), [Decimal(LONG), Decimal("0.1")]),
        ([f"{LONG}e38", "1"], pa.decimal256(76, 0), [Decimal(f"{LONG}e38"), Decimal(1)]),
        ([f"{LONG}e39", "-1.5"], pa.string(), [LONG + "0" * 39, "-1.5"]),
        ([DEEP, "9e125"], pa.string(), [DEEP, "9" + "0" * 125]),
        (["9e125", "1e-130"], pa.float64(), [9e125, 1e-130]),
        ([DEEP, None, "2"], pa.decimal128(24, 23), [Decimal(DEEP), None, Decimal(2)]),
        (["0.1", "1e300", "-2.5e-7", "3"], pa.float64(), [0.1, 1e300, -2.5e-7, 3.0]),
        (["1.50", "2"], pa.float64(), [1.5, 2.0]),
    ],
)
def test_a_column_is_as_wide_as_its_numbers(
    clock: ManualClock, connect: Connect, numbers: list[str | None], kind: pa.DataType, values: list[Any]
) -> None:
    column = pa.table(read(connect, clock, numbers).to_arrow())["n"]
    assert (column.type, column.to_pylist()) == (kind, values)


@pytest.mark.parametrize(
    ("numbers", "kind", "values"),
    [
        ([str(BIG), None], pl.UInt64, [BIG, None]),
        ([str(BIG), "-1"], pl.Decimal(38, 0), [Decimal(BIG), Decimal(-1)]),
        (["18446744073709551616", None], pl.Decimal(38, 0), [Decimal(2**64), None]),
        ([DEEP, None], pl.Decimal(38, 23), [Decimal(DEEP), None]),
        ([f"{LONG}e1", "1"], pl.String, [LONG + "0", "1"]),
        (["0.5", "1"], pl.Float64, [0.5, 1.0]),
        (["9007199254740993", None], pl.Int64, [2**53 + 1, None]),
    ],
)
def test_a_column_of_polars_is_as_wide_as_its_numbers(
    clock: ManualClock, connect: Connect, numbers: list[str | None], kind: Any, values: list[Any]
) -> None:
    column = read(connect, clock, numbers).to_polars()["n"]
    assert (column.dtype, column.to_list()) == (kind, values)


@pytest.mark.parametrize(
    ("numbers", "kind", "values"),
    [
        ([str(BIG), "1"], "uint64", [BIG, 1]),
        ([str(BIG), None], "UInt64", [BIG, pd.NA]),
        (["9007199254740993", None], "Int64", [2**53 + 1, pd.NA]),
        ([str(BIG), "-1"], "object", [BIG, -1]),
        ([DEEP, None], "object", [Decimal(DEEP), None]),
        (["0.5", "1"], "float64", [0.5, 1.0]),
        (["5", None], "float64", None),
    ],
)
def test_a_column_of_pandas_keeps_every_digit(
    clock: ManualClock, connect: Connect, numbers: list[str | None], kind: str, values: list[Any] | None
) -> None:
    column = read(connect, clock, numbers).to_pandas()["n"]
    assert str(column.dtype) == kind
    if values is not None:
        assert column.tolist() == values or [*map(str, column.tolist())] == [*map(str, values)]


def test_large_numbers_without_decimals_and_within_lists_fail_no_frame(clock: ManualClock, connect: Connect) -> None:
    for numbers in ([str(BIG), "-0.5"], [f"[{BIG}]", "[-1]"], [f'{{"a":{BIG}}}', '"text"'], [str(BIG), "true"]):
        for decimals in (True, False):
            assert len(read(connect, clock, numbers, decimals=decimals).to_polars()) == 2
            assert len(read(connect, clock, numbers, decimals=decimals).to_pandas()) == 2
            texts = [
                str(value)
                for value in pa.table(read(connect, clock, numbers, decimals=decimals).to_arrow())["n"].to_pylist()
            ]
            assert str(BIG) in texts[0]


def test_lists_of_fractions_stay_lists_of_doubles(clock: ManualClock, connect: Connect) -> None:
    column = pa.table(read(connect, clock, ["[0.5,1.5]", "[2.25]"]).to_arrow())["n"]
    assert (column.type, column.to_pylist()) == (pa.list_(pa.float64()), [[0.5, 1.5], [2.25]])


@pytest.mark.parametrize(
    ("number", "read_number"),
    [
        ("1e400", Decimal("1e400")),
        (DEEP, Decimal(DEEP)),
        ("0.5", 0.5),
        ("20.2", 20.2),
        ("18446744073709551617", 2**64 + 1),
        ("1e99999999999999999999", "1e99999999999999999999"),
    ],
)
def test_the_event_of_a_failure_keeps_its_digits(number: str, read_number: Any) -> None:
    event = Failure("s", 0, "invalid", "", f'{{"series":"a","data":{{"n":{number}}}}}'.encode()).event
    assert event == {"series": "a", "data": {"n": read_number}}
    assert type(event["data"]["n"]) is type(read_number)
