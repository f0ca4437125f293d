"""What the service shows of a table, of its indexes and of its tags, and when."""

from datetime import UTC, datetime

import pytest

from strict.refusals import Refusal
from tests.strict.console import KEYS, Console, index, item, outcome, provisioned
from tests.strict.settings import DEFINED, KEY, MAXIMA, STREAM


def test_sizes_are_those_of_six_hours_ago_of_an_index_too() -> None:
    console = Console()
    console.table(GlobalSecondaryIndexes=[index(ProjectionType="KEYS_ONLY")])
    console.put(size=100, g={"S": "x"})
    console.put(sk="2", size=50)

    def shown() -> tuple[int, ...]:
        described = console.describe()
        (one,) = described["GlobalSecondaryIndexes"]
        return described["TableSizeBytes"], described["ItemCount"], one["IndexSizeBytes"], one["ItemCount"]

    console.wait(hours=5, minutes=58, seconds=59)
    assert shown() == (0, 0, 0, 0)
    console.wait(seconds=1)
    # The index holds pk, sk and g: 2 + 1, 2 + 1 and 1 + 1 bytes.
    assert shown() == (150, 2, 8, 1)
    console("DeleteItem", TableName="t", Key={"pk": {"S": "a"}, "sk": {"S": "1"}})
    console.wait(hours=5, minutes=59)
    assert shown() == (150, 2, 8, 1)
    console.wait(minutes=1)
    assert shown() == (50, 1, 0, 0)


def test_an_index_is_made_and_deleted_in_its_time() -> None:
    console = Console()
    console.table()
    console.update(GlobalSecondaryIndexUpdates=[{"Create": index()}], **DEFINED)
    (made,) = console.describe()["GlobalSecondaryIndexes"]
    assert (made["IndexStatus"], made["Projection"]) == ("CREATING", {"ProjectionType": "ALL"})
    console.wait(minutes=1)
    described = console.describe()
    assert described["GlobalSecondaryIndexes"][0]["IndexStatus"] == "ACTIVE"
    assert [defined["AttributeName"] for defined in described["AttributeDefinitions"]] == ["pk", "sk", "g"]
    console.update(GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "i"}}])
    assert console.describe()["GlobalSecondaryIndexes"][0]["IndexStatus"] == "DELETING"
    console.wait(minutes=1)
    assert "GlobalSecondaryIndexes" not in console.describe()


def test_a_table_is_described_as_it_was_made() -> None:
    console = Console(now=datetime(2026, 3, 15, 12, tzinfo=UTC))
    console.table("plain")
    plain = console.describe("plain")
    assert plain["TableArn"] == "arn:aws:dynamodb:us-east-1:000000000000:table/plain"
    assert plain["CreationDateTime"] == 1_773_576_000.0
    assert plain["BillingModeSummary"] == {"BillingMode": "PAY_PER_REQUEST"}
    assert plain["TableClassSummary"] == {"TableClass": "STANDARD"}
    assert plain["DeletionProtectionEnabled"] is False
    assert {"OnDemandThroughput", "SSEDescription", "StreamSpecification", "LatestStreamArn"}.isdisjoint(plain)
    every = {**STREAM, **KEY, **MAXIMA, "DeletionProtectionEnabled": True, "TableClass": "STANDARD_INFREQUENT_ACCESS"}
    console.table("full", **every)
    full = console.describe("full")
    assert full["OnDemandThroughput"] == {"MaxWriteRequestUnits": 70, "MaxReadRequestUnits": 80}
    assert full["SSEDescription"] == {"Status": "ENABLED", "SSEType": "KMS"}
    assert full["LatestStreamArn"] == f"{full['TableArn']}/stream/2026-03-15T12:01:00.000"
    assert (full["DeletionProtectionEnabled"], full["TableClassSummary"]["TableClass"]) == (
        True,
        "STANDARD_INFREQUENT_ACCESS",
    )


def test_tags_are_added_replaced_and_taken_away() -> None:
    console = Console()
    console.table(Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "2"}])
    arn = {"ResourceArn": console.describe()["TableArn"]}
    console("TagResource", **arn, Tags=[{"Key": "b", "Value": "3"}, {"Key": "c", "Value": "4"}])
    tags = [{"Key": name, "Value": value} for name, value in (("a", "1"), ("b", "3"), ("c", "4"))]
    assert console("ListTagsOfResource", **arn)["Tags"] == tags
    console("UntagResource", **arn, TagKeys=["a", "none"])
    assert console("ListTagsOfResource", **arn)["Tags"] == [{"Key": "b", "Value": "3"}, {"Key": "c", "Value": "4"}]
    assert outcome(lambda: console("TagResource", ResourceArn="x/none", Tags=[])) == "ResourceNotFoundException"


