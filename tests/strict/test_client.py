"""The client in this process: operations, errors, pages and times as boto3 has them; and what a service counts."""

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from strict import Fault, Kind, ManualClock, StrictDynamo
from strict.account import Account
from strict.client import StrictClient
from strict.faults import find_tables
from strict.refusals import Refusal, refuse_throttled, refuse_transaction
from strict.timings import Timings
from tests.strict.console import KEYS, NOON, Console, index, item, outcome, until_refused


def test_an_error_has_boto3s_form() -> None:
    console = Console()
    client = StrictClient(console.dynamo)
    with pytest.raises(ClientError) as refused:
        client.describe_table(TableName="none")
    answer: Any = refused.value.response
    assert answer["Error"]["Code"] == "ResourceNotFoundException"
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert refused.value.operation_name == "DescribeTable"
    console.table()
    console.dynamo.faults.add(Fault(Kind.SERVER_ERROR))
    with pytest.raises(ClientError) as failed:
        client.put_item(TableName="t", Item=item())
    assert failed.value.response["ResponseMetadata"]["HTTPStatusCode"] == 500


def test_a_paginator_follows_every_page() -> None:
    console = Console()
    console.table()
    for number in range(5):
        console.put(sk=str(number))
    console.wait(seconds=3)
    values: dict[str, Any] = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "a"}}}
    pages = StrictClient(console.dynamo).get_paginator("query").paginate(TableName="t", Limit=2, **values)
    assert [[found["sk"]["S"] for found in page["Items"]] for page in pages] == [["0", "1"], ["2", "3"], ["4"]]


def test_times_are_datetimes() -> None:
    console = Console()
    console.table(write=5, read=5, GlobalSecondaryIndexes=[index(write=5, read=5)])
    update = {"IndexName": "i", "ProvisionedThroughput": {"WriteCapacityUnits": 4, "ReadCapacityUnits": 5}}
    answer = console.update(GlobalSecondaryIndexUpdates=[{"Update": update}])
    assert answer["TableDescription"]["TableStatus"] == "UPDATING"
    table = StrictClient(console.dynamo).describe_table(TableName="t")["Table"]
    assert table["CreationDateTime"] == NOON
    (by_g,) = table["GlobalSecondaryIndexes"]
    lowered = datetime(2026, 3, 15, 12, 1, tzinfo=UTC)
    assert by_g["ProvisionedThroughput"]["LastDecreaseDateTime"] == lowered
    console.wait(seconds=2)
    console.units(4, 5)
    answer = StrictClient(console.dynamo).update_table(TableName="t", TableClass="STANDARD_INFREQUENT_ACCESS")
    described = answer["TableDescription"]
    assert described["CreationDateTime"] == NOON
    assert described["ProvisionedThroughput"]["LastDecreaseDateTime"] == datetime(2026, 3, 15, 12, 1, 2, tzinfo=UTC)


def test_an_error_has_the_members_of_its_answer() -> None:
    console = Console()
    console.table()
    check = {
        "TableName": "t",
        "Key": {"pk": {"S": "a"}, "sk": {"S": "1"}},
        "ConditionExpression": "attribute_exists(pk)",
    }
    with pytest.raises(ClientError) as refused:
        StrictClient(console.dynamo).transact_write_items(TransactItems=[{"ConditionCheck": check}])
    answer: Any = refused.value.response
    assert answer["CancellationReasons"] == [{"Code": "ConditionalCheckFailed"}]


def test_a_handler_sees_the_body_as_it_is_sent_and_may_replace_it() -> None:
    """The service writes JSON without spaces, and binary values in Base64."""
    console = Console()
    console.table()
    client, key = StrictClient(console.dynamo), {"pk": {"S": "a"}, "sk": {"S": "1"}}
    client.put_item(TableName="t", Item={**key, "b": {"B": b"\x00\x01\x02"}})
    bodies: list[bytes] = []

    def replace(response_dict: Any) -> None:
        bodies.append(response_dict["body"])
        response_dict["body"] = b'{"Item": {}}'

    client.meta.events.register("before-parse.dynamodb.GetItem", replace)
    assert client.get_item(TableName="t", Key=key, ConsistentRead=True) == {"Item": {}}
    assert bodies == [b'{"Item":{"pk":{"S":"a"},"sk":{"S":"1"},"b":{"B":"AAEC"}}}']
    assert client.scan(TableName="t", ConsistentRead=True)["Count"] == 1, "other operations have no handler"
    # Python looks for such methods, for example to copy an object.
    assert not hasattr(client, "__deepcopy__")


