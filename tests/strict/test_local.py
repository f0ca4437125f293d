"""What a local index answers, and what a full item collection still takes."""

from typing import Any

import pytest

from strict.refusals import Refusal
from tests.strict.console import KB, Console, index, item, outcome
from tests.strict.local import FULL, REFUSED, by_index, local


def test_a_local_index_is_read_consistently() -> None:
    console = Console()
    console.table(LocalSecondaryIndexes=[local()], GlobalSecondaryIndexes=[index()])
    console.put(sk="1", g={"S": "y"})
    console.put(sk="2", g={"S": "x"})
    console.put(sk="3")
    early = [by_index(console, ConsistentRead=strong)["Items"] for strong in (False, True)]
    assert [[found["sk"]["S"] for found in items] for items in early] == [[], ["2", "1"]]
    condition: dict[str, Any] = {
        "KeyConditionExpression": "pk = :pk AND begins_with(g, :g)",
        "ExpressionAttributeValues": {":pk": {"S": "a"}, ":g": {"S": "y"}},
    }
    assert by_index(console, ConsistentRead=True, **condition)["Count"] == 1
    values: dict[str, Any] = {"ExpressionAttributeValues": {":g": {"S": "y"}}, "KeyConditionExpression": "g = :g"}
    assert outcome(lambda: by_index(console, "i", ConsistentRead=True, **values)) == REFUSED


def test_what_makes_a_full_collection_smaller_is_accepted() -> None:
    console = Console()
    console.table(LocalSecondaryIndexes=[local()])
    console.put(sk="1", size=5 * KB)
    console.dynamo.account.collection_bytes = 4 * KB
    assert outcome(lambda: console.put(sk="1", size=4 * KB)) == "done"
    assert outcome(lambda: console.put(sk="1", size=6 * KB)) == FULL
    assert outcome(lambda: console("DeleteItem", TableName="t", Key={"pk": {"S": "a"}, "sk": {"S": "1"}})) == "done"
    assert outcome(lambda: console.put(sk="2", size=4 * KB)) == "done"


def test_a_collection_is_full_to_the_byte_and_what_leaves_it_as_large_is_accepted() -> None:
    console = Console()
    console.table(LocalSecondaryIndexes=[local()])
    console.dynamo.account.collection_bytes = 10 * KB
    assert outcome(lambda: console.put(size=10 * KB + 1)) == FULL
    assert outcome(lambda: console.put(size=10 * KB)) == "done"
    console.dynamo.account.collection_bytes = 5 * KB
    assert outcome(lambda: console.put(size=10 * KB)) == "done"


def test_what_one_request_adds_to_a_collection_counts_together() -> None:
    console = Console()
    console.table(LocalSecondaryIndexes=[local()])
    console.dynamo.account.collection_bytes = 10 * KB
    items = [item(sk=sk, size=6 * KB) for sk in "12"]
    assert outcome(lambda: console.batch(items)) == FULL
    puts = [{"Put": {"TableName": "t", "Item": own}} for own in items]
    with pytest.raises(Refusal) as refused:
        console("TransactWriteItems", TransactItems=puts)
    codes = [reason["Code"] for reason in refused.value.members["CancellationReasons"]]
    assert codes == ["None", "ItemCollectionSizeLimitExceeded"]
    assert outcome(lambda: console.batch([items[0], item("b", size=6 * KB)])) == "done"


def test_a_table_without_a_sort_key_has_no_local_index() -> None:
    keys: dict[str, Any] = {
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "g")],
    }
    console = Console()
    with pytest.raises(Refusal, match="Table KeySchema does not have a range key"):
        console.create(LocalSecondaryIndexes=[local()], **keys)