@pytest.mark.parametrize(("seconds", "expected"), [(0.9, "done"), (1, "ResourceNotFoundException")])
def test_a_table_that_is_deleted_answers_for_a_second(seconds: float, expected: str) -> None:
    console = Console()
    console.table()
    console("DeleteTable", TableName="t")
    console.wait(seconds=seconds)
    assert outcome(console.put) == expected


def test_a_creation_that_is_refused_leaves_no_table() -> None:
    console = Console()
    with pytest.raises(Refusal):
        console.create("t", 40_001, 5)
    assert outcome(console.describe) == "ResourceNotFoundException"
    assert outcome(console.create) == "done"


def test_sizes_are_those_of_the_items_that_batches_and_updates_leave() -> None:
    console = Console()
    console.table(GlobalSecondaryIndexes=[index()])
    console.batch([item(sk=sk, size=1000, g={"S": "x"}) for sk in "123"])
    keys = [{"pk": {"S": "a"}, "sk": {"S": sk}} for sk in "123"]
    puts = [{"PutRequest": {"Item": item(sk="1", size=100, g={"S": "x"})}}, {"DeleteRequest": {"Key": keys[1]}}]
    # The items of a moment ago are known, however old a read may be: 1,000 bytes are replaced.
    written = console("BatchWriteItem", RequestItems={"t": puts}, ReturnConsumedCapacity="INDEXES")
    assert written["ConsumedCapacity"][0]["CapacityUnits"] == 4.0
    console("UpdateItem", TableName="t", Key=keys[2], UpdateExpression="REMOVE g")
    console.wait(hours=6)
    described = console.describe()
    (one,) = described["GlobalSecondaryIndexes"]
    # "g" and "x" are gone from the third.
    assert (described["TableSizeBytes"], described["ItemCount"]) == (1098, 2)
    assert (one["IndexSizeBytes"], one["ItemCount"]) == (100, 1)


def test_decreases_are_counted_by_the_day_and_the_last_is_shown_on() -> None:
    console = Console(now=datetime(2026, 3, 15, 12, tzinfo=UTC))
    console.table(write=9, read=9)
    for write in (8, 7):
        console.units(write, 9)

    def shown() -> tuple[int, float]:
        figures = console.describe()["ProvisionedThroughput"]
        return figures["NumberOfDecreasesToday"], figures["LastDecreaseDateTime"]

    # The table exists for a minute, and each change took 3 s.
    last = datetime(2026, 3, 15, 12, 1, 3, tzinfo=UTC).timestamp()
    assert shown() == (2, last)
    console.wait(hours=11)
    assert shown() == (2, last)
    console.wait(hours=1)
    assert shown() == (0, last)
    console.wait(days=30)
    assert shown() == (0, last), "the same day of another month"


def test_a_side_without_a_maximum_is_shown_as_such() -> None:
    console = Console()
    console.table(OnDemandThroughput={"MaxWriteRequestUnits": 70}, GlobalSecondaryIndexes=[index()])
    described = console.describe()
    assert described["OnDemandThroughput"] == {"MaxWriteRequestUnits": 70, "MaxReadRequestUnits": -1}
    assert described["GlobalSecondaryIndexes"][0]["IndexArn"] == f"{described['TableArn']}/index/i"


def test_the_partition_key_comes_first_in_whichever_order_keys_are_named() -> None:
    console = Console()
    keys = {**KEYS, "KeySchema": KEYS["KeySchema"][::-1]}
    console("CreateTable", TableName="t", **keys, BillingMode="PAY_PER_REQUEST")
    assert console.describe()["KeySchema"] == KEYS["KeySchema"]
    console.wait(seconds=60)
    console.put("b", "1")
    assert console.query("b", ConsistentRead=True)["Count"] == 1


def test_a_table_has_units_unless_it_is_said_to_be_on_demand() -> None:
    """Model, `CreateTable`: PROVISIONED is the default of BillingMode."""
    console = Console()
    console("CreateTable", TableName="t", **KEYS, ProvisionedThroughput=provisioned(5, 6))
    described = console.describe()
    assert described["BillingModeSummary"] == {"BillingMode": "PROVISIONED"}
    assert described["ProvisionedThroughput"]["ReadCapacityUnits"] == 6


def test_a_name_is_free_as_soon_as_its_table_is_deleted() -> None:
    console = Console()
    console.table()
    console("DeleteTable", TableName="t")
    console.wait(seconds=8)
    assert outcome(console.create) == "done"
