"""How many changes go on at once, what a change frees again, and what its refusal says."""

from datetime import UTC, datetime
from typing import Any

import pytest

from strict.refusals import Refusal
from tests.strict.console import Console, index, outcome, provisioned
from tests.strict.copies import STREAM, copied, create
from tests.strict.local import local
from tests.strict.settings import DEFINED, SWITCH

OVER = "LimitExceededException"


@pytest.mark.parametrize("change", ["create", "update", "delete", "copy"])
def test_changes_of_every_kind_are_counted_together(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stand for the service's 500."""
    console = Console()
    console.connect("eu-west-1")
    console.table(**STREAM)
    monkeypatch.setattr("strict.checks.CHANGING_AT_ONCE", 2)
    acts = {
        "create": lambda: console.create("u"),
        "update": lambda: console.update(DeletionProtectionEnabled=True),
        "delete": lambda: console("DeleteTable", TableName="t"),
        "copy": lambda: console.update(ReplicaUpdates=create()),
    }
    for name in ("one", "two"):
        console.create(name)
    assert outcome(acts[change]) == OVER
    console.wait(seconds=6)
    assert outcome(acts[change]) == "done"


@pytest.mark.parametrize("kind", ["GlobalSecondaryIndexes", "LocalSecondaryIndexes"])
def test_tables_with_indexes_of_either_kind_are_created_so_many_at_once(kind: str) -> None:
    console = Console()
    console.dynamo.account.indexed_at_once = 2
    indexes: dict[str, Any] = {"GlobalSecondaryIndexes": [index()], "LocalSecondaryIndexes": [local()]}
    console.table("old", **{kind: indexes[kind]})
    # A table that is only updated does not count.
    console.update("old", DeletionProtectionEnabled=True)
    console.create("one", LocalSecondaryIndexes=[local()])
    console.create("two", GlobalSecondaryIndexes=[index()])
    assert outcome(lambda: console.create("three", **{kind: indexes[kind]})) == OVER


def test_a_table_on_demand_takes_nothing_of_the_accounts_units() -> None:
    console = Console()
    for name in ("one", "two"):
        console.table(name, 40_000, 5)
    assert outcome(lambda: console.create("three", 1, 5)) == OVER
    console.update("one", BillingMode="PAY_PER_REQUEST")
    console.wait(minutes=5)
    assert console.describe("one")["ProvisionedThroughput"]["WriteCapacityUnits"] == 0
    assert outcome(lambda: console.create("three", 40_000, 5)) == "done"


def test_the_cooldown_of_the_protection_begins_with_its_last_change() -> None:
    console = Console()
    console.table()
    seen = []
    for pause, protected in ((15, True), (5, False), (10, True), (0, True)):
        seen.append(outcome(lambda protected=protected: console.update(DeletionProtectionEnabled=protected)))  # type: ignore[misc]
        console.wait(seconds=pause)
    assert seen == ["done", "done", "ThrottlingException", "done"]


def test_warm_throughput_of_one_side_leaves_the_other() -> None:
    console = Console()
    console.table(WarmThroughput={"WriteUnitsPerSecond": 9000, "ReadUnitsPerSecond": 15_000})
    console.update(WarmThroughput={"ReadUnitsPerSecond": 16_000})
    console.wait(minutes=1)
    shown = console.describe()["WarmThroughput"]
    assert (shown["WriteUnitsPerSecond"], shown["ReadUnitsPerSecond"]) == (9000, 16_000)
    with pytest.raises(Refusal, match=r"WriteUnitsPerSecond is 9000$"):
        console.update(WarmThroughput={"WriteUnitsPerSecond": 8000, "ReadUnitsPerSecond": 16_000})


def test_a_refused_switch_says_when_the_next_may_come() -> None:
    console = Console()
    console.table(write=5, read=5)
    # The table is there at 12:01; a switch each way takes ten minutes.
    for _ in range(4):
        console.update(BillingMode="PAY_PER_REQUEST")
        console.wait(minutes=5)
        console.update(**SWITCH)
        console.wait(minutes=5)
    words = "Last update at Sunday, March 15, 2026 at 12:31:00 PM .* made at Monday, March 16, 2026 at 12:01:00 PM"
    with pytest.raises(Refusal, match=words):
        console.update(BillingMode="PAY_PER_REQUEST")


def test_a_new_index_of_a_table_with_copies_takes_the_longer_time() -> None:
    console = Console()
    ireland = copied(console)
    console.update(GlobalSecondaryIndexUpdates=[{"Create": index()}], **DEFINED)
    console.wait(seconds=59)
    states = console.describe()["TableStatus"], ireland.describe()["TableStatus"]
    assert states == ("UPDATING", "UPDATING")
    console.wait(seconds=1)
    assert console.describe()["TableStatus"] == "ACTIVE"
    assert "GlobalSecondaryIndexes" not in ireland.describe(), "the copy has it a little later"
    console.wait(seconds=3)
    assert ireland.describe()["GlobalSecondaryIndexes"][0]["IndexName"] == "i"


def test_a_table_of_another_region_has_its_own_name() -> None:
    console = Console()
    (ireland,) = console.connect("eu-west-1")
    ireland.create(write=5, read=5)
    assert ireland.describe()["TableArn"] == "arn:aws:dynamodb:eu-west-1:000000000000:table/t"
    ireland.wait(seconds=12)
    recovery = {"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}}
    # Active after 6 s and with backups after 12 s, to the second.
    answer = ireland("UpdateContinuousBackups", TableName="t", **recovery)["ContinuousBackupsDescription"]
    assert answer["PointInTimeRecoveryDescription"] == {"PointInTimeRecoveryStatus": "ENABLED"}
    off = {"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": False}}
    answer = ireland("UpdateContinuousBackups", TableName="t", **off)["ContinuousBackupsDescription"]
    assert answer["PointInTimeRecoveryDescription"] == {"PointInTimeRecoveryStatus": "DISABLED"}
    ireland.update(ProvisionedThroughput=provisioned(6, 5))


def test_a_refused_decrease_before_midnight_may_come_at_midnight() -> None:
    """A new day has four decreases at once, though the last is not an hour old."""
    console = Console(now=datetime(2026, 3, 15, 23, 29, tzinfo=UTC))
    console.table(write=50, read=5)
    for write in (49, 48, 47, 46):
        console.units(write, 5)
    with pytest.raises(Refusal, match=r"decreases today: 4\. .* made at Monday, March 16, 2026 at 12:00:00 AM"):
        console.units(45, 5)
    console.wait(minutes=30)
    assert outcome(lambda: console.units(45, 5)) == "done"
