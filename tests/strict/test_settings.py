"""Changes of a table at their edges: how long each takes, what goes together, and what each limit counts."""

from typing import Any

import pytest

from strict import Timings
from tests.strict.console import Console, index, outcome, provisioned
from tests.strict.local import local
from tests.strict.settings import DEFINED, KEY, MAXIMA, REFUSED, STREAM, SWITCH, UNITS, WARM


def at(seconds: float, console: Console) -> str:
    """The table's state after so many seconds."""
    console.wait(seconds=seconds)
    return str(console.describe()["TableStatus"])


@pytest.mark.parametrize(
    ("made", "change", "seconds"),
    [
        ({"write": 5, "read": 5}, UNITS, 2),
        ({}, MAXIMA, 2),
        ({"write": 5, "read": 5}, {"BillingMode": "PAY_PER_REQUEST"}, 172),
        ({}, SWITCH, 60),
        ({}, {"TableClass": "STANDARD_INFREQUENT_ACCESS"}, 30),
        ({}, {"DeletionProtectionEnabled": True}, 1),
        ({}, WARM, 30),
        ({}, STREAM, 5),
        ({}, KEY, 30),
        ({}, {"GlobalSecondaryIndexUpdates": [{"Create": index()}], **DEFINED}, 60),
        # The longest of what is changed together.
        ({"write": 5, "read": 5}, {"BillingMode": "PAY_PER_REQUEST", **STREAM}, 172),
    ],
    ids=["units", "maxima", "on demand", "provisioned", "class", "protection", "warm", "stream", "key", "index", "two"],
)
def test_a_change_takes_its_time(made: dict[str, Any], change: dict[str, Any], seconds: float) -> None:
    console = Console()
    console.table(**made)
    answer = console.update(**change)["TableDescription"]
    assert answer["TableStatus"] == "UPDATING"
    assert outcome(lambda: console.update(DeletionProtectionEnabled=True)) == "ResourceInUseException"
    assert (at(seconds - 0.1, console), at(0.1, console)) == ("UPDATING", "ACTIVE")


@pytest.mark.parametrize(
    ("indexes", "seconds"),
    [({}, 6), ({"GlobalSecondaryIndexes": [index()]}, 22), ({"LocalSecondaryIndexes": [local()]}, 22)],
)
def test_a_creation_and_a_deletion_take_their_time(indexes: dict[str, Any], seconds: float) -> None:
    console = Console()
    console.create(**indexes)
    assert (at(seconds - 0.1, console), at(0.1, console)) == ("CREATING", "ACTIVE")
    console("DeleteTable", TableName="t")
    console.wait(seconds=7.9)
    assert outcome(lambda: console.create(**indexes)) == "ResourceInUseException"
    console.wait(seconds=0.1)
    assert outcome(console.describe) == "ResourceNotFoundException"
    assert outcome(lambda: console.create(**indexes)) == "done"


def test_timings_are_scaled_all_of_them() -> None:
    half = Timings().scale(0.5)
    assert (half.create, half.to_on_demand, half.linger, half.copy_lingers) == (3.0, 86.0, 0.5, 17.5)


CREATE_J = {"GlobalSecondaryIndexUpdates": [{"Create": index("j")}]}
TWO = {"GlobalSecondaryIndexUpdates": [{"Create": index("j")}, {"Create": index("k")}]}


def index_units(write: int = 6, read: int = 6) -> dict[str, Any]:
    update = {"IndexName": "i", "ProvisionedThroughput": provisioned(write, read)}
    return {"GlobalSecondaryIndexUpdates": [{"Update": update}]}


INDEX_MAXIMA = {"GlobalSecondaryIndexUpdates": [{"Update": {"IndexName": "i", **MAXIMA}}]}