def test_calls_are_counted_by_operation_refused_ones_too() -> None:
    console = Console()
    console.table()
    for sk in "123":
        console.put(sk=sk)
    outcome(lambda: console.put(sk=""))
    console.describe()
    assert console.dynamo.calls == {"CreateTable": 1, "PutItem": 4, "DescribeTable": 1}


@pytest.mark.parametrize(
    ("payload", "tables"),
    [
        ({"TableName": "t"}, {"t"}),
        ({"RequestItems": {"t": [], "u": []}}, {"t", "u"}),
        ({"TransactItems": [{"Put": {"TableName": "t"}}, {"Delete": {"TableName": "u"}}]}, {"t", "u"}),
        ({"ResourceArn": "arn:aws:dynamodb:us-east-1:000000000000:table/t"}, {"t"}),
        ({}, set()),
    ],
)
def test_the_tables_of_a_request(payload: dict[str, Any], tables: set[str]) -> None:
    assert find_tables(payload) == tables


@pytest.mark.parametrize(
    ("operation", "request_", "reasons"),
    [
        ("PutItem", {"TableName": "t", "Item": item()}, [("Write", "t")]),
        ("GetItem", {"TableName": "t", "Key": {}}, [("Read", "t")]),
        ("BatchWriteItem", {"RequestItems": {"u": [], "t": []}}, [("Write", "t"), ("Write", "u")]),
        ("TransactWriteItems", {"TransactItems": [{"Put": {"TableName": "t"}}]}, [("Write", "t")]),
        ("BatchGetItem", {"RequestItems": {"u": {"Keys": []}}}, [("Read", "u")]),
        ("ListTables", {}, [("Read", "?")]),
    ],
)
def test_a_throttle_on_demand_names_side_and_tables(operation: str, request_: Any, reasons: Any) -> None:
    console = Console()
    console.dynamo.faults.add(Fault(Kind.THROTTLED))
    with pytest.raises(Refusal) as refused:
        console(operation, **request_)
    assert refused.value.members["ThrottlingReasons"] == [
        {
            "reason": f"Table{side}ProvisionedThroughputExceeded",
            "resource": f"arn:aws:dynamodb:us-east-1:000000000000:table/{name}",
        }
        for side, name in reasons
    ]


def test_a_slow_answer_may_be_lost_too_and_a_fault_after_the_effect_waits_for_it() -> None:
    console = Console()
    console.table()
    console.dynamo.faults.add(Fault(Kind.TIMEOUT_AFTER))
    console.dynamo.faults.add(Fault(Kind.SLOW, seconds=3))
    with pytest.raises(Exception, match="after it took effect"):
        console.put()
    console.dynamo.faults.clear()
    assert console.clock.time.minute * 60 + console.clock.time.second == 63
    assert console.query(ConsistentRead=True)["Count"] == 1


@pytest.mark.parametrize(
    ("refusal", "document"),
    [
        (
            Refusal("InternalServerError", "m", status=500),
            {"__type": "com.amazon.coral.service#InternalServerError", "message": "m"},
        ),
        (
            refuse_transaction(["None", "ConditionalCheckFailed"]),
            {
                "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
                "message": "Transaction cancelled, please refer cancellation reasons for specific reasons "
                "[None, ConditionalCheckFailed]",
                "CancellationReasons": [{"Code": "None"}, {"Code": "ConditionalCheckFailed"}],
            },
        ),
    ],
)
def test_an_error_over_http(refusal: Refusal, document: dict[str, Any]) -> None:
    assert refusal.document() == document
    assert refuse_throttled([]).members == {"ThrottlingReasons": []}


