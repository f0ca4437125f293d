"""Which columns a part has: the fields that most events have, and the ids in the shortest form that brings them back."""

import json
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq
import pytest

from aws.archive.parquet import Parquet
from tests.worlds.parts import make_item, round_trip
from tidetable.layout import Layout

BY_SERIES = Layout("series", 2, "id")
BY_TIME = Layout("time", 2, "id", 3_600)
# The columns that every part has (docs/use/archive.md).
OWN = {"time", "series", "id", "id_hex", "shard", "accepted_at", "data", "attributes"}


def read_part(body: bytes) -> Any:
    return pq.read_table(BytesIO(body))


def fields_of(*rows: dict[str, Any], declared: dict[str, str] | None = None) -> dict[str, str]:
    """The columns besides its own that a part of some data has, and their types."""
    items = [make_item(BY_SERIES, "a", number, f"i{number}", data, {}) for number, data in enumerate(rows)]
    table = read_part(round_trip(BY_SERIES, items, declared or {}, pages=len(items)))
    assert set(table.column_names) >= OWN
    return {field.name: str(field.type) for field in table.schema if field.name not in OWN}


ONE = {"N": "1"}


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([{"x": ONE}, {"x": ONE}, {}], {"x": "double"}),
        ([{"x": ONE}, {}], {}),
        ([{"x": {"S": "a"}}, {"x": {"S": "b"}}, {"x": ONE}], {"x": "string"}),
        ([{"x": {"S": "a"}}, {"x": ONE}], {}),
        ([{"x": {"BOOL": True}}], {"x": "bool"}),
        ([{"x": {"M": {}}}, {"x": {"L": []}}], {}),
        ([{"x": {"NULL": True}}], {}),
        # Athena does not tell names of one spelling apart, whatever their case.
        ([{"Size": ONE, "size": ONE}], {"Size": "double"}),
        ([{"SERIES": ONE, "Time": ONE, "year": ONE}], {"year": "double"}),
        # Names of index attributes, and names that need quotes.
        ([{"pk_x": ONE, "PK_y": ONE, "a b": ONE, "1st": ONE, "é": ONE, "": ONE, "q": ONE}], {"q": "double"}),
        ([{"a" * 64: ONE, "b" * 65: ONE}], {"a" * 64: "double"}),
        ([{f"f{n:02d}": ONE for n in range(70)}], {f"f{n:02d}": "double" for n in range(64)}),
    ],
    ids=[
        "most have it", "half have it", "one type of most", "no type of most", "truth", "maps and lists", "null",
        "names that differ in case", "own names", "other names", "long names", "many",
    ],
)  # fmt: skip
def test_a_field_that_most_events_have_is_a_column(rows: list[dict[str, Any]], columns: dict[str, str]) -> None:
    assert fields_of(*rows) == columns


@pytest.mark.parametrize(("declared", "other"), [("mag", "Mag"), ("Mag", "mag")])
def test_a_declared_column_is_there_without_values_and_no_field_of_its_name_beside_it(
    declared: str, other: str
) -> None:
    columns = fields_of({other: ONE, "n": ONE}, declared={declared: "integer", "n": "string"})
    assert columns == {declared: "int64", "n": "string"}


@pytest.mark.parametrize("rows", [[{}], [{}, {"b": {"BOOL": True}}]], ids=["no value", "a value on the second page"])
def test_a_declared_boolean_has_its_type_without_a_value(rows: list[dict[str, Any]]) -> None:
    assert fields_of(*rows, declared={"b": "boolean"}) == {"b": "bool"}


def test_a_declared_column_has_its_values_although_the_events_hold_sets() -> None:
    """Such events are read item by item, where no column is inferred."""
    tagged = {"n": ONE, "m": ONE, "tags": {"SS": ["a"]}}
    assert fields_of(tagged, tagged, declared={"n": "integer"}) == {"n": "int64"}
    items = [
        make_item(BY_SERIES, "a", number, f"i{number}", {**tagged, "n": {"N": f"{number}"}}, {}) for number in (7, 8)
    ]
    assert read_part(round_trip(BY_SERIES, items, {"n": "integer"})).column("n").to_pylist() == [7, 8]


HEX = "0123456789abcdef"


@pytest.mark.parametrize(
    ("ids", "packed"),
    [
        ([HEX, HEX[::-1]], True),
        ([HEX * 2, HEX * 2], True),
        ([HEX + "01", "f" * 18], True),
        # Bytes would come back in another form: of half a byte, in lower case, or cut at other places.
        ([HEX + "0", "1" * 17], False),
        ([HEX.upper(), HEX], False),
        ([HEX, HEX + "01"], False),
        ([HEX, "g" * 16], False),
        ([HEX, HEX[:15] + "\n"], False),
        (["01", "02"], False),
    ],
)
def test_ids_are_bytes_only_if_they_come_back_as_they_were(ids: list[str], packed: bool) -> None:
    items = [make_item(BY_SERIES, "a", number, id, {}, {}) for number, id in enumerate(ids)]
    table = read_part(round_trip(BY_SERIES, items, {}))
    assert [id.hex() for id in table.column("id_hex").to_pylist() if id] == (ids if packed else [])
    assert [id for id in table.column("id").to_pylist() if id is not None] == ([] if packed else ids)


@pytest.mark.parametrize("layout", [BY_SERIES, BY_TIME], ids=["by series", "by time"])
@pytest.mark.parametrize("name", ["%23", "%25", "%2523", "#", "%", "a#b%c", "%#", "##"])
def test_names_with_the_signs_of_keys_are_columns_as_they_were_sent(layout: Layout, name: str) -> None:
    items = [make_item(layout, name, 0, "plain", {}, {}), make_item(layout, "plain", 1, name, {}, {})]
    table = read_part(round_trip(layout, items, {}))
    names = zip(table.column("series").to_pylist(), table.column("id").to_pylist(), strict=True)
    assert sorted(names) == sorted([(name, "plain"), ("plain", name)])


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        ("9007199254740991", True),
        ("1700000000000", True),
        ("0.1", True),
        ("0.10", False),
        ("1E+2", False),
        ("-1E+30", False),
    ],
)
def test_a_number_that_a_double_writes_otherwise_is_kept_as_text(number: str, kept: bool) -> None:
    items = [make_item(BY_SERIES, "a", 0, "i", {"x": {"N": number}}, {})]
    table = read_part(round_trip(BY_SERIES, items, {}))
    assert table.column("x").to_pylist() == [float(number)]
    assert (table.column("data").to_pylist() == ["{}"]) == kept


def test_a_part_that_says_nothing_twice_is_compressed() -> None:
    """Its files are a share of the bill: text that repeats itself is a tenth of its size, or less."""
    items = [make_item(BY_SERIES, "a", n, f"{n:032x}", {"text": {"S": "x" * 1_000}}, {}) for n in range(100)]
    writer = Parquet().writer(BY_SERIES, {})
    writer.add(json.dumps(items).encode())
    body = writer.finish()
    assert len(body) < writer.size / 10
    metadata = pq.ParquetFile(BytesIO(body)).metadata.row_group(0)
    assert {metadata.column(n).compression for n in range(metadata.num_columns)} == {"ZSTD"}
