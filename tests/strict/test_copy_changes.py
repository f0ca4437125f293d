"""What reaches a copy in another Region and when: writes of every kind, and each setting that a table shares with it."""

from typing import Any

import pytest

from tests.strict.console import KB, Console, index, item, outcome, provisioned, until_refused
from tests.strict.copies import IRELAND, STREAM, copied, create, delete, read_data, states, update
from tests.strict.settings import DEFINED, WARM

KEYS = [{"pk": {"S": "a"}, "sk": {"S": str(number)}} for number in range(6)]


def scaled(console: Console, write: int = 2, **more: Any) -> Console:
    """A table with units and its copy in Ireland; the console of Ireland."""
    console.dynamo.account.autoscaled |= {"t", "t/index/i"}
    return copied(console, write=write, read=5, **more)


def test_writes_of_every_kind_reach_a_copy() -> None:
    console = Console()
    ireland = copied(console)
    set_g = {"UpdateExpression": "SET g = :g", "ExpressionAttributeValues": {":g": {"S": "new"}}}
    console.batch([item(sk=str(number), g={"S": "old"}) for number in range(5)])
    console.wait(seconds=2)
    assert [read_data(ireland, str(number)) for number in range(6)] == ["old"] * 5 + [None]
    requests = [{"DeleteRequest": {"Key": KEYS[0]}}, {"PutRequest": {"Item": item(sk="5", g={"S": "new"})}}]
    console("BatchWriteItem", RequestItems={"t": requests})
    console("UpdateItem", TableName="t", Key=KEYS[1], **set_g)
    console("DeleteItem", TableName="t", Key=KEYS[2])
    actions = [{"Update": {"TableName": "t", "Key": KEYS[3], **set_g}}, {"Delete": {"TableName": "t", "Key": KEYS[4]}}]
    console("TransactWriteItems", TransactItems=actions)
    console.wait(seconds=2)
    assert [read_data(ireland, str(number)) for number in range(6)] == [None, "new", None, "new", None, "new"]


def test_a_write_reaches_a_copy_after_one_second_at_the_earliest_and_two_at_the_latest() -> None:
    console = Console()
    ireland = copied(console)
    console.batch([item(sk=str(number), g={"S": "x"}) for number in range(20)])
    console.wait(seconds=0.999)
    assert {read_data(ireland, str(number)) for number in range(20)} == {None}
    console.wait(seconds=1.001)
    assert {read_data(ireland, str(number)) for number in range(20)} == {"x"}


def test_writes_that_arrive_take_the_units_of_the_copy() -> None:
    console = Console()
    ireland = scaled(console)
    until_refused(lambda: ireland.put(sk="own"), 2000)
    console.wait(seconds=30)
    console.put(size=20 * KB)
    console.wait(seconds=2)
    ireland.describe()
    # Two units of each of 32 seconds, less twenty.
    assert until_refused(lambda: ireland.put(sk="own"), 2000) == 44


def test_a_copy_is_listed_after_seven_seconds_and_made_in_49() -> None:
    console = Console()
    (ireland,) = console.connect(IRELAND)
    console.table(**STREAM)
    console.update(ReplicaUpdates=create())
    console.wait(seconds=6.9)
    assert states(console) == []
    console.wait(seconds=0.1)
    assert states(console) == [(IRELAND, "CREATING")]
    console.wait(seconds=41.9)
    assert states(console) == [(IRELAND, "CREATING")]
    console.wait(seconds=0.1)
    assert states(console) == [(IRELAND, "ACTIVE")]
    assert ireland.describe()["AttributeDefinitions"] == console.describe()["AttributeDefinitions"]


def test_a_copy_that_is_being_deleted_answers_for_a_second_more() -> None:
    console = Console()
    ireland = copied(console)
    console.batch([item(sk="0", g={"S": "x"})])
    console.wait(seconds=2)
    console.update(ReplicaUpdates=delete())
    console.wait(seconds=0.9)
    assert read_data(ireland, "0") == "x"
    console.wait(seconds=0.2)
    assert outcome(lambda: read_data(ireland, "0")) == "ResourceNotFoundException"


