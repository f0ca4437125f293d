"""Query's answers as columns of fields: whatever DynamoDB may answer has the values that the whole items have."""

import json
from decimal import Decimal
from typing import Any

import pytest

from aws.dynamodb.fields import decode_fields


def answer(*items: dict[str, Any], **members: Any) -> bytes:
    return json.dumps({"Items": items, "ScannedCount": len(items), **members}).encode()


def item(sk: str, **data: Any) -> dict[str, Any]:
    return {"pk": {"S": "p#0"}, "sk": {"S": sk}, "at": {"N": "1"}, "data": {"M": data}}


def test_columns_have_texts_numbers_and_booleans_and_nothing_else() -> None:
    nested = {"M": {"b": {"N": "2"}, "c": {"L": []}}}
    page = decode_fields(
        answer(
            item("1", a={"N": "1.5"}, m=nested),
            item("2", a={"S": "x"}),
            item("3", a={"BOOL": False}, m={"S": "no map"}),
            item("4", a={"NULL": True}, m={"M": {"b": {"SS": ["s"]}}}),
            item("5", a={"L": [{"N": "1"}]}),
            {"pk": {"S": "p#0"}, "sk": {"S": "6"}},
        ),
        ("a", "m.b", "m.c"),
    )
    assert page.sks == ["1", "2", "3", "4", "5", "6"]
    assert page.values == [
        [Decimal("1.5"), "x", False, None, None, None],
        [Decimal(2), None, None, None, None, None],
        [None] * 6,
    ]
    assert (page.others, page.more, page.units, page.last, page.read) == ([], False, 0.0, None, 6)


def test_columns_of_one_kind() -> None:
    page = decode_fields(
        answer(item("1", a={"N": "1E+2"}, b={"S": "x"}), item("2", a={"N": "7"}, b={"S": ""})), ("a", "b")
    )
    assert page.values == [[Decimal(100), Decimal(7)], ["x", ""]]


@pytest.mark.parametrize("name", ["a\\b", 'a"b', "a\nb", "\x00", "\u2028", "\U0001f600"])
def test_a_field_may_have_any_characters(name: str) -> None:
    items = [item("1", **{name: {"N": "1"}, "c": {"M": {"d": {"S": "x"}}}}), item("2", **{name: {"L": []}}), item("3")]
    page = decode_fields(answer(*items), (name, "c.d", name + "x"))
    assert page.values == [[Decimal(1), None, None], ["x", None, None], [None] * 3]


def test_items_whose_data_is_elsewhere_stay_items() -> None:
    outside = {"pk": {"S": "p#0"}, "sk": {"S": "2"}, "out": {"S": "key"}}
    squeezed = {"pk": {"S": "p#0"}, "sk": {"S": "3"}, "z": {"B": "eA=="}}
    last = {"pk": {"S": "p#0"}, "sk": {"S": "3"}}
    page = decode_fields(
        answer(
            item("1", a={"N": "1"}), outside, squeezed, LastEvaluatedKey=last, ConsumedCapacity={"CapacityUnits": 1.5}
        ),
        ("a",),
    )
    assert (page.sks, page.values) == (["1"], [[Decimal(1)]])
    assert page.others == [{"pk": "p#0", "sk": "2", "out": "key"}, {"pk": "p#0", "sk": "3", "z": b"x"}]
    assert (page.more, page.units, page.last, page.read) == (True, 1.5, {"pk": "p#0", "sk": "3"}, 3)


def test_a_page_with_data_that_is_no_map_is_read_as_items() -> None:
    odd = {"pk": {"S": "p#0"}, "sk": {"S": "2"}, "data": {"M": "text"}}
    page = decode_fields(answer(item("1", a={"N": "1"}), {**odd, "data": {"S": "text"}}), ("a",))
    assert (page.sks, page.values) == (["1", "2"], [[Decimal(1), None]])
