"""How large an update may make an item, with the limit and without it."""

from collections.abc import Mapping
from typing import Any

import pytest

from strict import ManualClock, Rule, StrictDynamo
from strict.memory import MemoryEngine
from strict.refusals import Refusal
from tests.strict.console import KEYS, NOON, Console, item, outcome

TOO_LARGE = {"Code": "ValidationError", "Message": "Item size has exceeded the maximum allowed size"}
RIGHT = {"pk": {"S": "a"}, "sk": {"S": "1"}}


def test_an_update_lets_no_item_grow_beyond_400_kilobytes() -> None:
    console = Console()
    console.table(WarmThroughput={"WriteUnitsPerSecond": 40_000, "ReadUnitsPerSecond": 12_000})
    console.put(size=400 * 1024 - 100)
    console.wait(minutes=5)

    def grow(size: int) -> dict[str, Any]:
        # "g" and its text.
        value = {":g": {"S": "x" * (size - 1)}}
        key = {"pk": {"S": "a"}, "sk": {"S": "1"}}
        return {
            "TableName": "t",
            "Key": key,
            "UpdateExpression": "SET g = :g",
            "ExpressionAttributeValues": value,
        }

    with pytest.raises(Refusal) as caught:
        console("UpdateItem", **grow(101))
    assert caught.value.message == "Item size to update has exceeded the maximum allowed size"
    console.wait(minutes=5)
    with pytest.raises(Refusal) as caught:
        console(
            "TransactWriteItems", TransactItems=[{"Put": {"TableName": "t", "Item": item("b")}}, {"Update": grow(101)}]
        )
    assert caught.value.members["CancellationReasons"] == [{"Code": "None"}, TOO_LARGE]
    failed = grow(101) | {"ConditionExpression": "attribute_not_exists(pk)"}
    assert outcome(lambda: console("UpdateItem", **failed)) == "ConditionalCheckFailedException"
    console.wait(minutes=5)
    with pytest.raises(Refusal) as caught:
        console(
            "TransactWriteItems", TransactItems=[{"Put": {"TableName": "t", "Item": item("b")}}, {"Update": failed}]
        )
    assert caught.value.members["CancellationReasons"] == [{"Code": "None"}, {"Code": "ConditionalCheckFailed"}]
    console.wait(minutes=5)
    assert outcome(lambda: console("UpdateItem", **grow(100))) == "done"


def test_without_the_limit_of_an_item_an_update_may_pass_it_too() -> None:
    console = Console(without={Rule.ITEM_BYTES})
    console.table(WarmThroughput={"WriteUnitsPerSecond": 40_000, "ReadUnitsPerSecond": 12_000})
    console.put(size=400 * 1024 + 1)
    for number in range(2):
        value = {":g": {"S": "x" * (number + 1)}}
        grow = {"TableName": "t", "Key": RIGHT, "UpdateExpression": "SET g = :g", "ExpressionAttributeValues": value}
        console.wait(minutes=5)
        if number:
            console("TransactWriteItems", TransactItems=[{"Update": grow}])
        else:
            console("UpdateItem", **grow)
    assert console("GetItem", TableName="t", Key=RIGHT, ConsistentRead=True)["Item"]["g"] == {"S": "xx"}


class Appending:
    """An engine that knows more expressions than the rules, and writes down what it was asked to change."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._memory = MemoryEngine()

    def call(self, operation: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        if operation == "UpdateItem":
            self.asked.append(payload["UpdateExpression"])
            return {}
        return self._memory.call(operation, payload)


def test_an_update_that_only_the_engine_can_read_is_left_to_it() -> None:
    engine, clock = Appending(), ManualClock(NOON)
    service = StrictDynamo(engine, clock)
    service.call("CreateTable", {"TableName": "t", **KEYS, "BillingMode": "PAY_PER_REQUEST"})
    clock.sleep(60)
    append = "SET l = list_append(l, :l)"
    update = {"UpdateExpression": append, "ExpressionAttributeValues": {":l": {"L": [{"S": "x"}]}}}
    service.call("UpdateItem", {"TableName": "t", "Key": RIGHT, **update})
    assert engine.asked == [append]


def test_a_transaction_names_the_item_that_is_too_large() -> None:
    console = Console()
    console.table()
    puts = [
        {"Put": {"TableName": "t", "Item": item(pk, size=size)}} for pk, size in (("a", 100), ("b", 400 * 1024 + 1))
    ]
    with pytest.raises(Refusal) as caught:
        console("TransactWriteItems", TransactItems=puts)
    assert caught.value.members["CancellationReasons"] == [{"Code": "None"}, TOO_LARGE]


def test_a_request_that_is_too_large_has_a_status_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 bytes stand for 16 MB."""
    monkeypatch.setattr("strict.writes.BATCH_BYTES", 2000)
    console = Console()
    console.table()
    with pytest.raises(Refusal) as caught:
        console.batch([item(size=3000)])
    assert (caught.value.code, caught.value.status) == ("RequestEntityTooLarge", 413)


def test_an_update_that_refers_to_nothing_is_refused_alone_and_in_a_transaction() -> None:
    console = Console()
    console.table()
    update = {"TableName": "t", "Key": RIGHT, "UpdateExpression": "SET h = none"}
    assert outcome(lambda: console("UpdateItem", **update)) == "ValidationException"
    with pytest.raises(Refusal) as caught:
        console("TransactWriteItems", TransactItems=[{"Update": update}])
    (reason,) = caught.value.members["CancellationReasons"]
    assert (reason["Code"], reason["Message"] != TOO_LARGE["Message"]) == ("ValidationError", True)