@pytest.mark.parametrize(
    ("on_demand", "change", "expected"),
    [
        (False, {**UNITS, **index_units()}, "done"),
        (False, index_units(), "done"),
        (False, {"BillingMode": "PAY_PER_REQUEST", **MAXIMA}, "done"),
        (False, {"BillingMode": "PAY_PER_REQUEST", **STREAM}, "done"),
        (True, {**SWITCH, **index_units()}, "done"),
        (True, {**MAXIMA, **INDEX_MAXIMA}, "done"),
        (True, {}, REFUSED),
        (True, {**STREAM, "TableClass": "STANDARD_INFREQUENT_ACCESS"}, REFUSED),
        (True, {**STREAM, "DeletionProtectionEnabled": True}, REFUSED),
        (True, {**WARM, **MAXIMA}, REFUSED),
        (True, {**KEY, **STREAM}, REFUSED),
        (True, TWO, REFUSED),
        (True, {**CREATE_J, **MAXIMA}, REFUSED),
        (False, {**UNITS, **CREATE_J}, REFUSED),
        # What the billing mode does not have, and what a change of it needs.
        (True, UNITS, REFUSED),
        (True, index_units(), REFUSED),
        (False, MAXIMA, REFUSED),
        (False, INDEX_MAXIMA, REFUSED),
        (True, SWITCH, REFUSED),
        (True, {"BillingMode": "PROVISIONED", **index_units()}, REFUSED),
    ],
)
def test_what_goes_into_one_change(on_demand: bool, change: dict[str, Any], expected: str) -> None:
    console = Console()
    units = {} if on_demand else {"write": 5, "read": 5}
    console.table(**units, GlobalSecondaryIndexes=[index(**units)])  # type: ignore[arg-type]
    assert outcome(lambda: console.update(**change)) == expected
    assert console.describe()["TableStatus"] == ("UPDATING" if expected == "done" else "ACTIVE")


def figures(console: Console) -> list[tuple[int, int, int]]:
    """Write and read units, and the decreases of today, of the table and of its index."""
    described = console.describe()
    both = described["ProvisionedThroughput"], described["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"]
    return [(own["WriteCapacityUnits"], own["ReadCapacityUnits"], own["NumberOfDecreasesToday"]) for own in both]


def test_an_index_has_decreases_of_its_own() -> None:
    console = Console()
    console.table(write=50, read=50, GlobalSecondaryIndexes=[index(write=50, read=50)])
    for write, read in ((49, 50), (49, 49), (60, 40), (60, 39)):
        console.update(**index_units(write, read))
        console.wait(seconds=2)
    # More of one side and less of the other is a decrease, too.
    assert figures(console) == [(50, 50, 0), (60, 39, 4)]
    assert "LastDecreaseDateTime" not in console.describe()["ProvisionedThroughput"]
    assert outcome(lambda: console.update(**index_units(60, 38))) == "LimitExceededException"
    assert outcome(lambda: console.update(**UNITS, **index_units(60, 38))) == "LimitExceededException"
    assert figures(console) == [(50, 50, 0), (60, 39, 4)], "of a refused change nothing counts"
    assert outcome(lambda: console.update(**index_units(61, 39))) == "done"
    console.wait(seconds=2)
    assert outcome(lambda: console.update(**UNITS)) == "done"


@pytest.mark.parametrize(("seconds", "expected"), [(3599, "LimitExceededException"), (3600, "done")])
def test_the_fifth_decrease_comes_an_hour_after_the_fourth(seconds: int, expected: str) -> None:
    console = Console()
    console.table(write=50, read=5)
    for write in (49, 48, 47, 46):
        console.units(write, 5)
    console.wait(seconds=seconds - 3)
    assert outcome(lambda: console.units(45, 5)) == expected


def test_what_changes_one_of_table_and_index_is_a_change() -> None:
    console = Console()
    console.table(write=5, read=5, GlobalSecondaryIndexes=[index(write=5, read=5)])
    same: dict[str, Any] = {"ProvisionedThroughput": provisioned(5, 5)}
    assert outcome(lambda: console.update(**same, **index_units(5, 5))) == REFUSED
    assert outcome(lambda: console.update(**index_units(5, 5))) == REFUSED
    assert outcome(lambda: console.update(**same, **index_units(5, 6))) == "done"
    console.wait(seconds=2)
    assert figures(console) == [(5, 5, 0), (5, 6, 0)]


