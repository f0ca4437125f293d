"""Pages whose events have one shape: their texts are the data of their items, and any other page is left to the long way."""

from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aws.dynamodb import query_answers
from aws.dynamodb.query_answers import decode_columns, decode_query
from aws.dynamodb.uniform_pages import decode_uniform_page
from aws.dynamodb.wire import plain
from tests.worlds.parts import names
from tidetable.exact_json import decode_json
from tidetable.forms.field_columns import KINDS
from tidetable.ports import FieldPage, ItemColumns, KeyRange, Page

RANGE = KeyRange("t", "p#0", None, None)
# 200 items have more than 16 KB.
COUNT = 200
# The characters of JSON and of DynamoDB's wrappers, and those of templates.
letters = st.text("{}:,SNML%s1é\U0001f600\x7f\u2028", max_size=8)
VALUES = {
    "S": letters,
    "N": st.sampled_from(["0", "-0", "1", "-2.5", "1E-30", "1E+2", "9" * 38]),
    "BOOL": st.booleans(),
}
kinds = st.dictionaries(letters | names, st.sampled_from(sorted(VALUES)), max_size=5)


def make_item(data: dict[str, Any], number: int = 0, **more: Any) -> dict[str, Any]:
    keys = {"pk": {"S": "p#0"}, "sk": {"S": f"2026-03-01T00:00:00.{number:06d}Z#s#{number}"}}
    return {**keys, "at": {"N": "1"}, "data": {"M": data}, **more}


def make_body(items: list[dict[str, Any]], **members: Any) -> bytes:
    return msgspec.json.encode(
        {"Items": items, "ScannedCount": 7, "ConsumedCapacity": {"CapacityUnits": 1.5}} | members
    )


@st.composite
def uniform_datas(draw: st.DrawFn) -> list[dict[str, Any]]:
    shape = draw(kinds)
    several = [
        {name: {letter: draw(VALUES[letter])} for name, letter in shape.items()} for _ in range(draw(st.integers(1, 4)))
    ]
    return [several[number % len(several)] for number in range(COUNT)]


@settings(max_examples=200, deadline=None)
@given(uniform_datas())
def test_the_texts_of_a_page_are_the_data_of_its_items(datas: list[dict[str, Any]]) -> None:
    items = [make_item(data, number) for number, data in enumerate(datas)]
    last = {"pk": {"S": "p#0"}, "sk": {"S": "2026#x"}}
    page = decode_uniform_page(body := make_body(items, LastEvaluatedKey=last))
    if b"\\" in body:
        assert page is None
        return
    assert page is not None
    assert page.sks == [item["sk"]["S"] for item in items]
    wanted = [{name: plain(value) for name, value in data.items()} for data in datas]
    assert [decode_json(text) for text in page.list_texts()] == wanted
    assert page.list_texts() == [msgspec.json.encode(each).decode() for each in map(_spell, datas)]
    read = decode_query(RANGE, body, texts=True)
    assert read.columns == ItemColumns(["p#0"] * COUNT, page.sks, page.list_texts())
    assert (read.more, read.units, read.read, read.last) == (True, 1.5, 7, {"pk": "p#0", "sk": "2026#x"})


KIND_NAMES = {"S": "string", "N": "number", "BOOL": "boolean"}


@settings(max_examples=100, deadline=None)
@given(uniform_datas())
@example([{"a.b": {"N": "1"}, "c": {"BOOL": False}}] * COUNT)
def test_the_columns_of_a_page_are_the_fields_of_its_items(datas: list[dict[str, Any]]) -> None:
    """A name with a dot is a path through maps, which such a page does not have."""
    items = [make_item(data, number) for number, data in enumerate(datas)]
    page = decode_columns(RANGE, body := make_body(items), [*datas[0], "a.b", "missing", KINDS])
    if b"\\" in body:
        assert isinstance(page, Page)
        return
    assert isinstance(page, FieldPage)
    assert (page.sks, page.others) == ([item["sk"]["S"] for item in items], [])
    assert (page.more, page.units, page.read, page.last) == (False, 1.5, 7, None)
    *columns, dotted, missing, kinds = page.values
    for name, column in zip(datas[0], columns, strict=True):
        wanted = [None if "." in name else plain(data[name]) for data in datas]
        assert [(type(value), value) for value in column] == [(type(value), value) for value in wanted]
    assert [dotted, missing] == [[None] * COUNT] * 2
    assert kinds == [{(name, KIND_NAMES[letter]) for name, value in data.items() for letter in value} for data in datas]


