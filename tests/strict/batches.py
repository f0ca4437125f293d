"""Scenarios of batches, items and pages: their limits and refusals."""

from typing import Any

from strict import Rule
from tests.strict.console import KB, Console, index, item, outcome
from tests.strict.scenarios import shows


@shows(Rule.BATCH_MISSING_TABLE, ("ResourceNotFoundException", 0))
def batch_missing_table(console: Console) -> tuple[str, int]:
    console.table()
    requests = {name: [{"PutRequest": {"Item": item()}}] for name in ("t", "missing")}
    return outcome(lambda: console("BatchWriteItem", RequestItems=requests)), console.query()["Count"]


@shows(Rule.BATCH_REPEATED_KEY, ("ValidationException", 0, "done", "ValidationException"))
def batch_repeated_key(console: Console) -> tuple[str, int, str, str]:
    console.table()
    written = outcome(lambda: console.batch([item(size=100), item(size=200)]))
    count = console.query()["Count"]
    return (written, count, *(outcome(lambda sks=sks: console.get_batch(sks)) for sks in ("12", "121")))  # type: ignore[misc]


@shows(Rule.BATCH_ITEMS, ["done", "ValidationException"])
def batch_items(console: Console) -> list[str]:
    console.table()
    return [
        outcome(lambda count=count: console.batch([item(sk=str(number)) for number in range(count)]))  # type: ignore[misc]
        for count in (25, 26)
    ]


@shows(Rule.REQUEST_BYTES, ["done", "RequestEntityTooLarge"])
def request_bytes(console: Console) -> list[str]:
    console.table()
    seen = []
    for filling in ("x", '"'):
        # A quotation mark is one byte in an item and two in a request.
        items = [item(pk=f"{number:02}") | {"f": {"S": filling * 390 * KB}} for number in range(25)]
        console.wait(minutes=1)
        seen.append(outcome(lambda items=items: console.batch(items)))  # type: ignore[misc]
    return seen


@shows(Rule.ANSWER_BYTES, [(40, 0), (40, 2)])
def answer_bytes(console: Console) -> list[tuple[int, int]]:
    console.table(WarmThroughput={"WriteUnitsPerSecond": 40_000, "ReadUnitsPerSecond": 12_000})
    seen = []
    # 40 items of 400 KB are 16,384,000 bytes, 41 are 16,793,600, and 16 MB are 16,777,216.
    for count in (40, 42):
        for number in range(count):
            console.put(pk=f"{number:02}", size=400 * KB)
            console.wait(seconds=1)
        keys = [{"pk": {"S": f"{number:02}"}, "sk": {"S": "1"}} for number in range(count)]
        answer = console("BatchGetItem", RequestItems={"t": {"Keys": keys, "ConsistentRead": True}})
        left = answer["UnprocessedKeys"].get("t", {"Keys": []})["Keys"]
        seen.append((len(answer["Responses"]["t"]), len(left)))
    return seen


@shows(Rule.ITEM_BYTES, ["done", "ValidationException"])
def count_item_bytes(console: Console) -> list[str]:
    console.table()
    return [outcome(lambda size=size: console.put(size=size)) for size in (400 * KB, 400 * KB + 1)]  # type: ignore[misc]


@shows(Rule.TRANSACTION_SIZE, ["done", "ValidationException", "ValidationException"])
def transaction_size(console: Console) -> list[str]:
    console.table()

    def write(count: int, size: int) -> None:
        items = [item(pk=str(number), size=size) for number in range(count)]
        console("TransactWriteItems", TransactItems=[{"Put": {"TableName": "t", "Item": item}} for item in items])

    # Wait until the units for the next request have grown.
    seen = []
    for count, size in ((100, 100), (101, 100), (11, 380 * KB)):
        console.wait(minutes=1)
        seen.append(outcome(lambda count=count, size=size: write(count, size)))  # type: ignore[misc]
    return seen


@shows(Rule.PAGE_BYTES, (10, True, 125.0))
def page_bytes(console: Console) -> tuple[int, bool, float]:
    console.table()
    for number in range(15):
        console.put(sk=f"{number:02}", size=100 * KB)
        console.wait(seconds=1)
    page = console.query()
    return page["Count"], "LastEvaluatedKey" in page, page["ConsumedCapacity"]["CapacityUnits"]


@shows(Rule.RANGE_ORDER, ["done", "ValidationException"])
def range_order(console: Console) -> list[str]:
    console.table()
    between = {"KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high"}
    values = [{":pk": {"S": "a"}, ":low": {"S": low}, ":high": {"S": "2"}} for low in ("2", "3")]
    return [outcome(lambda value=value: console.query(**between, ExpressionAttributeValues=value)) for value in values]  # type: ignore[misc]


@shows(Rule.PROJECTED_ONLY, ["done", "ValidationException"])
def projected_only(console: Console) -> list[str]:
    console.table(GlobalSecondaryIndexes=[index(ProjectionType="KEYS_ONLY")])
    request = {"IndexName": "i", "KeyConditionExpression": "g = :pk"}
    shown: list[dict[str, Any]] = [
        {"ProjectionExpression": "pk, sk"},
        {"ProjectionExpression": "pk, #f", "ExpressionAttributeNames": {"#f": "f"}},
    ]
    return [outcome(lambda shown_value=shown_value: console.query(**request, **shown_value)) for shown_value in shown]  # type: ignore[misc]
