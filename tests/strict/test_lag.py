"""How late a read that is not strongly consistent may be, and how long a transaction without an answer goes on."""

from typing import Any

import pytest

from strict import Fault, Kind, ManualClock
from strict.faults import NoAnswer
from strict.memory import MemoryEngine
from strict.refusals import Refusal
from strict.replica import LaggingEngine
from tests.strict.console import KEYS, NOON, Console, item, outcome

KEY = {"pk": {"S": "a"}, "sk": {"S": "1"}}
ON_DEMAND = {"BillingMode": "PAY_PER_REQUEST"}


def lagging(seed: int = 0) -> tuple[LaggingEngine, ManualClock]:
    clock = ManualClock(NOON)
    engine = LaggingEngine(MemoryEngine(), clock, seconds=2, seed=seed)
    engine.call("CreateTable", {"TableName": "t", **KEYS, **ON_DEMAND})
    return engine, clock


def seen(engine: LaggingEngine, key: Any = KEY) -> Any:
    return engine.call("GetItem", {"TableName": "t", "Key": key}).get("Item")


@pytest.mark.parametrize("seed", range(10))
def test_a_write_is_seen_after_half_of_the_time_at_the_earliest_and_the_whole_at_the_latest(seed: int) -> None:
    engine, clock = lagging(seed)
    engine.call("PutItem", {"TableName": "t", "Item": item()})
    clock.sleep(0.999)
    assert seen(engine) is None
    clock.sleep(1.001)
    assert seen(engine) == item()


def test_every_kind_of_write_reaches_the_replica() -> None:
    engine, clock = lagging()
    keys = [{"pk": {"S": "a"}, "sk": {"S": str(number)}} for number in range(6)]
    items = [item(sk=str(number)) for number in range(6)]
    absent = {"ConditionExpression": "attribute_not_exists(pk)"}
    present = {"ConditionExpression": "attribute_exists(pk)"}
    grown = {"UpdateExpression": "SET h = :h", "ExpressionAttributeValues": {":h": {"S": "x"}}}
    puts = [{"PutRequest": {"Item": items[number]}} for number in (0, 1, 2, 3)]
    engine.call("BatchWriteItem", {"RequestItems": {"t": puts}})
    engine.call("PutItem", {"TableName": "t", "Item": items[4], **absent})
    engine.call("UpdateItem", {"TableName": "t", "Key": keys[0], **grown, **present})
    engine.call("DeleteItem", {"TableName": "t", "Key": keys[1], **present})
    engine.call("BatchWriteItem", {"RequestItems": {"t": [{"DeleteRequest": {"Key": keys[2]}}]}})
    actions = [
        {"Put": {"TableName": "t", "Item": items[5], **absent}},
        {"Update": {"TableName": "t", "Key": keys[4], **grown}},
        {"Delete": {"TableName": "t", "Key": keys[3]}},
        {"ConditionCheck": {"TableName": "t", "Key": keys[1], **absent}},
    ]
    engine.call("TransactWriteItems", {"TransactItems": actions})
    clock.sleep(2)
    more = {"h": {"S": "x"}}
    assert [seen(engine, key) for key in keys] == [items[0] | more, None, None, None, items[4] | more, items[5]]


def test_what_was_on_its_way_to_a_deleted_table_does_not_reach_its_successor() -> None:
    engine, clock = lagging()
    engine.call("CreateTable", {"TableName": "u", **KEYS, **ON_DEMAND})
    for name in "tu":
        engine.call("PutItem", {"TableName": name, "Item": item()})
    engine.call("DeleteTable", {"TableName": "t"})
    engine.call("CreateTable", {"TableName": "t", **KEYS, **ON_DEMAND})
    clock.sleep(3)
    assert seen(engine) is None
    assert engine.call("GetItem", {"TableName": "u", "Key": KEY})["Item"] == item()


def test_a_write_that_was_refused_never_reaches_the_replica() -> None:
    engine, clock = lagging()
    with pytest.raises(Refusal):
        engine.call("PutItem", {"TableName": "t", "Item": item(), "ConditionExpression": "attribute_exists(pk)"})
    clock.sleep(3)
    assert seen(engine) is None


def test_a_transaction_without_an_answer_goes_on_for_half_a_second() -> None:
    console = Console()
    console.table()
    fault = console.dynamo.faults.add(Fault(Kind.TIMEOUT_AFTER, operation="TransactWriteItems", times=1))
    put = {"Put": {"TableName": "t", "Item": item()}}
    with pytest.raises(NoAnswer):
        console("TransactWriteItems", TransactItems=[put])
    assert fault.struck == 1
    console.wait(seconds=0.499)
    assert outcome(console.put) == "TransactionConflictException"
    gets = [{"Get": {"TableName": "t", "Key": key}} for key in ({**KEY, "sk": {"S": "2"}}, KEY)]
    with pytest.raises(Refusal) as refused:
        console("TransactGetItems", TransactItems=gets)
    assert [reason["Code"] for reason in refused.value.members["CancellationReasons"]] == [
        "None",
        "TransactionConflict",
    ]
    # Reads of one item, and writes of others, do not wait.
    assert outcome(lambda: console("GetItem", TableName="t", Key=KEY, ConsistentRead=True)) == "done"
    assert outcome(lambda: console.put(sk="2")) == "done"
    console.wait(seconds=0.001)
    assert outcome(console.put) == "done"


def test_each_transaction_without_an_answer_holds_its_own_items_and_no_others() -> None:
    console = Console()
    console.table()
    console.table("u")
    console.dynamo.faults.add(Fault(Kind.TIMEOUT_AFTER, operation="TransactWriteItems", times=2))
    for sk in "12":
        with pytest.raises(NoAnswer):
            console("TransactWriteItems", TransactItems=[{"Put": {"TableName": "t", "Item": item(sk=sk)}}])
    held = [outcome(lambda sk=sk: console.put(sk=sk)) for sk in "123"]  # type: ignore[misc]
    assert held == ["TransactionConflictException", "TransactionConflictException", "done"]
    assert outcome(lambda: console.put(name="u")) == "done", "the same key of another table"


def test_a_transaction_that_never_took_effect_holds_nothing() -> None:
    console = Console()
    console.table()
    for kind in (Kind.TIMEOUT_BEFORE, Kind.RESET):
        console.dynamo.faults.add(Fault(kind, operation="TransactWriteItems", times=1))
        with pytest.raises(NoAnswer):
            console("TransactWriteItems", TransactItems=[{"Put": {"TableName": "t", "Item": item()}}])
    assert outcome(console.put) == "done"