def test_a_copy_of_a_table_with_a_key_of_aws_is_encrypted_with_one_too() -> None:
    ireland = copied(Console(), SSESpecification={"Enabled": True, "SSEType": "KMS"})
    assert ireland.describe()["SSEDescription"] == {"Status": "ENABLED", "SSEType": "KMS"}


def test_connected_services_have_one_lock() -> None:
    """Calls of all Regions are handled one at a time."""
    console = Console()
    (ireland,) = console.connect(IRELAND)
    assert console.dynamo._lock is ireland.dynamo._lock


def test_the_indexes_of_a_copy_follow_those_of_its_table() -> None:
    console = Console()
    ireland = scaled(console, write=5, GlobalSecondaryIndexes=[index(write=5, read=5)])

    def change(**update: Any) -> Any:
        console.update(GlobalSecondaryIndexUpdates=[update], **(DEFINED if "Create" in update else {}))
        console.wait(minutes=3)
        return ireland.describe().get("GlobalSecondaryIndexes", [])

    (own,) = change(Update={"IndexName": "i", "ProvisionedThroughput": provisioned(6, 7)})
    units = own["ProvisionedThroughput"]
    assert (units["WriteCapacityUnits"], units["ReadCapacityUnits"]) == (6, 7)
    assert [own["IndexName"] for own in change(Create=index("j", write=1, read=1))] == ["i", "j"]
    assert [own["IndexName"] for own in change(Delete={"IndexName": "i"})] == ["j"]


def test_maxima_of_indexes_and_warm_throughput_reach_a_copy() -> None:
    console = Console()
    ireland = copied(console)
    console.update(GlobalSecondaryIndexUpdates=[{"Create": index()}], **DEFINED)
    console.wait(minutes=3)
    assert ireland.describe()["AttributeDefinitions"] == DEFINED["AttributeDefinitions"]
    most = {"MaxWriteRequestUnits": 70, "MaxReadRequestUnits": 80}
    console.update(GlobalSecondaryIndexUpdates=[{"Update": {"IndexName": "i", "OnDemandThroughput": most}}])
    console.wait(minutes=3)
    assert ireland.describe()["GlobalSecondaryIndexes"][0]["OnDemandThroughput"] == most
    console.update(**WARM)
    console.wait(minutes=3)
    assert ireland.describe()["WarmThroughput"] == {**WARM["WarmThroughput"], "Status": "ACTIVE"}


def test_new_units_of_a_table_are_those_of_its_copy_too() -> None:
    console = Console()
    ireland = scaled(console)
    console.update(ProvisionedThroughput=provisioned(100, 5))
    console.wait(seconds=42)
    ireland.describe()
    until_refused(lambda: ireland.put(sk="own"), 2000)
    console.wait(seconds=2)
    assert until_refused(lambda: ireland.put(sk="own"), 2000) == 200


@pytest.mark.parametrize(
    ("pauses", "expected"),
    [([120], "done"), ([120, 120], "LimitExceededException"), ([39, 120], "LimitExceededException")],
)
def test_classes_that_a_copy_takes_over_count_for_its_limit(pauses: list[int], expected: str) -> None:
    """Also those that it has for a moment, because its table changes again before the copy has followed."""
    console = Console()
    copied(console)
    names = ["STANDARD_INFREQUENT_ACCESS", "STANDARD", "STANDARD_INFREQUENT_ACCESS"]
    for name, pause in zip(names, pauses, strict=False):
        console.update(TableClass=name)
        console.wait(seconds=pause)
    own = update(TableClassOverride=names[len(pauses)])
    assert outcome(lambda: console.update(ReplicaUpdates=own)) == expected
