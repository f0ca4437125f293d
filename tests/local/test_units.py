"""The read units that the emulator counts: by the bytes that a request read, as DynamoDB does."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from ministack.services import dynamodb

from local.units import count_read_units

TABLE = {
    "TableName": "readings",
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "kind")],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "BillingMode": "PAY_PER_REQUEST",
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by_kind",
            "KeySchema": [{"AttributeName": "kind", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
    ],
}
OF_PARTITION = {"KeyConditionExpression": "pk = :p", "ExpressionAttributeValues": {":p": {"S": "a"}}}
OF_KIND = {
    "IndexName": "by_kind",
    "KeyConditionExpression": "kind = :k",
    "ExpressionAttributeValues": {":k": {"S": "x"}},
}
NOTHING_FITS = {
    "KeyConditionExpression": "pk = :p",
    "FilterExpression": "kind = :k",
    "ExpressionAttributeValues": {":p": {"S": "a"}, ":k": {"S": "none"}},
}


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ten items of 2,018 bytes in one partition of a table with an index of keys."""
    for name in ("_paginate_evaluated_items", "_add_consumed_capacity"):
        monkeypatch.setattr(dynamodb, name, getattr(dynamodb, name))
    count_read_units()
    call("_create_table", **TABLE)
    for number in range(10):
        item = {"pk": "a", "sk": str(number), "kind": "x", "data": "d" * 2_000}
        call("_put_item", TableName="readings", Item={name: {"S": value} for name, value in item.items()})
    yield
    call("_delete_table", TableName="readings")


def call(operation: str, **parameters: Any) -> dict[str, Any]:
    status, _, body = getattr(dynamodb, operation)(parameters)
    assert status == 200, body
    answer: dict[str, Any] = json.loads(body)
    return answer


@pytest.mark.parametrize(
    ("parameters", "units"),
    [
        # 20,180 bytes are five blocks of 4,096 bytes.
        (OF_PARTITION, 2.5),
        (OF_PARTITION | {"ConsistentRead": True}, 5.0),
        (OF_PARTITION | {"Limit": 3}, 1.0),
        (OF_PARTITION | {"Limit": 1}, 0.5),
        # A projection and a filter change nothing.
        (OF_PARTITION | {"ProjectionExpression": "sk"}, 2.5),
        (NOTHING_FITS, 2.5),
        # The index holds keys only.
        (OF_KIND, 0.5),
    ],
)
def test_a_query_reads_the_bytes_of_its_page(readings: None, parameters: dict[str, Any], units: float) -> None:
    answer = call("_query", TableName="readings", ReturnConsumedCapacity="INDEXES", **parameters)
    capacity = answer["ConsumedCapacity"]
    assert capacity["CapacityUnits"] == units
    parts = [capacity["Table"], *capacity.get("GlobalSecondaryIndexes", {}).values()]
    assert sum(part["CapacityUnits"] for part in parts) == units


@pytest.mark.parametrize(
    ("size", "consistent", "units"), [(4_000, False, 0.5), (9_000, False, 1.5), (9_000, True, 3.0)]
)
def test_a_read_of_one_item_takes_its_size(readings: None, size: int, consistent: bool, units: float) -> None:
    key = {"pk": {"S": "b"}, "sk": {"S": "1"}}
    call("_put_item", TableName="readings", Item={**key, "data": {"S": "d" * size}})
    answer = call(
        "_get_item",
        TableName="readings",
        Key=key,
        ConsistentRead=consistent,
        ReturnConsumedCapacity="TOTAL",
        ProjectionExpression="sk",
    )
    assert answer["ConsumedCapacity"]["CapacityUnits"] == units


def test_a_missing_item_takes_what_a_small_one_takes(readings: None) -> None:
    key = {"pk": {"S": "c"}, "sk": {"S": "1"}}
    answer = call("_get_item", TableName="readings", Key=key, ReturnConsumedCapacity="TOTAL")
    assert answer["ConsumedCapacity"]["CapacityUnits"] == 0.5


def test_a_scan_reads_the_bytes_of_its_page_and_a_write_is_counted_as_before(readings: None) -> None:
    scanned = call("_scan", TableName="readings", ReturnConsumedCapacity="TOTAL")
    assert scanned["ConsumedCapacity"]["CapacityUnits"] == 2.5
    item = {"pk": {"S": "b"}, "sk": {"S": "1"}, "data": {"S": "d" * 5_000}}
    written = call("_put_item", TableName="readings", Item=item, ReturnConsumedCapacity="TOTAL")
    assert written["ConsumedCapacity"]["CapacityUnits"] == 5.0
