"""DynamoDB's JSON, written out: items, the requests that put them, and attribute values read back."""

import json
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from boto3.dynamodb.types import Binary
from msgspec import Raw

from aws.dynamodb import wire
from aws.dynamodb.wire import (
    Named,
    decode_item,
    decode_value,
    encode_item,
    encode_items,
    encode_put,
    encode_transaction_put,
    encode_value,
    make_requests,
    plain,
    split_batches,
)
from tests.worlds.codec import to_wire
from tidetable.ports import Guarded, Put

TRICKY = 'é"\\\n\x00😀'


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("", {"S": ""}),
        (TRICKY, {"S": TRICKY}),
        (5, {"N": "5"}),
        (-(10**37), {"N": "-1" + "0" * 37}),
        (Decimal("2.50"), {"N": "2.50"}),
        (True, {"BOOL": True}),
        (False, {"BOOL": False}),
        (None, {"NULL": True}),
        ([], {"L": []}),
        ([1, "a", [None]], {"L": [{"N": "1"}, {"S": "a"}, {"L": [{"NULL": True}]}]}),
        ({}, {"M": {}}),
        ({'a"b': {"c": 1}}, {"M": {'a"b': {"M": {"c": {"N": "1"}}}}}),
        (MappingProxyType({"c": 1}), {"M": {"c": {"N": "1"}}}),
        (b"\xff\xef\xbe", {"B": "/+++"}),
        (Binary(b"\xff\xef\xbe"), {"B": "/+++"}),
        ({'a"b'}, {"SS": ['a"b']}),
        (frozenset({"a"}), {"SS": ["a"]}),
        ({7}, {"NS": ["7"]}),
        ({Decimal("2.50")}, {"NS": ["2.50"]}),
        ({b"\x00\x01\x02"}, {"BS": ["AAEC"]}),
    ],
)
def test_each_value_is_written_as_its_attribute_value(value: Any, written: dict[str, Any]) -> None:
    assert json.loads(encode_value(value)) == written
    # In the data of an event, and in an item with more attributes.
    event = {"pk": "p#0", "sk": TRICKY, "at": 7, "data": {"v": value, "w": "x"}}
    texts = {"pk": {"S": "p#0"}, "sk": {"S": TRICKY}, "at": {"N": "7"}, "data": {"M": {"v": written, "w": {"S": "x"}}}}
    assert json.loads(encode_item(event)) == texts
    # By columns: alone, with its like, and with events of other fields.
    other = {"pk": "p#0", "sk": "o", "at": 7, "data": {"v": "x%s", "w": 5}}
    assert json.loads(encode_items([event])[0]) == texts
    for more in ([event, other], [other, {"pk": "p", "sk": "s", "n": 1}, other | {"data": {"%": 1}}, event]):
        assert list(map(json.loads, encode_items(more))) == [json.loads(encode_item(item)) for item in more]
    assert json.loads(encode_item({**event, "in_x": value})) == texts | {"in_x": written}


@pytest.mark.parametrize(
    ("item", "written"),
    [
        (
            {"pk": "p", "sk": "s", "at": 1, "data": None},
            {"pk": {"S": "p"}, "sk": {"S": "s"}, "at": {"N": "1"}, "data": {"NULL": True}},
        ),
        (
            {"pk": "p", "sk": "s", "version": 1, "data": {"a": "b"}},
            {"pk": {"S": "p"}, "sk": {"S": "s"}, "version": {"N": "1"}, "data": {"M": {"a": {"S": "b"}}}},
        ),
        (
            {"pk": "p", "sk": "s", "at": 1, "pack": {}},
            {"pk": {"S": "p"}, "sk": {"S": "s"}, "at": {"N": "1"}, "pack": {"M": {}}},
        ),
    ],
)
def test_an_item_of_four_attributes_need_not_be_an_event(item: dict[str, Any], written: dict[str, Any]) -> None:
    assert json.loads(encode_item(item)) == written


