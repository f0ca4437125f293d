"""Items whose data is passed on as text: the text has the same meaning as the values."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.dynamodb.query_answers import PlainItem, render_object, render_texts
from aws.dynamodb.wire import NAMED, plain
from tests.worlds.parts import awkward, names
from tidetable.exact_json import decode_json

DECODE = msgspec.json.Decoder(list[PlainItem]).decode
# The characters of JSON and of DynamoDB's wrappers.
letters = st.text('{}":,SNML\\\n1é\U0001f600', max_size=8)
flat = st.one_of(
    letters.map(lambda value: {"S": value}),
    st.sampled_from(["0", "-0", "1", "-2.5", "1E-30", "1E+2", "9" * 38]).map(lambda value: {"N": value}),
    st.booleans().map(lambda value: {"BOOL": value}),
    st.just({"NULL": True}),
)
datas = st.dictionaries(names, awkward, max_size=4) | st.dictionaries(letters, flat, max_size=4)


def item(data: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"pk": {"S": "p#0"}, "sk": {"S": "2026#s"}, "at": {"N": "1"}, "data": {"M": data}, **more}


@settings(max_examples=300, deadline=None)
@given(datas)
def test_the_text_is_the_data(data: dict[str, Any]) -> None:
    texts = render_texts(DECODE(msgspec.json.encode([item(data)])))
    assert texts is not None
    wanted = {name: plain(value) for name, value in data.items()}
    assert decode_json(texts[0]) == wanted
    assert decode_json(render_object(data)) == wanted


@settings(max_examples=300, deadline=None)
@given(st.lists(st.dictionaries(letters, flat, max_size=3), max_size=4))
def test_the_texts_of_a_page_are_the_data_of_its_items(many: list[dict[str, Any]]) -> None:
    texts = render_texts(DECODE(msgspec.json.encode([item(data) for data in many])))
    assert texts is not None
    wanted = [{name: plain(value) for name, value in data.items()} for data in many]
    assert [decode_json(text) for text in texts] == wanted


def test_braces_in_texts_and_names_are_no_ends_of_values() -> None:
    for data in (
        {"a": {"S": "}"}},
        {"a": {"S": "}x"}},
        {"}k": {"S": "v"}},
        {"a": {"S": "x"}, "}": {"N": "1"}},
        {"a": {"S": '{"}'}},
        {"a": {"S": 'x"}y'}},
        {"a": {"S": '"}'}, "b": {"S": "z"}},
    ):
        texts = render_texts(DECODE(msgspec.json.encode([item(data)])))
        assert texts is not None
        assert decode_json(texts[0]) == {name: plain(value) for name, value in data.items()}


def test_what_is_more_than_a_plain_event_is_left_to_the_long_way() -> None:
    more: list[dict[str, Any]] = [
        {"z": {"B": "AA=="}},
        {"out": {"M": {}}},
        {"cold": {"M": {}}},
        {"version": {"N": "1"}},
    ]
    for attributes in more:
        assert render_texts(DECODE(msgspec.json.encode([item({}), item({}, **attributes)]))) is None
    without = item({})
    del without["data"]
    assert render_texts(DECODE(msgspec.json.encode([without]))) is None


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("data", [{"a": {"M": {}}}, {"a": {"S": "{{"}}, {"a": {"L": []}, "b": {"L": []}}])
def test_an_item_without_data_is_left_to_the_long_way_whatever_is_beside_it(
    position: int, data: dict[str, Any]
) -> None:
    """The braces of one item do not stand for those that another lacks: each text is the data of its own item."""
    items = [item(data), item({"n": {"N": "1"}})]
    without = item({})
    del without["data"]
    assert render_texts(DECODE(msgspec.json.encode([*items[:position], without, *items[position:]]))) is None


@pytest.mark.parametrize("data", [{"S": "text"}, {"S": "{{"}, {"N": "1"}, {"L": [{"L": []}]}, {"NULL": True}])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_item_whose_data_is_no_map_is_left_to_the_long_way(position: int, data: dict[str, Any]) -> None:
    """Somebody else wrote it, and the events beside it are read."""
    items = [item({"a": {"M": {}}}), item({"n": {"N": "1"}})]
    other = item({}) | {"data": data}
    assert render_texts(DECODE(msgspec.json.encode([*items[:position], other, *items[position:]]))) is None
    assert render_texts(DECODE(msgspec.json.encode([other]))) is None


def test_names_that_are_data_do_not_fill_the_memory() -> None:
    for number in range(25_000):
        assert NAMED[f"name-{number}"] == f'"name-{number}":'
    assert len(NAMED) <= 10_000
