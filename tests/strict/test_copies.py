"""What copies in other Regions hold and show, beyond the rules."""

from typing import Any

import pytest

from strict import Rule
from strict.refusals import Refusal
from tests.strict.console import Console, index, item, outcome
from tests.strict.copies import IRELAND, STREAM, TOKYO, copied, create, delete, read_data, states, update


def test_a_change_of_copies_travels_alone() -> None:
    console = Console()
    console.connect(IRELAND)
    console.table(**STREAM)
    both: dict[str, Any] = {"ReplicaUpdates": create(), "DeletionProtectionEnabled": True}
    assert outcome(lambda: console.update(**both)) == "ValidationException"


def test_a_copy_of_a_table_with_items_takes_minutes_and_has_all_of_them() -> None:
    console = Console()
    (ireland,) = console.connect(IRELAND)
    console.table(**STREAM, GlobalSecondaryIndexes=[index()])
    console.batch([item(sk=str(number), g={"S": "x"}) for number in range(5)])
    console.update(ReplicaUpdates=create())
    assert outcome(lambda: ireland.describe()) == "ResourceNotFoundException"
    console.wait(minutes=5)
    assert states(console) == [(IRELAND, "CREATING")]
    # What is written, replaced and deleted meanwhile arrives, too.
    console.put(sk="5", g={"S": "late"})
    console.put(sk="1", g={"S": "other"})
    console("DeleteItem", TableName="t", Key={"pk": {"S": "a"}, "sk": {"S": "0"}})
    console.wait(minutes=1)
    assert states(console) == [(IRELAND, "CREATING")]
    console.wait(minutes=8)
    assert states(console) == [(IRELAND, "ACTIVE")]
    assert [read_data(ireland, str(number)) for number in range(6)] == [None, "other", "x", "x", "x", "late"]
    console.wait(seconds=3)
    values: dict[str, Any] = {"KeyConditionExpression": "g = :g", "ExpressionAttributeValues": {":g": {"S": "x"}}}
    assert ireland.query(IndexName="i", **values)["Count"] == 3
    # Each item is counted once, whichever way it came.
    console.wait(hours=7)
    assert (console.describe()["ItemCount"], ireland.describe()["ItemCount"]) == (5, 5)


def test_each_side_describes_the_other() -> None:
    console = Console()
    ireland = copied(console)
    described = console.describe()
    assert described["GlobalTableVersion"] == "2019.11.21"
    assert described["Replicas"] == [
        {
            "RegionName": "eu-west-1",
            "ReplicaStatus": "ACTIVE",
            "ReplicaArn": "arn:aws:dynamodb:eu-west-1:000000000000:table/t",
            "ReplicaTableClassSummary": {"TableClass": "STANDARD"},
        }
    ]
    assert states(ireland) == [("us-east-1", "ACTIVE")]


def test_a_copy_has_its_own_tags_protection_and_backups() -> None:
    console = Console()
    tags = [{"Key": "a", "Value": "b"}]
    ireland = copied(console, Tags=tags, DeletionProtectionEnabled=True)
    arn = ireland.describe()["TableArn"]
    assert ireland("ListTagsOfResource", ResourceArn=arn) == {"Tags": []}
    assert ireland.describe()["DeletionProtectionEnabled"] is False
    assert console.describe()["DeletionProtectionEnabled"] is True
    ireland.update(DeletionProtectionEnabled=True)
    console.wait(minutes=1)
    assert outcome(lambda: console.update(ReplicaUpdates=delete())) == "ValidationException"
    assert outcome(lambda: ireland("DeleteTable", TableName="t")) == "ValidationException"


def test_a_class_of_its_own_stays_while_the_tables_class_changes() -> None:
    console = Console()
    ireland = copied(console)
    console.update(ReplicaUpdates=update(TableClassOverride="STANDARD_INFREQUENT_ACCESS"))
    console.wait(minutes=1)
    assert ireland.describe()["TableClassSummary"] == {"TableClass": "STANDARD_INFREQUENT_ACCESS"}
    assert console.describe()["TableClassSummary"] == {"TableClass": "STANDARD"}
    console.update(ReplicaUpdates=update(TableClassOverride="STANDARD"))
    console.wait(minutes=1)
    refused = outcome(lambda: console.update(ReplicaUpdates=update(TableClassOverride="STANDARD_INFREQUENT_ACCESS")))
    assert refused == "LimitExceededException"


def test_every_change_takes_longer_with_copies() -> None:
    console = Console()
    copied(console)
    console.update(DeletionProtectionEnabled=True)
    console.wait(seconds=30)
    assert console.describe()["TableStatus"] == "UPDATING"
    console.wait(seconds=10)
    assert console.describe()["TableStatus"] == "ACTIVE"


def test_a_region_must_be_known_and_another_and_a_member() -> None:
    console = Console()
    console.connect(IRELAND, TOKYO)
    console.table(**STREAM)
    for updates, words in (
        (create("us-east-1"), "local region"),
        (create("mars-1"), "not supported"),
        (delete(TOKYO), "not part of the global table"),
        (update(TOKYO, TableClassOverride="STANDARD"), "not part of the global table"),
    ):
        with pytest.raises(Refusal, match=words) as refused:
            console.update(ReplicaUpdates=updates)
        assert refused.value.code == "ValidationException"