@pytest.mark.parametrize(
    ("written", "value", "in_data"),
    [
        ({"S": "a"}, "a", "a"),
        ({"N": "2.50"}, Decimal("2.50"), Decimal("2.50")),
        ({"BOOL": False}, False, False),
        ({"NULL": True}, None, None),
        ({"L": [{"N": "1"}, {"NULL": True}]}, [1, None], [1, None]),
        ({"M": {"a": {"B": "AAEC"}}}, {"a": b"\x00\x01\x02"}, {"a": "AAEC"}),
        ({"L": [{"BS": ["AAEC"]}]}, [{b"\x00\x01\x02"}], [["AAEC"]]),
        ({"B": "AAEC"}, b"\x00\x01\x02", "AAEC"),
        ({"SS": ["a", "b"]}, {"a", "b"}, ["a", "b"]),
        ({"NS": ["1", "2.5"]}, {Decimal(1), Decimal("2.5")}, [Decimal(1), Decimal("2.5")]),
        ({"BS": ["AAEC", "/+8="]}, {b"\x00\x01\x02", b"\xff\xef"}, ["AAEC", "/+8="]),
    ],
)
def test_an_attribute_value_is_read_as_it_is_and_in_data_as_json_has_it(
    written: dict[str, Any], value: Any, in_data: Any
) -> None:
    assert decode_value(written) == value
    assert decode_item({"x": written}) == {"x": value}
    found = plain(written)
    assert (found, type(found)) == (in_data, type(in_data))
    if "NS" in written:
        assert [type(number) for number in found] == [Decimal, Decimal]


def test_binary_values_that_boto3_has_read_are_bytes_already() -> None:
    assert decode_value({"B": b"\x00\x01\x02"}) == b"\x00\x01\x02"
    assert decode_value({"BS": [b"AAEC"]}) == {b"AAEC"}


ITEM = {"pk": "p#0", "sk": "s", "at": 7, "data": {"v": 1}}
WRITTEN = {"pk": {"S": "p#0"}, "sk": {"S": "s"}, "at": {"N": "7"}, "data": {"M": {"v": {"N": "1"}}}}


