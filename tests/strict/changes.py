"""Scenarios of the control plane: the allowed changes of a table, their times and their number."""

from typing import Any

from strict import Rule, Timings
from tests.strict.console import Console, index, outcome, provisioned
from tests.strict.scenarios import shows


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


@shows(Rule.STREAM_ONCE, ["done", "ValidationException", "done", "ValidationException", True])
def stream_once(console: Console) -> list[object]:
    console.table()
    seen: list[object] = []
    arns = set()
    for enabled in (True, True, False, False):
        view = {"StreamViewType": "NEW_IMAGE"} if enabled else {}
        specification = {"StreamEnabled": enabled, **view}
        seen.append(outcome(lambda asked=specification: console.update(StreamSpecification=asked)))  # type: ignore[misc]
        console.wait(seconds=10)
        arns.add(console.describe().get("LatestStreamArn"))
    console.update(StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"})
    console.wait(seconds=10)
    return [*seen, console.describe()["LatestStreamArn"] not in arns]


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


@shows(Rule.WARM_COVERS_PROVISIONED, ["ValidationException", "ValidationException"])
def warm_covers_provisioned(console: Console) -> list[str]:
    warm = {"WriteUnitsPerSecond": 4000, "ReadUnitsPerSecond": 12_000}
    wide = index(write=5000, read=10) | {"WarmThroughput": warm}
    return [
        outcome(lambda: console.table(write=5000, read=10, WarmThroughput=warm)),
        outcome(lambda: console.table("indexed", write=10, read=10, GlobalSecondaryIndexes=[wide])),
    ]


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
        maxima = [maximum.get("OnDemandThroughput", {}) for maximum in both]
        table, its_index = (
            {side: maximum[f"Max{side}RequestUnits"] for side in ("Write", "Read") if maximum} for maximum in maxima
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


@shows(Rule.TABLE_QUOTA, 25)
def table_quota(console: Console) -> int:
    """25 tables stand for the service's 2,500."""
    console.dynamo.account.most_tables = 25
    for number in range(30):
        if outcome(lambda number=number: console.create(f"t{number}")) != "done":  # type: ignore[misc]
            return number
        console.wait(seconds=1)
    return 30


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


_INDEXED: dict[str, Any] = {"GlobalSecondaryIndexes": [index()]}


def _create_many(console: Console, most: int, **more: Any) -> int:
    """The number of tables that can be in creation, requested slowly enough for the rate of requests."""
    for number in range(most):
        if outcome(lambda number=number: console.create(f"t{number}", **more)) != "done":  # type: ignore[misc]
            return number
        console.wait(seconds=0.2)
    return most
