"""The requests for a table and the reading of its description, member by member."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aws.dynamodb.tables import DynamoTables
from tests.fakes.boto import Client
from tidetable.config import TableClass
from tidetable.errors import TableRefused
from tidetable.layout import Index
from tidetable.ports import Table, TableSpec

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def tables(client: Client) -> DynamoTables:
    made: Any = client
    return DynamoTables(made)


def make_units(write: int, read: int, **more: Any) -> dict[str, Any]:
    return {"WriteCapacityUnits": write, "ReadCapacityUnits": read, **more}


INDEXES = [
    {"IndexName": "a", "ItemCount": 1, "IndexSizeBytes": 10, "ProvisionedThroughput": make_units(7, 8)},
    {"IndexName": "b", "ProvisionedThroughput": make_units(1, 2, NumberOfDecreasesToday=3, LastDecreaseDateTime=NOON)},
]
DESCRIBED = {
    "TableStatus": "ACTIVE",
    "ProvisionedThroughput": make_units(5, 6, NumberOfDecreasesToday=2, LastDecreaseDateTime=NOON - HOUR),
    "TableClassSummary": {"TableClass": "STANDARD_INFREQUENT_ACCESS"},
    "DeletionProtectionEnabled": True,
    "GlobalSecondaryIndexes": INDEXES,
    "LocalSecondaryIndexes": [{"IndexName": "c", "ItemCount": 2, "IndexSizeBytes": 20}],
    "CreationDateTime": NOON - 2 * HOUR,
    "TableSizeBytes": 1_000,
    "ItemCount": 100,
    "WarmThroughput": {},
    "LatestStreamArn": "arn",
    "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    "Replicas": [{"RegionName": "eu-west-1", "ReplicaStatus": "ACTIVE"}, {"RegionName": "us-west-2"}],
}
TABLE = Table(
    "t", "ACTIVE", 5, 6, TableClass.INFREQUENT, 3, NOON, 1_000, 100, {"a": (7, 8), "b": (1, 2)}, True,
    {"a": (1, 10), "c": (2, 20)}, NOON - 2 * HOUR, None, {"a": None, "b": None}, True, "arn", True,
    {"eu-west-1": "ACTIVE", "us-west-2": ""},
)  # fmt: skip


def test_a_table_is_read_from_its_description() -> None:
    assert tables(Client(describe_table={"Table": DESCRIBED})).describe("t") == TABLE
    # The least that DynamoDB Local says.
    least = {"TableStatus": "CREATING", "ProvisionedThroughput": make_units(1, 2)}
    table = Table("t", "CREATING", 1, 2, TableClass.STANDARD, shows_maxima=False)
    assert tables(Client(describe_table={"Table": least})).describe("t") == table


@pytest.mark.parametrize(
    ("write", "read", "most"), [(5, 6, (5, 6)), (5, -1, (5, -1)), (-1, 6, (-1, 6)), (-1, -1, None), (None, None, None)]
)
def test_a_table_on_demand_has_maxima_and_no_units(write: Any, read: Any, most: Any) -> None:
    maxima = {} if write is None else {"MaxWriteRequestUnits": write, "MaxReadRequestUnits": read}
    described = DESCRIBED | {
        "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
        "ProvisionedThroughput": make_units(0, 0),
        "OnDemandThroughput": maxima,
        "GlobalSecondaryIndexes": [{"IndexName": "a", "OnDemandThroughput": maxima}],
        "StreamSpecification": {"StreamEnabled": False},
    }
    found = tables(Client(describe_table={"Table": described})).describe("t")
    assert found is not None
    assert (found.write, found.read, found.index_units, found.decreases_today) == (None, None, {}, 0)
    assert (found.most, found.index_most) == (most, {"a": most})
    assert (found.stream_arn, found.has_images) == ("", False)


@pytest.mark.parametrize(
    ("shows", "has"), [("NEW_IMAGE", True), ("NEW_AND_OLD_IMAGES", True), ("OLD_IMAGE", False), ("KEYS_ONLY", False)]
)
def test_a_change_stream_has_images_if_it_shows_new_ones(shows: str, *, has: bool) -> None:
    described = DESCRIBED | {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": shows}}
    found = tables(Client(describe_table={"Table": described})).describe("t")
    assert found is not None
    assert found.has_images is has


SPEC = TableSpec(
    "t", 5, 6, TableClass.INFREQUENT, {"team": "sea"}, (
        Index("g", "status", project=("mag",)), Index("n", "status", project=()),
        Index("r", "status", sort_by="mag"), Index("l", local=True, levels=("kind",)),
    ), True, {"g": (7, 8)}, encryption="arn:key", stream="keys-only",
)  # fmt: skip


def test_a_table_is_created_with_all_of_its_settings() -> None:
    client = Client()
    assert tables(client).create(SPEC)
    ((operation, request),) = client.sent
    assert operation == "create_table"
    assert {index["IndexName"]: index["Projection"] for index in request.pop("GlobalSecondaryIndexes")} == {
        "g": {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["in_g"]},
        "n": {"ProjectionType": "KEYS_ONLY"},
        "r": {"ProjectionType": "ALL"},
    }
    (local,) = request.pop("LocalSecondaryIndexes")
    # A local index has the units of its table.
    assert sorted(local) == ["IndexName", "KeySchema", "Projection"]
    types = {
        definition["AttributeName"]: definition["AttributeType"] for definition in request.pop("AttributeDefinitions")
    }
    assert {name: kind for name, kind in types.items() if kind != "S"} == {"sk_r": "N"}
    assert {"pk", "sk", "pk_g", "sk_g", "sk_l"} <= types.keys()
    assert request == {
        "TableName": "t",
        "KeySchema": [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ],
        "TableClass": "STANDARD_INFREQUENT_ACCESS",
        "Tags": [{"Key": "team", "Value": "sea"}],
        "DeletionProtectionEnabled": True,
        "BillingMode": "PROVISIONED",
        "ProvisionedThroughput": make_units(5, 6),
        "SSESpecification": {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": "arn:key"},
        "StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"},
    }


def test_an_index_is_created_with_its_own_units_or_with_those_of_its_table() -> None:
    client = Client()
    tables(client).create(SPEC)
    indexes = client.sent[0][1]["GlobalSecondaryIndexes"]
    assert {index["IndexName"]: index["ProvisionedThroughput"] for index in indexes} == {
        "g": make_units(7, 8),
        "n": make_units(5, 6),
        "r": make_units(5, 6),
    }


@pytest.mark.parametrize(
    ("changes", "members"),
    [
        ({"encryption": "aws-owned"}, {"StreamSpecification"}),
        ({"encryption": "aws-owned", "stream": "none"}, set()),
        ({"encryption": "aws-owned", "stream": "none", "copied": True}, {"StreamSpecification"}),
        ({"encryption": "aws-managed", "stream": "none"}, {"SSESpecification"}),
        ({"encryption": "aws-owned", "stream": "none", "warm": (1, 2)}, {"WarmThroughput"}),
    ],
)
def test_a_table_has_no_settings_that_nobody_asked_for(changes: dict[str, Any], members: set[str]) -> None:
    client = Client()
    tables(client).create(replace(SPEC, indexes=(), sorted=False, **changes))
    request = client.sent[0][1]
    extras = {"SSESpecification", "StreamSpecification", "WarmThroughput", "OnDemandThroughput"}
    assert request.keys() & extras == members
    assert request["KeySchema"] == [{"AttributeName": "pk", "KeyType": "HASH"}]
    if "SSESpecification" in members:
        assert request["SSESpecification"] == {"Enabled": True, "SSEType": "KMS"}
    if changes.get("copied"):
        assert request["StreamSpecification"]["StreamViewType"] == "NEW_AND_OLD_IMAGES"


@pytest.mark.parametrize(
    ("code", "there", "made"),
    [
        ("ResourceInUseException", False, False),
        ("LimitExceededException", True, False),
        ("LimitExceededException", False, None),
    ],
)
def test_a_table_that_exists_is_not_created_again(code: str, *, there: bool, made: bool | None) -> None:
    """A refusal may hide that an earlier request has begun the table. "In use" says that it exists in some state."""
    codes = {"create_table": code} | ({} if there else {"describe_table": "ResourceNotFoundException"})
    adapter = tables(Client(codes, describe_table={"Table": DESCRIBED}))
    if made is None:
        with pytest.raises(TableRefused, match=code):
            adapter.create(SPEC)
    else:
        assert adapter.create(SPEC) is made


def test_a_change_of_units_names_only_what_changes() -> None:
    client = Client()
    adapter = tables(client)
    adapter.set_capacity("t", 5, 6, indexes={"g": (7, 8)}, most=(1, 2))
    adapter.set_capacity("t", 5, 6, itself=False, indexes={"g": (7, 8)})
    adapter.set_capacity("t", None, None, indexes={"g": (7, 8)}, most=(1, 2))
    adapter.set_capacity("t", None, None)
    adapter.set_maxima("t", (1, 2), [])
    update = {
        "GlobalSecondaryIndexUpdates": [{"Update": {"IndexName": "g", "ProvisionedThroughput": make_units(7, 8)}}]
    }
    maxima = {"OnDemandThroughput": {"MaxWriteRequestUnits": 1, "MaxReadRequestUnits": 2}}
    assert [request for _, request in client.sent] == [
        {"TableName": "t", "BillingMode": "PROVISIONED", "ProvisionedThroughput": make_units(5, 6), **update},
        {"TableName": "t", **update},
        {"TableName": "t", "BillingMode": "PAY_PER_REQUEST", **maxima},
        {"TableName": "t", "BillingMode": "PAY_PER_REQUEST"},
        {"TableName": "t", **maxima},
    ]
