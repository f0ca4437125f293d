"""Scenarios of copies in other Regions: what a table needs for them, how long they take, and what reaches them."""

from typing import Any

from strict import Rule
from tests.strict.console import Console, index, outcome, provisioned
from tests.strict.scenarios import shows

STREAM: dict[str, Any] = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}}
IRELAND, TOKYO = "eu-west-1", "ap-northeast-1"


def create(region: str = IRELAND, **settings: Any) -> list[Any]:
    """ReplicaUpdates that make a copy."""
    return [{"Create": {"RegionName": region, **settings}}]


def update(region: str = IRELAND, **settings: Any) -> list[Any]:
    """ReplicaUpdates that change a copy."""
    return [{"Update": {"RegionName": region, **settings}}]


def delete(region: str = IRELAND) -> list[Any]:
    """ReplicaUpdates that delete a copy."""
    return [{"Delete": {"RegionName": region}}]


def copied(console: Console, **more: Any) -> Console:
    """A table with a copy in Ireland, which is active; the console of Ireland."""
    (ireland,) = console.connect(IRELAND)
    console.table(**STREAM, **more)
    console.update(ReplicaUpdates=create())
    console.wait(minutes=1)
    return ireland


def read_data(console: Console, sk: str = "1") -> Any:
    """The attribute ``g`` of an item, read consistently in the console's Region; None without the item."""
    key = {"pk": {"S": "a"}, "sk": {"S": sk}}
    answer = console("GetItem", TableName="t", Key=key, ConsistentRead=True)
    return answer.get("Item", {}).get("g", {}).get("S")


def states(console: Console, name: str = "t") -> list[tuple[str, str]]:
    """The copies that a table lists, with their states."""
    replicas = console.describe(name).get("Replicas", [])
    return [(replica["RegionName"], replica["ReplicaStatus"]) for replica in replicas]


@shows(Rule.ONE_COPY_ACTION, ["ValidationException"] * 2 + ["done"])
def one_copy_action(console: Console) -> list[str]:
    console.connect(IRELAND, TOKYO)
    console.table(**STREAM)
    both = [*create(), *create(TOKYO)]
    seen = [outcome(lambda: console.update(ReplicaUpdates=both))]
    console.wait(minutes=2)
    seen.append(
        outcome(lambda: console.update(ReplicaUpdates=[*create(), *update(TOKYO, TableClassOverride="STANDARD")]))
    )
    console.wait(minutes=2)
    return [*seen, outcome(lambda: console.update(ReplicaUpdates=create()))]


@shows(Rule.COPY_NAME, ["ValidationException"] * 3 + ["done"])
def copy_name(console: Console) -> list[str]:
    """Another table, the copy itself, and a copy that is no longer listed but not yet gone."""
    (ireland,) = console.connect(IRELAND)
    ireland.table("other")
    console.table("other", **STREAM)
    console.table(**STREAM)
    seen = [outcome(lambda: console.update("other", ReplicaUpdates=create()))]
    console.update(ReplicaUpdates=create())
    console.wait(minutes=1)
    seen.append(outcome(lambda: console.update(ReplicaUpdates=create())))
    console.wait(minutes=1)
    if seen[-1] == "done":
        return seen
    console.update(ReplicaUpdates=delete())
    console.wait(seconds=220)
    assert states(console) == []
    seen.append(outcome(lambda: console.update(ReplicaUpdates=create())))
    console.wait(seconds=30)
    return [*seen, outcome(lambda: console.update(ReplicaUpdates=create()))]


@shows(Rule.COPY_CAPACITY, ["ValidationException"] * 2 + ["done"])
def copy_capacity(console: Console) -> list[str]:
    """A provisioned table needs automatic scaling of its writes, and so does each of its indexes."""
    console.connect(IRELAND)
    console.table(write=5, read=5, **STREAM, GlobalSecondaryIndexes=[index(write=5, read=5)])
    seen = [outcome(lambda: console.update(ReplicaUpdates=create()))]
    for name in ("t", "t/index/i"):
        console.dynamo.account.autoscaled.add(name)
        console.wait(minutes=5)
        seen.append(outcome(lambda: console.update(ReplicaUpdates=create())))
    return seen


