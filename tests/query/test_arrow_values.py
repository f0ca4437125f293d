"""Values in Arrow: those that fit their typed column, and those that stay in the JSON."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.arrow import encode_stream
from tests.query.arrow_tables import ARROW, TYPES, ask, events_of, sample, stored, table_of
from tests.query.stored_events import START
from tidetable.events import Event
from tidetable.exact_json import decode_json
from tidetable.ports import TypedColumn
from tidetable.query import AnswerForm, render_answer
from tidetable.times import from_text

# Values that their column cannot hold exactly: the JSON has them with all their digits, the column null or the nearest double.
MISFITS = [
    ("n", Decimal("1.5"), "1.5"),
    ("n", 2**63, "9223372036854775808"),
    ("n", "5", '"5"'),
    ("n", True, "true"),
    ("mag", 2**53 + 1, "9007199254740993"),
    ("mag", Decimal("0.12345678901234567890123456789012345678"), "0.12345678901234567890123456789012345678"),
    ("mag", "4.5", '"4.5"'),
    ("mag", False, "false"),
    ("cost", Decimal("1.555"), "1.555"),
    ("cost", 10000, "10000"),
    ("ok", 1, "1"),
    ("status", 7, "7"),
    ("status", ["a"], '["a"]'),
]


NEAREST = {"9007199254740993": 9007199254740992.0, "0.12345678901234567890123456789012345678": 0.12345678901234568}


@pytest.mark.parametrize(("field", "value", "text"), MISFITS)
@pytest.mark.parametrize("day", [0, 1], ids=["archive", "table"])
def test_a_value_that_does_not_fit_its_column_stays_in_the_json_and_is_counted(
    field: str, value: Any, text: str, day: int
) -> None:
    answer = ask(stored([sample(24 * day, **{field: value, "other": None})]))
    (row,) = table_of(answer).to_pylist()
    assert row[field] == NEAREST.get(text)
    assert row["data"] == f'{{"{field}":{text},"other":null}}'
    assert render_answer(answer, ARROW, encode_stream).untyped == {field: 1}


FITS = [
    ("n", -(2**63), -(2**63)),
    ("mag", 2**53, 2.0**53),
    ("mag", Decimal("0.1"), 0.1),
    ("mag", Decimal("1E+25"), 1e25),
    ("cost", Decimal("-9999.99"), Decimal("-9999.99")),
    ("cost", 0, Decimal("0.00")),
    ("ok", False, False),
    ("status", "", ""),
]


@pytest.mark.parametrize(("field", "value", "shown"), FITS)
def test_a_value_that_fits_its_column_is_there_alone(field: str, value: Any, shown: Any) -> None:
    answer = ask(stored([sample(24, **{field: value}), sample(25)]))
    first, second = table_of(answer).to_pylist()
    assert (first[field], first["data"]) == (shown, "{}")
    assert (second[field], second["data"]) == (None, "{}")
    assert render_answer(answer, ARROW, encode_stream).untyped == {}


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=5),
    st.integers(-(2**65), 2**65),
    st.decimals(-10_000, 10_000, allow_nan=False, places=3),
    st.sampled_from([Decimal("0.1"), Decimal("1E+30"), Decimal("1E-20"), 2**53, 5, Decimal("3.25")]),
)


_DATA = st.dictionaries(st.sampled_from([*TYPES, "data", "ref", "x.y"]), st.one_of(_SCALARS, st.lists(_SCALARS)))


@settings(max_examples=60, deadline=None)
@given(
    data=st.lists(_DATA, max_size=12),
    fields=st.sampled_from(["", "*", "mag", "n,ref,data", "status.x,ok"]),
    limit=st.sampled_from(["1", "3", "100"]),
)
def test_arrow_is_the_json_of_the_same_query(data: list[dict[str, Any]], fields: str, limit: str) -> None:
    base = stored([sample(9 * number, **values) for number, values in enumerate(data)])
    parameters = {"limit": limit} | ({"fields": fields} if fields else {})
    schemas = set()
    while True:
        answer = ask(base, **parameters)
        table = table_of(answer)
        schemas.add(str(table.schema))
        assert events_of(table) == decode_json(render_answer(answer, AnswerForm(), encode_stream).body)["events"]
        if answer.next is None:
            break
        parameters = {"cursor": answer.next, "limit": limit}
    assert len(schemas) == 1


def test_ten_thousand_events_are_a_table_without_a_loop() -> None:
    count = 10_000
    base = stored(
        [
            Event("a", START + timedelta(days=1, seconds=number), f"{number:05}", {"mag": number, "n": number})
            for number in range(count)
        ]
    )
    table = table_of(ask(base, limit=str(count)))
    assert table.num_rows == count
    assert table["mag"].to_numpy().sum() == 49_995_000.0
    assert table["time"][-1].as_py() - table["time"][0].as_py() == timedelta(seconds=count - 1)
    assert pa.compute.all(pa.compute.equal(table["data"], "{}")).as_py()


def test_nulls_and_every_type_are_written_as_pyarrow_reads_them() -> None:
    columns = [
        TypedColumn("text", "string", [None, "a\0é", ""]),
        TypedColumn("truth", "boolean", [True, None, False]),
        TypedColumn("whole", "integer", [2**63 - 1, -(2**63), None]),
        TypedColumn("number", "double", [None, None, None]),
        TypedColumn("instant", "time", [0, None, 253_370_764_799_999_999]),
        TypedColumn("money", "decimal(38, 2)", [-(10**37), None, 10**38 - 1]),
    ]
    table = pa.ipc.open_stream(encode_stream(columns)).read_all()
    table.validate(full=True)
    assert table["text"].to_pylist() == [None, "a\0é", ""]
    assert table["truth"].to_pylist() == [True, None, False]
    assert table["whole"].to_pylist() == [9_223_372_036_854_775_807, -9_223_372_036_854_775_808, None]
    assert table["number"].to_pylist() == [None, None, None]
    assert table["instant"].to_pylist() == [
        from_text("1970-01-01T00:00:00.000000Z"),
        None,
        from_text("9998-12-31T23:59:59.999999Z"),
    ]
    assert table["money"].to_pylist() == [Decimal("-1E+35"), None, Decimal("9" * 36 + ".99")]


def test_a_table_without_rows_is_its_schema_and_a_table_without_columns_is_empty() -> None:
    reader = pa.ipc.open_stream(encode_stream([TypedColumn("n", "integer", []), TypedColumn("d", "decimal(5,1)", [])]))
    assert reader.schema.equals(pa.schema([("n", pa.int64()), ("d", pa.decimal128(5, 1))]))
    assert list(reader) == []
    assert pa.ipc.open_stream(encode_stream([])).read_all().num_rows == 0


@pytest.mark.parametrize("rows", [7, 8, 9, 17])
def test_decimals_with_and_without_nulls_have_a_bit_for_each_row(rows: int) -> None:
    whole = [TypedColumn("d", "decimal(5,1)", list(range(rows))), TypedColumn("n", "decimal(5,1)", [None] * rows)]
    table = pa.ipc.open_stream(encode_stream(whole)).read_all()
    table.validate(full=True)
    assert table["d"].to_pylist() == [Decimal(number) / 10 for number in range(rows)]
    assert table["n"].null_count == rows