def _spell(data: dict[str, Any]) -> dict[str, Any]:
    """The data with DynamoDB's spelling of numbers."""
    return {
        name: msgspec.Raw(value["N"].encode()) if "N" in value else value.get("S", value.get("BOOL"))
        for name, value in data.items()
    }


USUAL: dict[str, Any] = {"mag": {"N": "1.50"}, "place": {"S": "sea, 10 %"}, "felt": {"BOOL": False}}


def test_an_event_has_its_own_values() -> None:
    items = [make_item(USUAL, number) for number in range(COUNT)]
    items[7] = make_item({"place": {"S": "}"}, "felt": {"BOOL": True}, "mag": {"N": "-0"}}, 7)
    page = decode_uniform_page(make_body(items))
    assert page is not None
    assert page.list_texts()[6] == '{"mag":1.50,"place":"sea, 10 %","felt":false}'
    assert page.list_texts()[7] == '{"mag":-0,"place":"}","felt":true}'
    assert page.sks[7] == "2026-03-01T00:00:00.000007Z#s#7"
    assert len(page.list_texts()) == len(page.sks) == COUNT


OTHERS: list[dict[str, Any]] = [
    make_item(USUAL | {"more": {"N": "1"}}),
    make_item({"mag": {"N": "1.50"}, "place": {"S": "sea"}}),
    make_item(USUAL | {"mag": {"S": "1.50"}}),
    make_item(USUAL | {"place": {"N": "1"}}),
    make_item(USUAL | {"felt": {"NULL": True}}),
    make_item(USUAL | {"place": {"M": {}}}),
    make_item(USUAL | {"place": {"S": 'a "quoted" name'}}),
    make_item(USUAL | {"place": {"S": "two\nlines"}}),
    make_item(USUAL, z={"B": "AA=="}),
    make_item(USUAL, out={"M": {}}),
    make_item(USUAL, cold={"M": {}}),
    make_item(USUAL, version={"N": "1"}),
    make_item(USUAL) | {"data": {"S": "text"}},
    {name: value for name, value in make_item(USUAL).items() if name != "data"},
]


@pytest.mark.parametrize("position", [0, 1, COUNT - 1])
@pytest.mark.parametrize("other", OTHERS)
def test_a_page_with_an_item_of_another_shape_is_left_to_the_long_way(other: dict[str, Any], position: int) -> None:
    items = [make_item(USUAL, number) for number in range(COUNT)]
    items[position] = other
    assert decode_uniform_page(make_body(items)) is None
    read = decode_query(RANGE, make_body(items), texts=True)
    assert decode_columns(RANGE, make_body(items), ["mag", KINDS]) == read
    plain_data = {name: plain(value) for name, value in USUAL.items()}
    assert [item["data"] for number, item in enumerate(read.items) if number != position] == [plain_data] * (COUNT - 1)


@pytest.mark.parametrize(
    "data",
    [{"deep": {"M": {"a": {"N": "1"}}}}, {"many": {"L": []}}, {f"f{n}": {"N": "1"} for n in range(65)}],
    ids=["a map", "a list", "many fields"],
)
def test_a_page_of_other_values_or_of_many_fields_is_left_to_the_long_way(data: dict[str, Any]) -> None:
    assert decode_uniform_page(make_body([make_item(data)] * COUNT)) is None


def test_a_small_page_is_left_to_the_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_answers, "decode_uniform_page", lambda body: pytest.fail(f"{len(body)} bytes"))
    page = decode_query(RANGE, make_body([make_item(USUAL)] * 9), texts=True)
    assert page.columns.contents == ['{"mag":1.50,"place":"sea, 10 %","felt":false}'] * 9
    assert decode_columns(RANGE, make_body([make_item(USUAL)] * 9), [KINDS]) == page


def test_the_data_of_another_attribute_is_not_the_data_of_the_event() -> None:
    """The copy for an index comes first, and has a field with the name of the data."""
    copy = {"in_kind": {"M": {"data": {"M": {"n": {"N": "1"}}}}}}
    assert decode_uniform_page(make_body([{**copy, **make_item(USUAL)}] * COUNT)) is None
    same = {"in_kind": {"M": {"data": {"M": USUAL}}}}
    page = decode_uniform_page(make_body([{**same, **make_item(USUAL)}] * COUNT))
    assert page is not None
    assert set(page.list_texts()) == {'{"mag":1.50,"place":"sea, 10 %","felt":false}'}


@pytest.mark.parametrize("body", [b"", b"[]", b'{"Items":[{"data":{"M":[1]}}]}', b'{"Items":[{"data":{"M":{"a":1}}}]}'])
def test_what_is_no_answer_is_left_to_the_long_way(body: bytes) -> None:
    assert decode_uniform_page(body + b" " * 20_000) is None