@shows(Rule.COPY_STREAM, ["ValidationException", "ValidationException", "done"])
def copy_stream(console: Console) -> list[str]:
    console.connect(IRELAND)
    console.table("none")
    console.table("keys", StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"})
    console.table("both", **STREAM)
    return [
        outcome(lambda name=name: console.update(name, ReplicaUpdates=create()))  # type: ignore[misc]
        for name in ("none", "keys", "both")
    ]


@shows(Rule.COPY_KEY, ["ValidationException", "done", "ValidationException", "done"])
def copy_key(console: Console) -> list[str]:
    """A table with a key of the customer's needs one in the other Region, and another table may not have one there."""
    console.connect(IRELAND)
    console.table("own", **STREAM, SSESpecification={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": "arn:key"})
    console.table(**STREAM)
    settings: list[tuple[str, dict[str, str]]] = [("own", {}), ("own", {"KMSMasterKeyId": "arn:ireland"})]
    settings += [("t", {"KMSMasterKeyId": "arn:ireland"}), ("t", {})]
    return [
        outcome(lambda name=name, key=key: console.update(name, ReplicaUpdates=create(**key)))  # type: ignore[misc]
        for name, key in settings
    ]


@shows(Rule.STREAM_STAYS, ["ValidationException", "ValidationException", "done"])
def stream_stays(console: Console) -> list[str]:
    """Neither while the copy is there nor while it is being deleted; the stream stays on after it."""
    off: dict[str, Any] = {"StreamSpecification": {"StreamEnabled": False}}
    copied(console)
    seen = [outcome(lambda: console.update(**off))]
    console.wait(minutes=2)
    console.update(ReplicaUpdates=delete())
    seen.append(outcome(lambda: console.update(**off)))
    console.wait(minutes=5)
    return [*seen, outcome(lambda: console.update(**off))]


@shows(Rule.COPY_CHANGING, ["ResourceInUseException"] * 4 + ["done"])
def copy_changing(console: Console) -> list[str]:
    """The table is active again while the copy is still made or deleted, and refuses every change all the same."""
    console.connect(IRELAND, TOKYO)
    console.table(**STREAM)
    console.put()
    console.update(ReplicaUpdates=create())
    console.wait(minutes=2)
    assert console.describe()["TableStatus"] == "ACTIVE"
    assert states(console) == [(IRELAND, "CREATING")]
    seen = [
        outcome(lambda: console.update(ReplicaUpdates=create(TOKYO))),
        outcome(lambda: console.update(DeletionProtectionEnabled=True)),
        outcome(lambda: console.update(ReplicaUpdates=delete())),
    ]
    if "done" in seen:
        return seen
    console.wait(minutes=12)
    console.update(ReplicaUpdates=delete())
    console.wait(minutes=1)
    assert console.describe()["TableStatus"] == "ACTIVE"
    seen.append(outcome(lambda: console.update(TableClass="STANDARD_INFREQUENT_ACCESS")))
    console.wait(minutes=5)
    return [*seen, outcome(lambda: console.update(TableClass="STANDARD_INFREQUENT_ACCESS"))]


@shows(Rule.COPY_LISTED_LATER, ([], [(IRELAND, "CREATING")], [(IRELAND, "ACTIVE")]))
def copy_listed_later(console: Console) -> tuple[list[tuple[str, str]], ...]:
    console.connect(IRELAND)
    console.table(**STREAM)
    console.update(ReplicaUpdates=create())
    seen = []
    for pause in (0, 10, 50):
        console.wait(seconds=pause)
        seen.append(states(console))
    return tuple(seen)


@shows(Rule.COPY_ONLY_DESCRIBED, ["CREATING", *["ResourceNotFoundException"] * 3, "done"])
def copy_only_described(console: Console) -> list[str]:
    (ireland,) = console.connect(IRELAND)
    console.table(**STREAM)
    console.put()
    console.update(ReplicaUpdates=create())
    console.wait(minutes=1)
    arn = ireland.describe()["TableArn"]
    assert arn == "arn:aws:dynamodb:eu-west-1:000000000000:table/t"
    tags = [{"Key": "a", "Value": "b"}]
    seen = [
        ireland.describe()["TableStatus"],
        outcome(lambda: ireland("TagResource", ResourceArn=arn, Tags=tags)),
        outcome(lambda: ireland.update(DeletionProtectionEnabled=True)),
        outcome(lambda: ireland.put()),
    ]
    console.wait(minutes=12)
    return [*seen, outcome(lambda: ireland("TagResource", ResourceArn=arn, Tags=tags))]


@shows(
    Rule.COPY_SOURCE,
    ["ValidationException", "ValidationException", "ValidationException", "done", "gone", "done"],
)
def copy_source(console: Console) -> list[str]:
    """Within 24 hours the table can go as soon as its copies are gone, and a copy as soon as the copies made from it."""
    ireland, _ = console.connect(IRELAND, TOKYO)
    console.table(**STREAM)
    console.update(ReplicaUpdates=create())
    console.wait(minutes=2)
    ireland.update(ReplicaUpdates=create(TOKYO))
    console.wait(minutes=2)
    seen = [
        outcome(lambda: console("DeleteTable", TableName="t")),
        outcome(lambda: console.update(ReplicaUpdates=delete())),
    ]
    if seen[0] == "done":
        return seen
    console.update(ReplicaUpdates=delete(TOKYO))
    console.wait(minutes=5)
    console.update(ReplicaUpdates=delete())
    console.wait(minutes=1)
    seen.append(outcome(lambda: console("DeleteTable", TableName="t")))
    console.wait(minutes=4)
    seen.append(outcome(lambda: console("DeleteTable", TableName="t")))
    console.wait(minutes=1)
    seen.append("gone" if outcome(lambda: ireland.describe()) == "ResourceNotFoundException" else "there")
    # After 24 hours a table may go before its copies, which stay.
    console.table(**STREAM)
    console.update(ReplicaUpdates=create())
    console.wait(hours=25)
    return [*seen, outcome(lambda: console("DeleteTable", TableName="t"))]


@shows(
    Rule.COPY_SETTINGS,
    [
        (True, False, ["i"], 0),
        (True, True, ["i"], 0),
        (True, True, ["i", "j"], 0),
        (False, True, ["i", "j"], 7),
        (False, True, ["i", "j"], 9),
    ],
)
def copy_settings(console: Console) -> list[tuple[bool, bool, list[str], int]]:
    """Class, indexes, billing mode and units reach a copy; its own class and its own read units do not change."""
    ireland = copied(console, GlobalSecondaryIndexes=[index()])

    def shown() -> tuple[bool, bool, list[str], int]:
        described = ireland.describe()
        names = [named["IndexName"] for named in described["GlobalSecondaryIndexes"]]
        return (
            described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST",
            described["TableClassSummary"]["TableClass"] == "STANDARD_INFREQUENT_ACCESS",
            sorted(names),
            described["ProvisionedThroughput"]["ReadCapacityUnits"],
        )

    units = [{"Update": {"IndexName": name, "ProvisionedThroughput": provisioned(5, 5)}} for name in ("i", "j")]
    seen = [shown()]
    for change in (
        {"TableClass": "STANDARD_INFREQUENT_ACCESS"},
        {"GlobalSecondaryIndexUpdates": [{"Create": index("j")}]},
        {
            "BillingMode": "PROVISIONED",
            "ProvisionedThroughput": provisioned(5, 7),
            "GlobalSecondaryIndexUpdates": units,
        },
        {"ReplicaUpdates": update(ProvisionedThroughputOverride={"ReadCapacityUnits": 9})},
    ):
        outcome(lambda change=change: console.update(**change))  # type: ignore[misc]
        console.wait(minutes=5)
        seen.append(shown())
    return seen


@shows(Rule.COPY_LAG, [(None, None), ("new", None), (None, "new")])
def copy_lag(console: Console) -> list[tuple[Any, ...]]:
    """An item reaches the copy a little later, and so does its deletion; a strongly consistent read there has what arrived."""
    ireland = copied(console)
    seen = [(read_data(console), read_data(ireland))]
    console.put(g={"S": "new"})
    seen.append((read_data(console), read_data(ireland)))
    console.wait(seconds=3)
    console("DeleteItem", TableName="t", Key={"pk": {"S": "a"}, "sk": {"S": "1"}})
    seen.append((read_data(console), read_data(ireland)))
    return seen


@shows(Rule.LAST_WRITER, ["second", "second"])
def last_writer(console: Console) -> list[Any]:
    """Two Regions write an item before either has heard of the other's write."""
    ireland = copied(console)
    console.put(g={"S": "first"})
    console.wait(seconds=0.1)
    ireland.put(g={"S": "second"})
    console.wait(seconds=5)
    return [read_data(console), read_data(ireland)]