def test_a_region_that_has_its_quota_of_tables_takes_no_copy() -> None:
    console = Console()
    (ireland,) = console.connect(IRELAND)
    console.table(**STREAM)
    ireland.dynamo.account.most_tables = 2
    for name in "nm":
        ireland("CreateTable", TableName=name, **_BARE)
    assert outcome(lambda: console.update(ReplicaUpdates=create())) == "LimitExceededException"


def test_a_condition_holds_in_its_own_region_alone() -> None:
    """Two Regions may both make an item that may be made once: writes belong into one Region."""
    console = Console()
    ireland = copied(console)
    once = {"ConditionExpression": "attribute_not_exists(pk)"}
    for region in (console, ireland):
        assert outcome(lambda region=region: region("PutItem", TableName="t", Item=item(), **once)) == "done"  # type: ignore[misc]
    console.wait(seconds=5)
    assert outcome(lambda: console("PutItem", TableName="t", Item=item(), **once)) == "ConditionalCheckFailedException"


def test_a_copy_without_units_has_the_writes_later() -> None:
    console = Console()
    console.dynamo.account.autoscaled.add("t")
    ireland = copied(console, write=2, read=5)
    # The copy's own writes have taken its units, those that it had saved included.
    spent = 0
    while outcome(lambda: ireland.put(sk="own", size=1000)) == "done":
        spent += 1
        assert spent < 2000
    # 20 units, which the copy has saved after ten seconds; the write is due after two.
    console.put(sk="1", size=20_000, g={"S": "new"})
    console.wait(seconds=4)
    assert (read_data(console), read_data(ireland)) == ("new", None)
    console.wait(seconds=30)
    assert read_data(ireland) == "new"


def test_a_transaction_may_be_seen_in_part() -> None:
    console = Console()
    ireland = copied(console)
    puts = [{"Put": {"TableName": "t", "Item": item(sk=str(number), g={"S": "x"})}} for number in range(10)]
    console("TransactWriteItems", TransactItems=puts)
    seen = set()
    for _ in range(20):
        console.wait(seconds=0.1)
        seen.add(sum(read_data(ireland, str(number)) is not None for number in range(10)))
    assert max(seen) == 10
    assert any(0 < count < 10 for count in seen)


def test_a_lost_key_closes_the_copy_and_not_the_table() -> None:
    console = Console()
    (ireland,) = console.connect(IRELAND)
    console.table(**STREAM, SSESpecification={"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": "arn:key"})
    console.update(ReplicaUpdates=create(KMSMasterKeyId="arn:ireland"))
    console.wait(minutes=1)
    ireland.dynamo.account.lost_keys.add("arn:ireland")
    assert states(console) == [(IRELAND, "INACCESSIBLE_ENCRYPTION_CREDENTIALS")]
    assert console.describe()["TableStatus"] == "ACTIVE"


def test_a_table_deleted_and_made_again_has_nothing_of_the_earlier_one() -> None:
    console = Console()
    ireland = copied(console)
    regions = console.dynamo.account.regions
    assert regions is not None
    # What is long on its way does not reach the later table.
    regions.seconds = 7200
    console.put(g={"S": "old"})
    console.update(ReplicaUpdates=delete())
    console.wait(minutes=5)
    console("DeleteTable", TableName="t")
    console.wait(minutes=1)
    console.table(**STREAM)
    console.update(ReplicaUpdates=create())
    console.wait(hours=3)
    assert read_data(ireland) is None
    assert states(console) == [(IRELAND, "ACTIVE")]


def test_a_copy_deleted_in_its_own_region_is_missed() -> None:
    console = Console()
    ireland = copied(console)
    console.wait(hours=25)
    ireland("DeleteTable", TableName="t")
    assert states(console) == [(IRELAND, "DELETING")]
    console.wait(minutes=1)
    assert states(console) == []


def test_without_other_regions_a_copy_cannot_be_made() -> None:
    console = Console()
    console.table(**STREAM)
    assert outcome(lambda: console.update(ReplicaUpdates=create())) == "ValidationException"


def test_units_beyond_those_of_the_other_region_are_refused() -> None:
    console = Console(without={Rule.COPY_CAPACITY})
    (ireland,) = console.connect(IRELAND)
    for name in ("one", "two"):
        ireland.table(name, write=40_000, read=10)
    console.table(write=5, read=5, **STREAM)
    assert outcome(lambda: console.update(ReplicaUpdates=create())) == "LimitExceededException"
    assert console.describe()["ProvisionedThroughput"]["WriteCapacityUnits"] == 5


_BARE: dict[str, Any] = {
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


def test_an_item_that_a_transaction_only_looks_at_is_not_sent_to_the_copies() -> None:
    """It would replace what another Region has just written."""
    console = Console()
    ireland = copied(console)
    console.put(g={"S": "old"})
    console.wait(seconds=5)
    ireland.put(g={"S": "new"})
    key = {"pk": {"S": "a"}, "sk": {"S": "1"}}
    check = {"TableName": "t", "Key": key, "ConditionExpression": "attribute_exists(pk)"}
    put = {"Put": {"TableName": "t", "Item": item(sk="2", g={"S": "x"})}}
    console("TransactWriteItems", TransactItems=[{"ConditionCheck": check}, put])
    console.wait(seconds=5)
    assert [(read_data(own), read_data(own, "2")) for own in (console, ireland)] == [("new", "x")] * 2