@pytest.mark.parametrize(("hours", "expected"), [(23.9, "LimitExceededException"), (24, "done")])
def test_the_fifth_switch_comes_a_day_after_the_first(hours: float, expected: str) -> None:
    """Only switches to on-demand count."""
    console = Console()
    console.table()
    console.update(**SWITCH)
    console.wait(minutes=5)
    began = console.clock.time
    for _ in range(4):
        console.update(BillingMode="PAY_PER_REQUEST")
        console.wait(minutes=5)
        console.update(**SWITCH)
        console.wait(minutes=5)
    console.wait(seconds=hours * 3600 - (console.clock.time - began).total_seconds())
    assert outcome(lambda: console.update(BillingMode="PAY_PER_REQUEST")) == expected


@pytest.mark.parametrize(("days", "expected"), [(29.9, "LimitExceededException"), (30, "done")])
def test_the_third_class_comes_thirty_days_after_the_first(days: float, expected: str) -> None:
    console = Console()
    console.table()
    began = console.clock.time
    for name in ("STANDARD_INFREQUENT_ACCESS", "STANDARD_INFREQUENT_ACCESS", "STANDARD"):
        # The second is no change.
        console.update(TableClass=name)
        console.wait(minutes=5)
    console.wait(seconds=days * 86_400 - (console.clock.time - began).total_seconds())
    assert outcome(lambda: console.update(TableClass="STANDARD_INFREQUENT_ACCESS")) == expected


@pytest.mark.parametrize(("seconds", "expected"), [(14.9, "ThrottlingException"), (15, "done")])
def test_the_protection_changes_again_after_fifteen_seconds(seconds: float, expected: str) -> None:
    console = Console()
    console.table()
    console.update(DeletionProtectionEnabled=True)
    console.wait(seconds=seconds)
    assert outcome(lambda: console.update(DeletionProtectionEnabled=False)) == expected
    console.wait(seconds=5)
    assert outcome(lambda: console("DeleteTable", TableName="t")) == ("done" if expected == "done" else REFUSED)


@pytest.mark.parametrize(
    ("write", "read", "expected"),
    [(9000, 15_000, "done"), (9000, 15_001, "done"), (8999, 16_000, REFUSED), (10_000, 14_999, REFUSED)],
)
def test_no_side_of_the_warm_throughput_falls(write: int, read: int, expected: str) -> None:
    console = Console()
    console.table(**WARM)
    warm = {"WriteUnitsPerSecond": write, "ReadUnitsPerSecond": read}
    assert outcome(lambda: console.update(WarmThroughput=warm)) == expected
    console.wait(minutes=1)
    shown = console.describe()["WarmThroughput"]
    right = warm if expected == "done" else {"WriteUnitsPerSecond": 9000, "ReadUnitsPerSecond": 15_000}
    assert shown == {**right, "Status": "ACTIVE"}


@pytest.mark.parametrize(
    ("write", "read", "expected"), [(9000, 15_000, "done"), (9001, 10, REFUSED), (10, 15_001, REFUSED)]
)
def test_warm_throughput_covers_both_sides_of_the_units(write: int, read: int, expected: str) -> None:
    assert outcome(lambda: Console().create("t", write, read, **WARM)) == expected


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ([(1, 40_000), (1, 40_000)], "done"),
        ([(1, 40_001)], "LimitExceededException"),
        ([(1, 40_000), (1, 40_000), (1, 1)], "LimitExceededException"),
    ],
)
def test_the_quotas_of_units_hold_for_reads_too(tables: list[tuple[int, int]], expected: str) -> None:
    console = Console()
    seen = [
        outcome(lambda number=number, units=units: console.create(f"t{number}", *units))  # type: ignore[misc]
        for number, units in enumerate(tables)
    ]
    assert seen == ["done"] * (len(tables) - 1) + [expected]


def test_the_quotas_of_units_hold_for_indexes_and_for_changes() -> None:
    console = Console()
    over = [index(write=40_001, read=5)]
    assert outcome(lambda: console.create("over", 5, 5, GlobalSecondaryIndexes=over)) == "LimitExceededException"
    console.table("one", 30_000, 5, GlobalSecondaryIndexes=[index(write=20_000, read=5)])
    console.table("two", 29_999, 5)

    def change(write: int) -> str:
        return outcome(lambda: console.update("two", ProvisionedThroughput=provisioned(write, 5)))

    assert change(40_001) == "LimitExceededException"
    # 50,000 and 30,001 are more than 80,000.
    assert (change(30_001), change(30_000)) == ("LimitExceededException", "done")
