"""Values that their declared column cannot hold: the client fills the column, and warns once per call."""

from __future__ import annotations

import warnings
from decimal import Decimal
from linecache import getline
from typing import Any

import httpx
import pyarrow as pa
import pytest

from doubles import ManualClock
from halves import Connect
from tidetable_client import Client, UntypedWarning, frames

TYPE = {"Content-Type": "application/vnd.apache.arrow.stream"}


def make_page(columns: dict[str, Any], untyped: str = "", following: str | None = None) -> httpx.Response:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = TYPE | ({"Tidetable-Untyped-Columns": untyped, "Tidetable-Untyped": "1"} if untyped else {})
    headers |= {"Tidetable-Next": following} if following else {}
    return httpx.Response(200, content=sink.getvalue().to_pybytes(), headers=headers)


class Stage:
    """Answers these pages in turn."""

    def __init__(self, *pages: httpx.Response) -> None:
        left = list(pages)
        self.transport = httpx.MockTransport(lambda _: left.pop(0))


def read(connect: Connect, clock: ManualClock, form: str, *pages: httpx.Response) -> tuple[Any, list[str]]:
    """A frame of the pages as a pyarrow table, and the warnings of the call."""
    client = connect(Stage(*pages), clock)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # The garbage collector closes what other tests of this process left, at a moment of its own choice.
        warnings.simplefilter("ignore", ResourceWarning)
        frame = getattr(client.events("quakes"), form)()
    assert {entry.category for entry in caught} <= {UntypedWarning}
    if isinstance(client, Client):  # with asyncio, the loop calls the method of this test
        places = {(entry.filename, getline(entry.filename, entry.lineno).strip()) for entry in caught}
        assert places <= {(__file__, 'frame = getattr(client.events("quakes"), form)()')}
    table = pa.Table.from_pandas(frame, preserve_index=False) if form == "to_pandas" else pa.table(frame)
    return table, [str(entry.message) for entry in caught]


FORMS = ("to_arrow", "to_pandas", "to_polars")


@pytest.mark.parametrize("form", FORMS)
def test_an_integer_column_becomes_a_double_for_fractions(clock: ManualClock, connect: Connect, form: str) -> None:
    first = make_page({"ms": pa.array([20, None], pa.int64()), "data": ["{}", '{"ms":20.2}']}, "ms=1", "next")
    second = make_page({"ms": pa.array([None, None], pa.int64()), "data": ['{"ms":-0.5,"x":1}', '{"x":2}']}, "ms=1")
    table, said = read(connect, clock, form, first, second)
    values = table["ms"].to_pylist()
    assert values[:3] == [20.0, 20.2, -0.5]
    assert values[3] is None or values[3] != values[3]
    assert table["data"].to_pylist()[1] == '{"ms":20.2}'
    assert len(said) == 1
    assert "values do not fit the declared type of their column: ms (2)" in said[0]


@pytest.mark.parametrize(
    ("column", "rest", "kind", "values"),
    [
        (pa.array([1, None], pa.int64()), f'{{"n":{2**63}}}', pa.uint64(), [1, 2**63]),
        (pa.array([-1, None], pa.int64()), f'{{"n":{2**63}}}', pa.decimal128(19, 0), [Decimal(-1), Decimal(2**63)]),
        (pa.array([2**60 + 1, None], pa.int64()), '{"n":0.5}', pa.decimal128(20, 1), [Decimal(2**60 + 1), Decimal("0.5")]),
        (
            pa.array([Decimal("1.25"), None], pa.decimal128(5, 2)),
            '{"n":1.125}', pa.decimal128(4, 3), [Decimal("1.250"), Decimal("1.125")],
        ),
        # A text is no number, a number is no text, and the nearest double stays.
        (pa.array([1, None], pa.int64()), '{"n":"x"}', pa.int64(), [1, None]),
        (pa.array([1, None], pa.int64()), '{"n":true}', pa.int64(), [1, None]),
        (pa.array(["a", None]), '{"n":5}', pa.string(), ["a", None]),
        (pa.array([True, None]), '{"n":5}', pa.bool_(), [True, None]),
        (pa.array([0.5, 0.1]), '{"n":0.1000000000000000000000001}', pa.float64(), [0.5, 0.1]),
    ],
)  # fmt: skip
def test_a_column_takes_the_numbers_that_a_wider_type_holds(
    clock: ManualClock, connect: Connect, column: pa.Array, rest: str, kind: pa.DataType, values: list[Any]
) -> None:
    table, said = read(connect, clock, "to_arrow", make_page({"n": column, "data": ["{}", rest]}, "n=1"))
    assert (table["n"].type, table["n"].to_pylist()) == (kind, values)
    assert len(said) == 1


@pytest.mark.parametrize("form", FORMS)
def test_groups_of_statistics_are_filled_too(clock: ManualClock, connect: Connect, form: str) -> None:
    columns = {"group.ms": pa.array([1, None], pa.int64()), "count": [1, 2], "group": ["{}", '{"ms":1.5}']}
    table, said = read(connect, clock, form, make_page(columns, "group.ms=1"))
    assert table["group.ms"].to_pylist() == [1.0, 1.5]
    assert "group.ms (1)" in said[0]


@pytest.mark.parametrize("form", FORMS)
def test_an_answer_whose_values_fit_is_not_changed(clock: ManualClock, connect: Connect, form: str) -> None:
    """Its data may have a field with the name of another column."""
    table, said = read(connect, clock, form, make_page({"ms": [1, 2], "data": ['{"ms":1.5}', "{}"]}))
    assert (table["ms"].to_pylist(), said) == ([1, 2], [])


def test_without_pyarrow_the_columns_are_named(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The header names the columns, so nothing has to be decoded."""
    monkeypatch.setattr(frames, "_find_module", lambda *_: None)
    page = make_page({"ms": pa.array([None], pa.int64()), "data": ['{"ms":1.5}']}, "ms=1,gr%C3%B6%C3%9Fe=2")
    client = Client("http://tides.test", "key", transport=httpx.MockTransport(lambda _: page), clock=clock)
    with pytest.warns(UntypedWarning, match=r"größe \(2\), ms \(1\)"):
        found = client.events("quakes").to_arrow()
    assert found.streams == [page.content]
