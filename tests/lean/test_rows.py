"""Items whose data is passed through as text: it says what the values would have said."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.lean.rows import Quick, object_text, quick_items
from aws.wire import NAMED, plain
from tests.worlds.parts import awkward, names
from tidetable.exact import decode_json

DECODE = msgspec.json.Decoder(list[Quick]).decode
# What JSON and DynamoDB's wrappers are made of.
letters = st.text('{}":,SNML\\\n1', max_size=8)
flat = st.one_of(
    letters.map(lambda one: {"S": one}),
    st.sampled_from(["1", "-2.5", "1E-30"]).map(lambda one: {"N": one}),
    st.booleans().map(lambda one: {"BOOL": one}),
    st.just({"NULL": True}),
)
datas = st.dictionaries(names, awkward, max_size=4) | st.dictionaries(letters, flat, max_size=4)


def item(data: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"pk": {"S": "p#0"}, "sk": {"S": "2026#s"}, "at": {"N": "1"}, "data": {"M": data}, **more}


@settings(max_examples=300, deadline=None)
@given(datas)
def test_the_text_is_the_data(data: dict[str, Any]) -> None:
    found = quick_items(DECODE(msgspec.json.encode([item(data)])), "p#0")
    assert found is not None
    wanted = {name: plain(value) for name, value in data.items()}
    assert decode_json(found[0]["json"]) == wanted
    assert decode_json(object_text(data)) == wanted
    assert (found[0]["pk"], found[0]["sk"]) == ("p#0", "2026#s")


@settings(max_examples=300, deadline=None)
@given(st.lists(st.dictionaries(letters, flat, max_size=3), max_size=4))
def test_the_texts_of_a_page_are_the_data_of_its_items(many: list[dict[str, Any]]) -> None:
    found = quick_items(DECODE(msgspec.json.encode([item(data) for data in many])), "p#0")
    assert found is not None
    wanted = [{name: plain(value) for name, value in data.items()} for data in many]
    assert [decode_json(one["json"]) for one in found] == wanted


def test_braces_in_texts_and_names_are_no_ends_of_values() -> None:
    for data in (
        {"a": {"S": "}"}},
        {"a": {"S": "}x"}},
        {"}k": {"S": "v"}},
        {"a": {"S": "x"}, "}": {"N": "1"}},
        {"a": {"S": '{"}'}},
    ):
        found = quick_items(DECODE(msgspec.json.encode([item(data)])), "p#0")
        assert found is not None
        assert decode_json(found[0]["json"]) == {name: plain(value) for name, value in data.items()}


def test_what_is_more_than_a_plain_event_is_left_to_the_long_way() -> None:
    more: list[dict[str, Any]] = [
        {"z": {"B": "AA=="}},
        {"out": {"M": {}}},
        {"cold": {"M": {}}},
        {"version": {"N": "1"}},
    ]
    for one in more:
        assert quick_items(DECODE(msgspec.json.encode([item({}), item({}, **one)])), "p#0") is None
    without = item({})
    del without["data"]
    assert quick_items(DECODE(msgspec.json.encode([without])), "p#0") is None


def test_names_that_are_data_do_not_fill_the_memory() -> None:
    for number in range(25_000):
        assert NAMED[f"name-{number}"] == f'"name-{number}":'
    assert len(NAMED) <= 10_000
