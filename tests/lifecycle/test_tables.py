"""The control plane's adapter: the meaning of DynamoDB's refusals, and the contents of requests."""

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from aws.dynamodb.tables import DynamoTables
from tidetable.config import TableClass
from tidetable.errors import TableMissing, TableRefused
from tidetable.layout import Index
from tidetable.ports import TableSpec

ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/t"
INDEX = Index("status", partition_by="status", sort_by="time", project=None)


class Client:
    """A DynamoDB that gives every request the same answer, and keeps the requests."""

    def __init__(self, code: str = "", message: str = "") -> None:
        self._error = ClientError({"Error": {"Code": code, "Message": message}}, "x") if code else None
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def call(**request: Any) -> Any:
            self.sent.append((name, request))
            if self._error is not None:
                raise self._error
            return {"Table": {"TableStatus": "ACTIVE", "TableArn": "arn"}}

        return call


def tables(client: Any) -> DynamoTables:
    return DynamoTables(client)


SIMULTANEOUS = "Subscriber limit exceeded: Only 500 tables can be created, updated, or deleted simultaneously"
QUOTA = "Subscriber limit exceeded: There is a limit of 2500 tables per subscriber"
DECREASES = "Subscriber limit exceeded: Provisioned throughput decreases are limited within a given UTC day"
# Code and message; whether a later request may succeed; whether fewer parallel requests may succeed.
REFUSALS = [
    ("LimitExceededException", SIMULTANEOUS, True, True),
    ("LimitExceededException", QUOTA, False, False),
    ("LimitExceededException", DECREASES, True, False),
    ("ThrottlingException", "Rate exceeded", True, True),
    ("ResourceInUseException", "Table is being updated", True, False),
    ("ContinuousBackupsUnavailableException", "Backups are being enabled", True, False),
    ("InternalServerError", "", True, False),
    ("ValidationException", "The requested value equals the current value", False, False),
    ("AccessDeniedException", "not authorized", False, False),
]


@pytest.mark.parametrize(("code", "message", "transient", "crowded"), REFUSALS)
def test_a_refusal_says_whether_time_mends_it_and_whether_fewer_at_once_would(
    code: str, message: str, transient: bool, crowded: bool
) -> None:
    with pytest.raises(TableRefused) as refused:
        tables(Client(code, message)).set_class("t", TableClass.STANDARD)
    assert (refused.value.transient, refused.value.crowded) == (transient, crowded)
    assert str(refused.value) == f"{code}: {message}"


def test_an_error_that_is_not_known_rises_as_it_is() -> None:
    with pytest.raises(ClientError, match="UnrecognizedClientException"):
        tables(Client("UnrecognizedClientException", "no")).set_class("t", TableClass.STANDARD)


def test_a_table_that_is_gone_is_missing_for_a_change_and_no_trouble_for_a_deletion() -> None:
    gone = tables(Client("ResourceNotFoundException", "not found"))
    with pytest.raises(TableMissing, match="t"):
        gone.set_protection("t", protected=False)
    gone.delete("t")
    assert gone.describe("t") is None


def test_an_index_has_the_warm_throughput_and_the_maxima_of_its_table() -> None:
    """An index with too little throughput throttles its table's writes."""
    client: Any = Client()
    spec = TableSpec("t", None, None, TableClass.STANDARD, {}, (INDEX,), warm=(8000, 12_000), most=(500, 600))
    assert tables(client).create(spec)
    ((operation, request),) = client.sent
    assert operation == "create_table"
    (index,) = request["GlobalSecondaryIndexes"]
    for part in (request, index):
        assert part["WarmThroughput"] == {"WriteUnitsPerSecond": 8000, "ReadUnitsPerSecond": 12_000}
        assert part["OnDemandThroughput"] == {"MaxWriteRequestUnits": 500, "MaxReadRequestUnits": 600}


def test_an_index_with_more_units_than_its_table_is_as_warm_as_its_units() -> None:
    """DynamoDB refuses a warm throughput below the provisioned one, of an index as of a table."""
    client: Any = Client()
    units = {"status": (100, 5)}
    spec = TableSpec("t", 10, 10, TableClass.STANDARD, {}, (INDEX,), index_units=units, warm=(50, 60))
    assert tables(client).create(spec)
    ((_, request),) = client.sent
    (index,) = request["GlobalSecondaryIndexes"]
    assert request["WarmThroughput"] == {"WriteUnitsPerSecond": 50, "ReadUnitsPerSecond": 60}
    assert index["WarmThroughput"] == {"WriteUnitsPerSecond": 100, "ReadUnitsPerSecond": 60}


def test_maxima_are_lifted_with_minus_one_of_the_table_and_of_its_indexes() -> None:
    client: Any = Client()
    tables(client).set_maxima("t", None, ["status"])
    none = {"MaxWriteRequestUnits": -1, "MaxReadRequestUnits": -1}
    assert client.sent == [
        (
            "update_table",
            {
                "TableName": "t",
                "OnDemandThroughput": none,
                "GlobalSecondaryIndexUpdates": [{"Update": {"IndexName": "status", "OnDemandThroughput": none}}],
            },
        )
    ]


@pytest.mark.parametrize("keys", ["ab", "abcde"])
def test_the_tags_of_all_pages_are_read(keys: str) -> None:
    """A table may have 50 tags. The tags that prove it to be ours may be on any page."""
    client = boto3.client(
        "dynamodb",
        region_name="us-east-1",
        aws_access_key_id="id",
        aws_secret_access_key="secret",
        endpoint_url="http://x",
    )
    with Stubber(client) as stub:
        stub.add_response("describe_table", {"Table": {"TableArn": ARN}}, {"TableName": "t"})
        for start in range(0, len(keys), 2):
            page = [{"Key": key, "Value": key.upper()} for key in keys[start : start + 2]]
            more = {"NextToken": str(start + 2)} if start + 2 < len(keys) else {}
            token = {"NextToken": str(start)} if start else {}
            stub.add_response("list_tags_of_resource", {"Tags": page} | more, {"ResourceArn": ARN} | token)
        assert tables(client).tags("t") == {key: key.upper() for key in keys}
        stub.assert_no_pending_responses()
