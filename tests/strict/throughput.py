"""Scenarios of throughput: the units of a table, an index and a partition, and their throttles."""

from collections.abc import Callable
from typing import Any

from strict import Rule
from strict.refusals import Refusal
from tests.strict.console import KB, Console, index, item, outcome, provisioned, until_refused
from tests.strict.scenarios import shows


@shows(Rule.PROVISIONED_THROUGHPUT, (610, 10))
def provisioned_throughput(console: Console) -> tuple[int, int]:
    console.table(write=10, read=10)
    minute = until_refused(console.put)
    console.wait(seconds=1)
    return minute, until_refused(console.put)


@shows(Rule.BURST, 3090)
def burst(console: Console) -> int:
    console.create(write=10, read=10)
    console.wait(minutes=30)
    units = 0
    for _ in range(10):
        units += 10 * until_refused(lambda: console.put(size=10 * KB))
        console.wait(seconds=1)
    return units


@shows(Rule.INDEX_THROUGHPUT, ("ProvisionedThroughputExceededException", "IndexWriteProvisionedThroughputExceeded"))
def index_throughput(console: Console) -> tuple[str, str]:
    definitions = [*({"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk", "g"))]
    console("CreateTable", TableName="t", KeySchema=_SCHEMA, AttributeDefinitions=definitions, BillingMode="PROVISIONED",
          ProvisionedThroughput=provisioned(500, 1), GlobalSecondaryIndexes=[index(write=1, read=1)])  # fmt: skip
    console.wait(seconds=300)
    for number in range(400):
        try:
            console.put(pk=str(number), g={"S": "x"})
        except Refusal as refusal:
            return refusal.code, refusal.members["ThrottlingReasons"][0]["reason"]
    return "done", ""


@shows(Rule.ON_DEMAND_THROUGHPUT, 4000)
def on_demand_throughput(console: Console) -> int:
    # Warm for reads, the table has eight partitions, which could write 8,000.
    console.table(WarmThroughput={"WriteUnitsPerSecond": 4000, "ReadUnitsPerSecond": 24_000})
    return _flood(console)


@shows(Rule.ON_DEMAND_GROWTH, (4000, 4000, 8000))
def on_demand_growth(console: Console) -> tuple[int, int, int]:
    console.table()
    first = _flood(console)
    console.wait(minutes=10)
    early = _flood(console)
    console.wait(minutes=41)
    return first, early, _flood(console)


@shows(Rule.ON_DEMAND_MAXIMUM, (50, "TableWriteMaxOnDemandThroughputExceeded"))
def on_demand_maximum(console: Console) -> tuple[int, str]:
    console.table(OnDemandThroughput={"MaxWriteRequestUnits": 50, "MaxReadRequestUnits": -1})
    count = until_refused(console.put, 200)
    return count, _reason(console.put)


@shows(Rule.PARTITION_THROUGHPUT, (1000, "TableWriteKeyRangeThroughputExceeded"))
def partition_throughput(console: Console) -> tuple[int, str]:
    console.create(write=4000, read=10)
    console.wait(minutes=10)
    count = 100 * until_refused(lambda: console.put(size=100 * KB), 100)
    return count, _reason(lambda: console.put(size=100 * KB))


@shows(Rule.UNPROCESSED_ITEMS, 15)
def unprocessed_items(console: Console) -> int:
    console.table(write=10, read=10)
    until_refused(console.put)
    console.wait(seconds=1)
    try:
        answer = console.batch([item(pk=str(number)) for number in range(25)])
    except Refusal:
        return -1
    return len(answer["UnprocessedItems"]["t"])


@shows(Rule.THROTTLING_REASONS, "TableWriteProvisionedThroughputExceeded")
def find_throttling_reasons(console: Console) -> str:
    console.table(write=1, read=1)
    until_refused(console.put)
    return _reason(console.put)


@shows(Rule.FAILED_CONDITION_COSTS, "ProvisionedThroughputExceededException")
def failed_condition_costs(console: Console) -> str:
    console.table(write=1, read=1)
    until_refused(lambda: console.put(size=KB))
    console.wait(seconds=5)
    never: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(pk)"}
    for _ in range(10):
        if (
            outcome(lambda: console("PutItem", TableName="t", Item=item(), **never))
            != "ConditionalCheckFailedException"
        ):
            return "ProvisionedThroughputExceededException"
    return "never refused"


@shows(Rule.TRANSACTION_COSTS, 6.0)
def transaction_costs(console: Console) -> float:
    console.table()
    puts = [{"Put": {"TableName": "t", "Item": item(pk=pk, size=size)}} for pk, size in (("a", KB), ("b", 2 * KB))]
    answer = console("TransactWriteItems", TransactItems=puts, ReturnConsumedCapacity="TOTAL")
    units: float = answer["ConsumedCapacity"][0]["CapacityUnits"]
    return units


_SCHEMA = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]


def _flood(console: Console) -> int:
    """The units that are accepted within one second, over so many partition keys that every partition is full."""
    return 20 * sum(outcome(lambda key=key: console.put(pk=str(key), size=20 * KB)) == "done" for key in range(1500))  # type: ignore[misc]


def _reason(act: Callable[[], Any]) -> str:
    try:
        act()
    except Refusal as refusal:
        reasons = refusal.members.get("ThrottlingReasons", [])
        return str(reasons[0]["reason"]) if reasons else ""
    return "done"
