"""What IAM sees of a request: the condition keys, written out for requests like those of a reader with few rights."""

from __future__ import annotations

from typing import Any

import pytest

from strict.conditions import describe_request, find_partition_keys

TABLE = {
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "GlobalSecondaryIndexes": [
        {"IndexName": "reports", "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}]},
        {"IndexName": "strongest", "KeySchema": [{"AttributeName": "pk_strongest", "KeyType": "HASH"}]},
    ],
    "LocalSecondaryIndexes": [
        {
            "IndexName": "by-size",
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "size", "KeyType": "RANGE"}],
        }
    ],
}
KEYS = {"": "pk", "reports": "pk", "strongest": "pk_strongest", "by-size": "pk"}
OF_ONE = {
    "TableName": "t",
    "KeyConditionExpression": "#p = :p AND sk BETWEEN :a AND :b",
    "ExpressionAttributeNames": {"#p": "pk"},
    "ExpressionAttributeValues": {":p": {"S": "boiler-1#0"}, ":a": {"S": "a"}, ":b": {"S": "b"}},
}


def test_the_keys_are_those_of_the_table_and_its_indexes() -> None:
    assert find_partition_keys(TABLE) == KEYS


@pytest.mark.parametrize(
    ("request_", "leading", "attributes", "select"),
    [
        (OF_ONE, ["boiler-1#0"], {"pk", "sk"}, "ALL_ATTRIBUTES"),
        (OF_ONE | {"IndexName": "reports"}, ["boiler-1#0"], {"pk", "sk"}, "ALL_PROJECTED_ATTRIBUTES"),
        (OF_ONE | {"Select": "COUNT"}, ["boiler-1#0"], {"pk", "sk"}, "COUNT"),
        (
            OF_ONE | {"ProjectionExpression": "sk, #p, at.x[0]"},
            ["boiler-1#0"],
            {"pk", "sk", "at"},
            "SPECIFIC_ATTRIBUTES",
        ),
        (
            OF_ONE | {"FilterExpression": "size(secret) > :a OR NOT begins_with(data.x, :b)"},
            ["boiler-1#0"],
            {"pk", "sk", "secret", "data"},
            "ALL_ATTRIBUTES",
        ),
        (
            OF_ONE | {"ExclusiveStartKey": {"pk": {"S": "boiler-1#0"}, "hidden": {"S": "x"}}},
            ["boiler-1#0"],
            {"pk", "sk", "hidden"},
            "ALL_ATTRIBUTES",
        ),
        # The key of the table is no leading key of an index with other keys.
        (OF_ONE | {"IndexName": "strongest"}, [], {"pk", "sk"}, "ALL_PROJECTED_ATTRIBUTES"),
        ({"TableName": "t", "Key": {"pk": {"S": "a#0"}, "sk": {"S": "1"}}}, ["a#0"], {"pk", "sk"}, "ALL_ATTRIBUTES"),
        ({"TableName": "t", "Item": {"pk": {"S": "a#0"}, "x": {"N": "1"}}}, ["a#0"], {"pk", "x"}, "ALL_ATTRIBUTES"),
        ({"TableName": "t", "AttributesToGet": ["data"]}, [], {"data"}, "SPECIFIC_ATTRIBUTES"),
        (
            {"RequestItems": {"t": {"Keys": [{"pk": {"S": "a"}}, {"pk": {"S": "b"}}]}}},
            ["a", "b"],
            {"pk"},
            "ALL_ATTRIBUTES",
        ),
        (
            {
                "RequestItems": {
                    "t": [{"PutRequest": {"Item": {"pk": {"S": "a"}}}}, {"DeleteRequest": {"Key": {"pk": {"N": "7"}}}}]
                }
            },
            ["a", "7"],
            {"pk"},
            "ALL_ATTRIBUTES",
        ),
        (
            {"TableName": "t", "KeyConditions": {"pk": {"AttributeValueList": [{"S": "a"}], "ComparisonOperator": "EQ"}}},
            ["a"],
            {"pk"},
            "ALL_ATTRIBUTES",
        ),
        (
            {"RequestItems": {"t": [{"DeleteRequest": {"Key": {"pk": {"B": b"\x00\x01\x02"}}}}]}},
            ["AAEC"],
            {"pk"},
            "ALL_ATTRIBUTES",
        ),
        (
            {"TableName": "t", "ConditionExpression": "attribute_exists(seen) AND kind IN (:a, :b)"},
            [],
            {"seen", "kind"},
            "ALL_ATTRIBUTES",
        ),
        (
            {
                "TableName": "t",
                "Expected": {"a": {}},
                "AttributeUpdates": {"b": {}},
                "QueryFilter": {"c": {}},
                "ScanFilter": {"d": {}},
            },
            [],
            {"a", "b", "c", "d"},
            "ALL_ATTRIBUTES",
        ),
        # An index that the table does not have.
        (OF_ONE | {"IndexName": "none"}, [], {"pk", "sk"}, "ALL_PROJECTED_ATTRIBUTES"),
        # A Scan has no leading key: a condition ForAllValues is met by it.
        ({"TableName": "t"}, [], set(), "ALL_ATTRIBUTES"),
    ],
)  # fmt: skip
def test_what_iam_sees(request_: dict[str, Any], leading: list[str], attributes: set[str], select: str) -> None:
    context = describe_request(request_, KEYS)
    found = {name: set(value) if name == "dynamodb:Attributes" else value for name, value in context.items()}
    expected = {"dynamodb:Select": select, "dynamodb:LeadingKeys": leading, "dynamodb:Attributes": attributes}
    assert found == {name: value for name, value in expected.items() if value}, "a key without a value is absent"
