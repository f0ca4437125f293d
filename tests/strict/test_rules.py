"""Every rule, in force and left out: what it forbids must happen without it, or the rule is not there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tests.strict.requests  # noqa: F401 - its scenarios are registered
from strict import Rule, Timings
from strict.refusals import Refusal
from tests.strict.console import KB, Console, index, item, outcome, provisioned, until_refused
from tests.strict.scenarios import SCENARIOS, shows


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
def throttling_reasons(console: Console) -> str:
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


@shows(Rule.ONE_CONCERN, "ValidationException")
def one_concern(console: Console) -> str:
    console.table(write=5, read=5)
    return outcome(
        lambda: console.update(ProvisionedThroughput=provisioned(6, 6), TableClass="STANDARD_INFREQUENT_ACCESS")
    )


@shows(Rule.CHANGES_LAST, ["CREATING", "ACTIVE", "UPDATING", "ACTIVE", "DELETING"])
def changes_last(console: Console) -> list[str]:
    console.create(write=5, read=5)
    seen = [console.describe()["TableStatus"]]
    console.wait(seconds=6)
    seen.append(console.describe()["TableStatus"])
    console.update(ProvisionedThroughput=provisioned(6, 6))
    seen.append(console.describe()["TableStatus"])
    console.wait(seconds=2)
    seen.append(console.describe()["TableStatus"])
    seen.append(console("DeleteTable", TableName="t")["TableDescription"]["TableStatus"])
    return seen


@shows(Rule.CREATING_HAS_NO_DATA, "ResourceNotFoundException")
def creating_has_no_data(console: Console) -> str:
    console.create()
    return outcome(console.put)


@shows(Rule.CHANGING_TABLE_IS_BUSY, ["ResourceInUseException"] * 4)
def changing_table_is_busy(console: Console) -> list[str]:
    console.table("updating", 5, 5)
    console.table("deleting")
    console.create("creating", 5, 5)
    console.create("created")
    seen = [
        outcome(lambda: console.update("creating", TableClass="STANDARD_INFREQUENT_ACCESS")),
        outcome(lambda: console("DeleteTable", TableName="created")),
    ]
    console.update("updating", ProvisionedThroughput=provisioned(6, 6))
    seen.append(outcome(lambda: console.update("updating", TableClass="STANDARD_INFREQUENT_ACCESS")))
    console("DeleteTable", TableName="deleting")
    seen.append(outcome(lambda: console("DeleteTable", TableName="deleting")))
    return seen


@shows(Rule.STALE_ANSWER, (5, 5, 9))
def stale_answer(console: Console) -> tuple[int, int, int]:
    console.table(write=5, read=5)
    answered = console.update(ProvisionedThroughput=provisioned(9, 5))["TableDescription"]
    early = console.describe()
    console.wait(seconds=2)
    shown = (
        answered["ProvisionedThroughput"]["WriteCapacityUnits"],
        early["ProvisionedThroughput"]["WriteCapacityUnits"],
    )
    return *shown, console.describe()["ProvisionedThroughput"]["WriteCapacityUnits"]


@shows(Rule.STALE_SIZE, [(0, 0), (0, 0), (100, 1)])
def stale_size(console: Console) -> list[tuple[int, int]]:
    console.table()
    seen = []
    for pause in (0, 5, 1):
        console.wait(hours=pause)
        described = console.describe()
        seen.append((described["TableSizeBytes"], described["ItemCount"]))
        console.put()
    return seen


@shows(Rule.NO_EMPTY_CHANGE, "ValidationException")
def no_empty_change(console: Console) -> str:
    console.table(write=5, read=5)
    return outcome(lambda: console.units(5, 5))


@shows(Rule.DECREASES, ("done", 4, "LimitExceededException", "done", "LimitExceededException", "done"))
def decreases(console: Console) -> tuple[Any, ...]:
    console.table(write=50, read=5)
    first = [outcome(lambda units=units: console.units(units, 5)) for units in (49, 48, 47, 46)][-1]  # type: ignore[misc]
    today = console.describe()["ProvisionedThroughput"]["NumberOfDecreasesToday"]
    fifth = outcome(lambda: console.units(45, 5))
    console.wait(hours=1)
    later = outcome(lambda: console.units(44, 5))
    again = outcome(lambda: console.units(43, 5))
    console.wait(hours=12)
    return first, today, fifth, later, again, outcome(lambda: console.units(42, 5))


@shows(Rule.BILLING_MODE_SWITCHES, ["done"] * 4 + ["LimitExceededException", "done"])
def billing_mode_switches(console: Console) -> list[str]:
    console.table(write=5, read=5)
    seen = []
    for _ in range(5):
        seen.append(outcome(lambda: console.update(BillingMode="PAY_PER_REQUEST")))
        console.wait(minutes=5)
        if seen[-1] == "done":
            console.update(BillingMode="PROVISIONED", ProvisionedThroughput=provisioned(5, 5))
            console.wait(minutes=5)
    console.wait(hours=24)
    return [*seen, outcome(lambda: console.update(BillingMode="PAY_PER_REQUEST"))]


@shows(Rule.CLASS_CHANGES, ["done", "done", "LimitExceededException", "done"])
def class_changes(console: Console) -> list[str]:
    console.table()
    seen = []
    for name in ("STANDARD_INFREQUENT_ACCESS", "STANDARD", "STANDARD_INFREQUENT_ACCESS"):
        seen.append(outcome(lambda name=name: console.update(TableClass=name)))  # type: ignore[misc]
        console.wait(days=1)
    console.wait(days=30)
    return [
        *seen,
        outcome(lambda: console.update(TableClass="STANDARD_INFREQUENT_ACCESS" if seen[-1] != "done" else "STANDARD")),
    ]


@shows(Rule.PROTECTION_COOLDOWN, ["done", "ThrottlingException", "done"])
def protection_cooldown(console: Console) -> list[str]:
    console.table()
    seen = []
    for pause, protected in ((5, True), (10, False), (5, False)):
        seen.append(outcome(lambda protected=protected: console.update(DeletionProtectionEnabled=protected)))  # type: ignore[misc]
        console.wait(seconds=pause)
    return seen


@shows(Rule.PROTECTED_TABLE, "ValidationException")
def protected_table(console: Console) -> str:
    console.table(DeletionProtectionEnabled=True)
    return outcome(lambda: console("DeleteTable", TableName="t"))


@shows(Rule.WARM_ONLY_RISES, ["done", "ValidationException"])
def warm_only_rises(console: Console) -> list[str]:
    console.table()
    seen = []
    for units in (9000, 8000):
        warm = {"WriteUnitsPerSecond": units, "ReadUnitsPerSecond": 12_000}
        seen.append(outcome(lambda warm=warm: console.update(WarmThroughput=warm)))  # type: ignore[misc]
        console.wait(minutes=1)
    return seen


@shows(Rule.WARM_COVERS_PROVISIONED, "ValidationException")
def warm_covers_provisioned(console: Console) -> str:
    warm = {"WriteUnitsPerSecond": 4000, "ReadUnitsPerSecond": 12_000}
    return outcome(lambda: console.table(write=5000, read=10, WarmThroughput=warm))


@shows(Rule.CONCURRENT_CHANGES, (500, "LimitExceededException"))
def concurrent_changes(console: Console) -> tuple[int, str]:
    console.dynamo.account.timings = Timings(create=3600)
    return _create_many(console, 510), outcome(lambda: console.create("another"))


@shows(Rule.CONCURRENT_INDEXED, (250, "LimitExceededException", "done", "done"))
def concurrent_indexed(console: Console) -> tuple[int, str, str, str]:
    console.dynamo.account.timings = Timings(create_indexed=3600)
    count = _create_many(console, 260, **_INDEXED)
    another = outcome(lambda: console.create("another", **_INDEXED))
    plain = outcome(lambda: console.create("plain"))
    console.wait(hours=1)
    return count, another, plain, outcome(lambda: console.create("later", **_INDEXED))


@shows(
    Rule.CONTROL_PLANE_RATE, (["done"] * 6 + ["ThrottlingException"] * 4, ["done"] * 6 + ["ThrottlingException"] * 4)
)
def control_plane_rate(console: Console) -> tuple[list[str], list[str]]:
    creates = [outcome(lambda number=number: console.create(f"t{number}")) for number in range(10)]  # type: ignore[misc]
    for number in range(6, 10):
        console.wait(seconds=1)
        outcome(lambda number=number: console.create(f"t{number}"))  # type: ignore[misc]
    console.wait(minutes=1)
    tables = [f"t{number}" for number in range(10)]
    return creates, [outcome(lambda name=name: console("DeleteTable", TableName=name)) for name in tables]  # type: ignore[misc]


@shows(Rule.BACKUPS_COME_LATER, ["ContinuousBackupsUnavailableException"] * 3 + ["done"])
def backups_come_later(console: Console) -> list[str]:
    console.create()
    recovery = {"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}}
    seen = []
    # Active after 6 s, and 6 s later it may have backups.
    for pause in (0, 6.1, 3, 3):
        console.wait(seconds=pause)
        seen.append(outcome(lambda: console("UpdateContinuousBackups", TableName="t", **recovery)))
    return seen


_MAXIMA = {"Write": 50, "Read": 60}


@shows(Rule.SWITCH_DROPS_MAXIMA, [(_MAXIMA, _MAXIMA), ({}, {}), ({"Write": 70, "Read": 80}, {})])
def switch_drops_maxima(console: Console) -> list[tuple[dict[str, int], dict[str, int]]]:
    def shown() -> tuple[dict[str, int], dict[str, int]]:
        described = console.describe()
        both = described, described["GlobalSecondaryIndexes"][0]
        maxima = [one.get("OnDemandThroughput", {}) for one in both]
        table, its_index = (
            {side: one[f"Max{side}RequestUnits"] for side in ("Write", "Read") if one} for one in maxima
        )
        return table, its_index

    limits: dict[str, Any] = {"OnDemandThroughput": {"MaxWriteRequestUnits": 50, "MaxReadRequestUnits": 60}}
    console.table(**limits, GlobalSecondaryIndexes=[index() | limits])
    seen = [shown()]
    update = {"IndexName": "i", "ProvisionedThroughput": provisioned(5, 5)}
    console.update(
        BillingMode="PROVISIONED",
        ProvisionedThroughput=provisioned(5, 5),
        GlobalSecondaryIndexUpdates=[{"Update": update}],
    )
    console.wait(minutes=5)
    seen.append(shown())
    more = {"MaxWriteRequestUnits": 70, "MaxReadRequestUnits": 80}
    console.update(BillingMode="PAY_PER_REQUEST", OnDemandThroughput=more)
    console.wait(minutes=5)
    return [*seen, shown()]


@shows(Rule.LOST_KEY, ["ACTIVE", "INACCESSIBLE_ENCRYPTION_CREDENTIALS", "CREATING", "gone", "DELETING"])
def lost_key(console: Console) -> list[str]:
    encrypted: dict[str, Any] = {"SSESpecification": {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": "arn:key"}}
    console.table(**encrypted)
    seen = [console.describe()["TableStatus"]]
    console.dynamo.account.lost_keys.add("arn:key")
    seen.append(console.describe()["TableStatus"])
    console.create("late", **encrypted)
    console.wait(minutes=30)
    seen.append(console.describe("late")["TableStatus"])
    console.wait(minutes=30)
    seen.append("gone" if outcome(lambda: console.describe("late")) == "ResourceNotFoundException" else "there")
    return [*seen, console("DeleteTable", TableName="t")["TableDescription"]["TableStatus"]]


@shows(Rule.TABLE_QUOTA, 2500)
def table_quota(console: Console) -> int:
    for number in range(2510):
        if outcome(lambda number=number: console.create(f"t{number}")) != "done":  # type: ignore[misc]
            return number
        console.wait(seconds=1)
    return 2510


@shows(Rule.UNIT_QUOTA, ["LimitExceededException", "done", "done", "LimitExceededException"])
def unit_quota(console: Console) -> list[str]:
    units = (("one", 40_001), ("two", 40_000), ("three", 40_000), ("four", 1))
    return [outcome(lambda name=name, write=write: console.create(name, write, 1)) for name, write in units]  # type: ignore[misc]


@shows(Rule.DELETING_LINGERS, ["done", "ResourceNotFoundException"])
def deleting_lingers(console: Console) -> list[str]:
    console.table()
    console("DeleteTable", TableName="t")
    seen = [outcome(console.put)]
    console.wait(seconds=2)
    return [*seen, outcome(console.put)]


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
        # A quotation mark is one byte in an item and two on its way.
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
def item_bytes(console: Console) -> list[str]:
    console.table()
    return [outcome(lambda size=size: console.put(size=size)) for size in (400 * KB, 400 * KB + 1)]  # type: ignore[misc]


@shows(Rule.TRANSACTION_SIZE, ["done", "ValidationException", "ValidationException"])
def transaction_size(console: Console) -> list[str]:
    console.table()

    def write(count: int, size: int) -> None:
        items = [item(pk=str(number), size=size) for number in range(count)]
        console("TransactWriteItems", TransactItems=[{"Put": {"TableName": "t", "Item": one}} for one in items])

    # Time for the units of one before the next.
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
    return [outcome(lambda one=one: console.query(**between, ExpressionAttributeValues=one)) for one in values]  # type: ignore[misc]


@shows(Rule.PROJECTED_ONLY, ["done", "ValidationException"])
def projected_only(console: Console) -> list[str]:
    console.table(GlobalSecondaryIndexes=[index(ProjectionType="KEYS_ONLY")])
    asked = {"IndexName": "i", "KeyConditionExpression": "g = :pk"}
    shown: list[dict[str, Any]] = [
        {"ProjectionExpression": "pk, sk"},
        {"ProjectionExpression": "pk, #f", "ExpressionAttributeNames": {"#f": "f"}},
    ]
    return [outcome(lambda one=one: console.query(**asked, **one)) for one in shown]  # type: ignore[misc]


_SCHEMA = [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
_INDEXED: dict[str, Any] = {"GlobalSecondaryIndexes": [index()]}


def _create_many(console: Console, most: int, **more: Any) -> int:
    """How many tables can be in the making, asked for slowly enough for the rate of requests."""
    for number in range(most):
        if outcome(lambda number=number: console.create(f"t{number}", **more)) != "done":  # type: ignore[misc]
            return number
        console.wait(seconds=0.2)
    return most


def _flood(console: Console) -> int:
    """Units that are taken within one second, over so many partition keys that every partition gets its fill."""
    return 20 * sum(outcome(lambda key=key: console.put(pk=str(key), size=20 * KB)) == "done" for key in range(1500))  # type: ignore[misc]


def _reason(act: Callable[[], Any]) -> str:
    try:
        act()
    except Refusal as refusal:
        reasons = refusal.members.get("ThrottlingReasons", [])
        return str(reasons[0]["reason"]) if reasons else ""
    return "done"


@pytest.mark.parametrize("rule", list(Rule))
def test_the_rule_is_enforced(rule: Rule) -> None:
    scenario, expected = SCENARIOS[rule]
    assert scenario(Console()) == expected


@pytest.mark.parametrize("rule", list(Rule))
def test_without_the_rule_it_goes_unnoticed(rule: Rule) -> None:
    scenario, expected = SCENARIOS[rule]
    assert scenario(Console(without={rule})) != expected


def test_a_large_batch_of_binary_values_is_weighed_as_it_is_sent() -> None:
    console = Console()
    console.table(WarmThroughput={"WriteUnitsPerSecond": 40_000, "ReadUnitsPerSecond": 12_000})
    bodies = [{"pk": {"S": f"{n:02}"}, "sk": {"S": "1"}, "b": {"B": bytes(390_000)}} for n in range(25)]
    assert outcome(lambda: console.batch(bodies)) == "done"


def test_every_rule_names_its_source() -> None:
    text = (Path(__file__).parents[2] / "docs" / "inside" / "aws.md").read_text()
    sections = {part.partition("\n")[0].strip(): part for part in text.split("\n### ")[1:]}
    assert set(sections) == {rule.value for rule in Rule}
    for rule, section in sections.items():
        assert "Source: " in section, f"{rule} has no source"