@pytest.mark.parametrize(
    ("guard", "members"),
    [
        (None, {}),
        ("absent", {"ConditionExpression": "attribute_not_exists(pk)"}),
        (
            "newer",
            {
                "ConditionExpression": "attribute_not_exists(pk) OR attribute_not_exists(#at) OR #at <= :at",
                "ExpressionAttributeNames": {"#at": "at"},
                "ExpressionAttributeValues": {":at": {"N": "7"}},
            },
        ),
        (
            3,
            {
                "ConditionExpression": "#version = :version",
                "ExpressionAttributeNames": {"#version": "version"},
                "ExpressionAttributeValues": {":version": {"N": "3"}},
            },
        ),
    ],
)
def test_a_put_has_its_condition_alone_and_in_a_transaction(guard: Any, members: dict[str, Any]) -> None:
    put = Put("t", ITEM)
    request = {"TableName": "t", "Item": WRITTEN, **members}
    assert json.loads(encode_transaction_put(Guarded(put, guard))) == {"Put": request}
    assert json.loads(encode_put(put, guard)) == {
        **request,
        "ReturnConsumedCapacity": "TOTAL",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def test_a_batch_is_of_one_table_and_says_what_it_took() -> None:
    puts = [Put("t", ITEM), Put("t", {**ITEM, "sk": "z"})]
    items = [{"PutRequest": {"Item": WRITTEN}}, {"PutRequest": {"Item": {**WRITTEN, "sk": {"S": "z"}}}}]
    ((batch, body),) = make_requests(puts)
    assert batch == puts
    assert json.loads(body) == {"RequestItems": {"t": items}, "ReturnConsumedCapacity": "TOTAL"}


def batched(*puts: tuple[str, str, int]) -> list[list[str]]:
    """The batches of so many puts of each table and partition, in this order: a put is told by its three names."""
    many = [Put(table, {"pk": pk, "sk": str(number)}) for table, pk, count in puts for number in range(count)]
    batches = split_batches([(put, "") for put in many])
    return [[f"{put.table}{put.item['pk']}{put.item['sk']}" for put, _ in batch] for batch in batches]


def test_batches_take_tables_and_partitions_in_turn() -> None:
    """Written in the order of a request each batch would hit one partition."""
    assert batched() == []
    assert batched(("t", "a", 2), ("t", "b", 1), ("t", "c", 3)) == [["ta0", "tb0", "tc0", "ta1", "tc1", "tc2"]]
    assert batched(("t", "a", 1), ("u", "a", 1), ("t", "b", 1)) == [["ta0", "tb0"], ["ua0"]]
    # AWS: a batch has 25 puts.
    sizes = [(batch[0][0], len(batch)) for batch in batched(("t", "a", 51), ("u", "a", 26))]
    assert sizes == [("t", 25), ("u", 25), ("t", 25), ("u", 1), ("t", 1)]


def test_names_are_cached_until_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keys of a map by user are data: such names must not fill the memory of a function that lives for hours."""
    monkeypatch.setattr(wire, "_MOST_NAMES", 2)
    named = Named()
    texts = []
    for name in ("a", 'b"', "c", "a"):
        texts.append(named[name])
        assert len(named) <= 2
    assert texts == ['"a":', '"b\\"":', '"c":', '"a":']


def test_a_number_that_dynamodb_wrote_with_its_zeros_is_written_as_it_is() -> None:
    """boto3 refuses numbers of more than 38 digits, and zeros at the end are not counted by DynamoDB."""
    zeros = "7" + "0" * 40
    assert to_wire({"n": Decimal(zeros), "i": 5, "t": "x"}) == {"n": {"N": zeros}, "i": {"N": "5"}, "t": {"S": "x"}}


RAW_COLUMNS = [
    (['"a"', '"%s é"'], [{"S": "a"}, {"S": "%s é"}]),
    (["1.50", "-7"], [{"N": "1.50"}, {"N": "-7"}]),
    (["true", "false", "null"], [{"BOOL": True}, {"BOOL": False}, {"NULL": True}]),
    (['"1"', "1", "true"], [{"S": "1"}, {"N": "1"}, {"BOOL": True}]),
]


@pytest.mark.parametrize(("values", "written"), RAW_COLUMNS)
def test_json_that_was_not_decoded_is_written_as_its_value(values: list[str], written: list[Any]) -> None:
    raw = [{"pk": "p", "sk": str(n), "at": 1, "data": {"%d": Raw(value.encode())}} for n, value in enumerate(values)]
    assert [json.loads(text)["data"]["M"]["%d"] for text in encode_items(raw)] == written
    assert [json.loads(encode_item(item))["data"]["M"]["%d"] for item in raw] == written


def test_objects_are_written_by_columns_and_shared_objects_are_written_alike() -> None:
    shared = {"name": "s%", "deep": {"x": [1, None]}}
    rows = [
        {"own": {"%a": n, "b": f"v{n}"}, "shared": shared, "mixed": {"n": 1} if n else {}, "none": {}} for n in range(3)
    ]
    items: list[dict[str, Any]] = [{"pk": "p", "sk": str(n), "at": 1, "data": row} for n, row in enumerate(rows)]
    assert [json.loads(text)["data"]["M"] for text in encode_items(items)] == [
        {
            "own": {"M": {"%a": {"N": str(n)}, "b": {"S": f"v{n}"}}},
            "shared": {"M": {"name": {"S": "s%"}, "deep": {"M": {"x": {"L": [{"N": "1"}, {"NULL": True}]}}}}},
            "mixed": {"M": {"n": {"N": "1"}} if n else {}},
            "none": {"M": {}},
        }
        for n in range(3)
    ]