class Known:
    """An engine that has a table which the service did not make, as an emulator that was filled before.

    ``more`` are further members of the table's description. An engine without ``has_tags`` does not know tags.
    """

    def __init__(self, *, has_tags: bool = True, **more: Any) -> None:
        self.calls: list[str] = []
        self.has_tags, self.more = has_tags, more

    def call(self, operation: str, payload: Any) -> dict[str, Any]:
        self.calls.append(operation)
        if operation == "ListTagsOfResource":
            assert payload["ResourceArn"] == "arn:t"
            if not self.has_tags:
                raise Refusal("UnknownOperationException", "")
            return {"Tags": [{"Key": "a", "Value": "b"}]}
        if payload["TableName"] == "broken":
            raise Refusal("InternalServerError", "it is down", status=500)
        if operation == "GetItem":
            return {}
        if payload["TableName"] != "t":
            raise Refusal("ResourceNotFoundException", "Cannot do operations on a non-existent table")
        units = {"ProvisionedThroughput": {"WriteCapacityUnits": 7, "ReadCapacityUnits": 8}}
        return {
            "Table": {
                **KEYS,
                **units,
                "TableName": "t",
                "TableArn": "arn:t",
                "CreationDateTime": NOON.timestamp() - 60,
                "TableClassSummary": {"TableClass": "STANDARD_INFREQUENT_ACCESS"},
                "DeletionProtectionEnabled": True,
                "ItemCount": 3,
                "TableSizeBytes": 300,
                "GlobalSecondaryIndexes": [{**index(), **units}],
                "LocalSecondaryIndexes": [{**index("l"), "KeySchema": KEYS["KeySchema"]}],
                **self.more,
            }
        }


def test_a_table_that_only_the_engine_knows_is_taken_as_it_is_described() -> None:
    engine = Known()
    service = StrictDynamo(engine, ManualClock(NOON))
    described = service.call("DescribeTable", {"TableName": "t"})["Table"]
    assert described["TableStatus"] == "ACTIVE"
    units = described["ProvisionedThroughput"]
    assert (units["WriteCapacityUnits"], units["ReadCapacityUnits"]) == (7, 8)
    assert described["BillingModeSummary"] == {"BillingMode": "PROVISIONED"}
    assert described["TableClassSummary"] == {"TableClass": "STANDARD_INFREQUENT_ACCESS"}
    assert described["DeletionProtectionEnabled"] is True
    assert described["CreationDateTime"] == NOON.timestamp() - 60
    assert described["GlobalSecondaryIndexes"][0]["ProvisionedThroughput"]["ReadCapacityUnits"] == 8
    assert [own["IndexName"] for own in described["LocalSecondaryIndexes"]] == ["l"]
    assert service.account.tables["t"].tags == {"a": "b"}
    service.call("DescribeTable", {"TableName": "t"})
    assert engine.calls == ["DescribeTable", "ListTagsOfResource"], "it is taken once"
    with pytest.raises(Refusal, match="Table: none not found"):
        service.call("DescribeTable", {"TableName": "none"})


def test_a_table_that_is_taken_has_its_mode_its_stream_its_size_and_its_units() -> None:
    stream = {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    more = {"BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}, "StreamSpecification": stream}
    clock = ManualClock(NOON)
    service = StrictDynamo(Known(has_tags=False, **more), clock)
    described = service.call("DescribeTable", {"TableName": "t"})["Table"]
    assert described["BillingModeSummary"] == {"BillingMode": "PAY_PER_REQUEST"}
    assert described["StreamSpecification"] == stream
    assert described["AttributeDefinitions"] == KEYS["AttributeDefinitions"]
    assert service.account.tables["t"].tags == {}
    clock.sleep(6 * 3600)
    described = service.call("DescribeTable", {"TableName": "t"})["Table"]
    assert (described["ItemCount"], described["TableSizeBytes"]) == (3, 300)
    with pytest.raises(Refusal, match="InternalServerError: it is down"):
        service.call("DescribeTable", {"TableName": "broken"})
    # Eight read units, of one second.
    provisioned = StrictDynamo(Known(), clock)
    request = {"TableName": "t", "Key": {"pk": {"S": "a"}, "sk": {"S": "1"}}, "ConsistentRead": True}
    assert until_refused(lambda: provisioned.call("GetItem", request), 100) == 8


def test_a_region_has_2500_tables_until_a_test_says_otherwise() -> None:
    account = Account(Known(), ManualClock(NOON), Timings(), frozenset())
    assert (account.most_tables, account.indexed_at_once, account.collection_bytes) == (2500, 250, 10_737_418_240)
