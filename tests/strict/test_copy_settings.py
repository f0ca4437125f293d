"""What a copy takes over from its table, what it has of its own, and when its settings may be changed."""

from typing import Any

import pytest

from strict.refusals import Refusal
from tests.strict.console import Console, index, outcome, provisioned, until_refused
from tests.strict.copies import IRELAND, STREAM, copied, create, delete, update
from tests.strict.local import local
from tests.strict.settings import MAXIMA, WARM

BUSY, REFUSED, OVER = "ResourceInUseException", "ValidationException", "LimitExceededException"
ENCRYPTED: dict[str, Any] = {"SSESpecification": {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": "arn:key"}}
INFREQUENT = "STANDARD_INFREQUENT_ACCESS"


def scaled(console: Console, write: int = 5, read: int = 7, **settings: Any) -> Console:
    """A table with units whose writes scale, and its copy in Ireland; the console of Ireland."""
    (ireland,) = console.connect(IRELAND)
    console.dynamo.account.autoscaled |= {"t", "t/index/i"}
    console.table(write=write, read=read, **STREAM, GlobalSecondaryIndexes=[index(write=3, read=4)])
    console.update(ReplicaUpdates=create(**settings))
    console.wait(minutes=1)
    return ireland


def units(described: Any) -> tuple[int, int]:
    own = described["ProvisionedThroughput"]
    return own["WriteCapacityUnits"], own["ReadCapacityUnits"]


def test_a_copy_has_what_its_table_has() -> None:
    console = Console()
    (ireland,) = console.connect(IRELAND)
    both: dict[str, Any] = {
        "GlobalSecondaryIndexes": [index(ProjectionType="KEYS_ONLY")],
        "LocalSecondaryIndexes": [local()],
    }
    console.table(**STREAM, **ENCRYPTED, **WARM, **MAXIMA, **both, TableClass=INFREQUENT)
    console.update(ReplicaUpdates=create(KMSMasterKeyId="arn:ireland"))
    console.wait(minutes=1)
    copy = ireland.describe()
    assert copy["OnDemandThroughput"] == {"MaxWriteRequestUnits": 70, "MaxReadRequestUnits": 80}
    assert copy["WarmThroughput"] == {"WriteUnitsPerSecond": 9000, "ReadUnitsPerSecond": 15_000, "Status": "ACTIVE"}
    assert copy["StreamSpecification"] == STREAM["StreamSpecification"]
    assert copy["TableClassSummary"] == {"TableClass": INFREQUENT}
    assert [own["IndexName"] for own in copy["GlobalSecondaryIndexes"]] == ["i"]
    assert copy["GlobalSecondaryIndexes"][0]["Projection"] == {"ProjectionType": "KEYS_ONLY"}
    assert [own["IndexName"] for own in copy["LocalSecondaryIndexes"]] == ["l"]
    # Of the indexes a table lists those with throughput of their own.
    (shown,) = console.describe()["Replicas"]
    assert (shown["KMSMasterKeyId"], shown["GlobalSecondaryIndexes"]) == ("arn:ireland", [{"IndexName": "i"}])
    assert shown["ReplicaTableClassSummary"] == {"TableClass": INFREQUENT}
    # A maximum of the table's is none of the copy's: each has its own bucket.
    console.update(OnDemandThroughput={"MaxWriteRequestUnits": 90, "MaxReadRequestUnits": -1})
    console.wait(seconds=41)
    assert console.describe()["OnDemandThroughput"] == {"MaxWriteRequestUnits": 90, "MaxReadRequestUnits": -1}
    assert ireland.describe()["OnDemandThroughput"] == copy["OnDemandThroughput"], "the copy follows 3 s later"
    console.wait(seconds=1)
    assert ireland.describe()["OnDemandThroughput"] == {"MaxWriteRequestUnits": 90, "MaxReadRequestUnits": -1}


def test_a_copy_has_the_units_of_its_table_and_takes_them_from_its_own_region() -> None:
    console = Console()
    ireland = scaled(console)
    copy = ireland.describe()
    assert (units(copy), units(copy["GlobalSecondaryIndexes"][0])) == ((5, 7), (3, 4))
    (shown,) = console.describe()["Replicas"]
    assert "ProvisionedThroughputOverride" not in shown
    # The copy's units refuse what is beyond them from its first second on.
    console.wait(seconds=3)
    assert outcome(lambda: [ireland.put(size=100_000) for _ in range(5)]) == "ProvisionedThroughputExceededException"


def test_a_copy_may_be_made_with_read_units_and_a_class_of_its_own() -> None:
    console = Console()
    own: dict[str, Any] = {"ProvisionedThroughputOverride": {"ReadCapacityUnits": 9}, "TableClassOverride": INFREQUENT}
    ireland = scaled(console, **own)
    (shown,) = console.describe()["Replicas"]
    assert shown["ProvisionedThroughputOverride"] == {"ReadCapacityUnits": 9}
    assert shown["ReplicaTableClassSummary"] == {"TableClass": INFREQUENT}
    assert (units(ireland.describe()), units(console.describe())) == ((5, 9), (5, 7))
    # What the table changes does not reach what the copy has of its own.
    console.update(ProvisionedThroughput=provisioned(6, 8))
    console.wait(minutes=2)
    assert units(ireland.describe()) == (6, 9)
    assert ireland.describe()["TableClassSummary"] == {"TableClass": INFREQUENT}


def test_a_standard_copy_of_an_infrequent_table_stays_standard() -> None:
    console = Console()
    (ireland,) = console.connect(IRELAND)
    console.table(**STREAM, TableClass=INFREQUENT)
    console.update(ReplicaUpdates=create(TableClassOverride="STANDARD"))
    console.wait(minutes=1)
    assert ireland.describe()["TableClassSummary"] == {"TableClass": "STANDARD"}
    console.update(DeletionProtectionEnabled=True)
    console.wait(minutes=1)
    console.update(OnDemandThroughput={"MaxWriteRequestUnits": 90})
    console.wait(minutes=2)
    assert ireland.describe()["TableClassSummary"] == {"TableClass": "STANDARD"}


def read_units(count: int) -> list[Any]:
    return update(ProvisionedThroughputOverride={"ReadCapacityUnits": count})


def test_read_units_of_a_copy_are_within_the_limits_of_a_change() -> None:
    console = Console()
    ireland = scaled(console)

    def change(count: int) -> str:
        result = outcome(lambda: console.update(ReplicaUpdates=read_units(count)))
        console.wait(minutes=1)
        return result

    assert change(40_001) == OVER
    assert [change(count) for count in (9, 8, 6, 5, 4)] == ["done"] * 5
    # Four decreases of a day are had, within an hour; the table's own decreases are others.
    assert (change(3), change(4), change(5)) == (OVER, "done", "done")
    assert ireland.describe()["ProvisionedThroughput"]["NumberOfDecreasesToday"] == 4
    assert console.describe()["ProvisionedThroughput"]["NumberOfDecreasesToday"] == 0
    # The table's own units take the override away: from then on the copy follows again.
    assert change(7) == "done"
    assert "ProvisionedThroughputOverride" not in console.describe()["Replicas"][0]
    console.update(ProvisionedThroughput=provisioned(5, 20))
    console.wait(minutes=2)
    assert units(ireland.describe()) == (5, 20)


def test_a_change_of_a_copy_takes_its_time_on_both_sides() -> None:
    console = Console()
    ireland = scaled(console)
    console.update(ReplicaUpdates=read_units(9))
    states = (console.describe()["TableStatus"], ireland.describe()["TableStatus"], units(ireland.describe()))
    assert states == ("UPDATING", "UPDATING", (5, 7))
    assert outcome(lambda: console.update(ReplicaUpdates=read_units(10))) == BUSY
    assert outcome(lambda: console.update(ReplicaUpdates=delete())) == BUSY
    console.wait(seconds=39)
    assert (console.describe()["TableStatus"], units(ireland.describe())) == ("ACTIVE", (5, 9))


@pytest.mark.parametrize("side", ["table", "copy"])
def test_while_one_side_changes_by_itself_the_copy_takes_no_other_change(side: str) -> None:
    """The protection is of one side alone: the other stays active."""
    console = Console()
    ireland = copied(console)
    (ireland if side == "copy" else console).update(DeletionProtectionEnabled=True)
    states = [own.describe()["TableStatus"] for own in (console, ireland)]
    assert states == (["ACTIVE", "UPDATING"] if side == "copy" else ["UPDATING", "ACTIVE"])
    infrequent = update(TableClassOverride=INFREQUENT)
    assert outcome(lambda: console.update(ReplicaUpdates=infrequent)) == BUSY
    console.wait(minutes=2)
    assert outcome(lambda: console.update(ReplicaUpdates=infrequent)) == "done"


def test_what_a_change_of_a_copy_must_have() -> None:
    console = Console()
    copied(console)
    assert outcome(lambda: console.update(ReplicaUpdates=update())) == REFUSED
    with pytest.raises(Refusal, match="when BillingMode is PAY_PER_REQUEST"):
        console.update(ReplicaUpdates=read_units(5))


def test_an_index_without_automatic_scaling_is_named_as_one() -> None:
    console = Console()
    console.connect(IRELAND)
    console.dynamo.account.autoscaled.add("t")
    console.table(write=5, read=5, **STREAM, GlobalSecondaryIndexes=[index(write=5, read=5)])
    with pytest.raises(Refusal, match=r"^ValidationException: GSI write capacity"):
        console.update(ReplicaUpdates=create())


def test_a_copy_is_protected_by_its_own_protection_alone() -> None:
    console = Console()
    copied(console, DeletionProtectionEnabled=True)
    assert outcome(lambda: console.update(ReplicaUpdates=delete())) == "done"


@pytest.mark.parametrize(("seconds", "expected"), [(86_399, REFUSED), (86_400, "done")])
def test_a_source_stays_for_a_day(seconds: int, expected: str) -> None:
    console = Console()
    console.connect(IRELAND)
    console.table(**STREAM)
    console.update(ReplicaUpdates=create())
    console.wait(seconds=seconds)
    assert outcome(lambda: console("DeleteTable", TableName="t")) == expected


def test_a_deleted_copy_is_listed_until_a_little_before_its_end() -> None:
    console = Console()
    ireland = copied(console)
    console.update(ReplicaUpdates=delete())
    # The table itself is free again after 39 s, but for what the copy forbids.
    assert console.describe()["TableStatus"] == "UPDATING"
    console.wait(seconds=39)
    assert console.describe()["TableStatus"] == "ACTIVE"
    # 244 s in all, of which the table lists it for 209.
    console.wait(seconds=169)
    assert [shown["ReplicaStatus"] for shown in console.describe()["Replicas"]] == ["DELETING"]
    console.wait(seconds=1)
    assert "Replicas" not in console.describe()
    console.wait(seconds=34)
    assert ireland.describe()["TableStatus"] == "DELETING"
    console.wait(seconds=1)
    assert outcome(ireland.describe) == "ResourceNotFoundException"


def test_a_new_copy_is_seen_in_its_region_and_backed_up_in_its_time() -> None:
    console = Console()
    (ireland,) = console.connect(IRELAND)
    console.table(**STREAM)
    console.update(ReplicaUpdates=create())
    recovery = {"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}}

    def back_up() -> str:
        return outcome(lambda: ireland("UpdateContinuousBackups", TableName="t", **recovery))

    # What is not listed yet is no copy of the table; later the table is busy with it.
    assert outcome(lambda: console.update(ReplicaUpdates=delete())) == REFUSED
    console.wait(seconds=9)
    assert outcome(lambda: console.update(ReplicaUpdates=delete())) == BUSY
    assert (outcome(ireland.describe), back_up()) == ("ResourceNotFoundException", "ResourceNotFoundException")
    console.wait(seconds=1)
    assert (ireland.describe()["TableStatus"], back_up()) == ("CREATING", "ResourceNotFoundException")
    console.wait(seconds=39)
    # Active after 49 s; six seconds later it may have backups.
    assert (ireland.describe()["TableStatus"], back_up()) == ("ACTIVE", "ContinuousBackupsUnavailableException")
    console.wait(seconds=6)
    assert back_up() == "done"


def test_a_copy_whose_class_is_the_tables_again_follows_it() -> None:
    console = Console()
    ireland = copied(console)
    for name in (INFREQUENT, "STANDARD"):
        console.update(ReplicaUpdates=update(TableClassOverride=name))
        console.wait(minutes=1)
    console.update(TableClass=INFREQUENT)
    console.wait(minutes=2)
    assert ireland.describe()["TableClassSummary"] == {"TableClass": INFREQUENT}


def test_new_read_units_of_a_copy_can_be_read_with() -> None:
    console = Console()
    ireland = scaled(console, read=1)
    console.update(ReplicaUpdates=read_units(100))
    console.wait(seconds=39)
    ireland.describe()
    console.wait(seconds=5)
    key = {"pk": {"S": "a"}, "sk": {"S": "1"}}
    read = until_refused(lambda: ireland("GetItem", TableName="t", Key=key, ConsistentRead=True), 1000)
    # Five seconds of a hundred, and one per second since the copy was made.
    assert 500 < read < 620
