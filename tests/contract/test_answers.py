"""The control plane's adapter: how it reads DynamoDB's answers, and the members of its requests."""

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws.dynamodb import table_requests
from aws.dynamodb.tables import DynamoTables
from tidetable.config import TableClass
from tidetable.errors import CopyRefused, NotReady, TableRefused
from tidetable.layout import Index
from tidetable.ports import TableSpec


class Scripted:
    """A client whose operations return the answers, or raise the errors, that a test gives."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        def call(**_: Any) -> Any:
            answer = self._answers[name]
            if isinstance(answer, ClientError):
                raise answer
            return answer

        return call


def refusal(code: str, message: str = "") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "x")


MISSING = refusal("ResourceNotFoundException")


def tables(**answers: Any) -> DynamoTables:
    client: Any = Scripted(**answers)
    return DynamoTables(client, lambda _: client)


def described(**members: Any) -> Any:
    return tables(describe_table={"Table": {"TableStatus": "ACTIVE", **members}}).describe("t")


def figures(decreases: int, hour: int = 0) -> dict[str, Any]:
    units = {"WriteCapacityUnits": 5, "ReadCapacityUnits": 6, "NumberOfDecreasesToday": decreases}
    last = {"LastDecreaseDateTime": datetime(2026, 3, 1, hour, tzinfo=UTC)} if hour else {}
    return {"ProvisionedThroughput": units | last}


@pytest.mark.parametrize(
    ("table", "index", "expected"),
    [
        (figures(1, 10), figures(3, 9), (3, 9)),
        (figures(4, 10), figures(3, 11), (4, 10)),
        (figures(0), figures(1, 7), (1, 7)),
    ],
)
def test_the_decreases_are_those_of_the_busiest(table: Any, index: Any, expected: tuple[int, int]) -> None:
    shown = described(**table, GlobalSecondaryIndexes=[{"IndexName": "i", **index}])
    assert (shown.decreases_today, shown.last_decrease.hour) == expected


@pytest.mark.parametrize(
    ("throughput", "most"),
    [
        ({}, None),
        ({"MaxWriteRequestUnits": -1, "MaxReadRequestUnits": -1}, None),
        ({"MaxWriteRequestUnits": 50, "MaxReadRequestUnits": -1}, (50, -1)),
        ({"MaxReadRequestUnits": 60}, (-1, 60)),
    ],
)
def test_a_maximum_of_one_side_is_a_maximum(throughput: dict[str, int], most: Any) -> None:
    shown = described(OnDemandThroughput=throughput, WarmThroughput={})
    assert (shown.most, shown.shows_maxima) == (most, True)


def test_a_stream_that_was_turned_off_is_no_stream() -> None:
    """AWS shows the ARN of such a stream for a day more."""
    off = described(LatestStreamArn="arn:old", StreamSpecification={"StreamEnabled": False})
    on = described(
        LatestStreamArn="arn:new", StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
    )
    assert (off.stream_arn, on.stream_arn, on.has_images) == ("", "arn:new", False)


def test_the_sizes_are_those_of_both_kinds_of_indexes() -> None:
    own, other = {"IndexName": "g", **figures(0)}, {"IndexName": "l"}
    sizes = {"ItemCount": 3, "IndexSizeBytes": 30}
    shown = described(GlobalSecondaryIndexes=[own | sizes], LocalSecondaryIndexes=[other | sizes | {"ItemCount": 2}])
    assert shown.index_sizes == {"g": (3, 30), "l": (2, 30)}
    assert shown.index_units == {"g": (5, 6)}


SPEC = TableSpec("t", 5, 6, TableClass.STANDARD, {})


def test_a_creation_that_is_refused_is_an_error_unless_the_table_is_there() -> None:
    limit = refusal("LimitExceededException", "Subscriber limit exceeded")
    with pytest.raises(TableRefused):
        tables(create_table=limit, describe_table=MISSING).create(SPEC)
    there = {"Table": {"TableStatus": "ACTIVE"}}
    assert tables(create_table=limit, describe_table=there).create(SPEC) is False
    in_use = refusal("ResourceInUseException")
    assert tables(create_table=in_use, describe_table=MISSING).create(SPEC) is False, "it is not yet seen"


def test_a_copy_is_refused_where_its_name_is_taken_and_gone_where_it_is_no_member() -> None:
    taken = refusal("ValidationException", "because one or more replicas already existed as tables.")
    with pytest.raises(CopyRefused):
        tables(update_table=taken).create_copy("t", "eu-west-1")
    gone = refusal("ValidationException", "replicas were not part of the global table.")
    tables(update_table=gone).delete_copy("t", "eu-west-1")
    other = tables(update_table=refusal("ValidationException", "another"))
    for change in (other.create_copy, other.delete_copy):
        with pytest.raises(TableRefused, match="another"):
            change("t", "eu-west-1")
    with pytest.raises(NotReady, match="eu-west-1 does not know the copy of t yet"):
        tables(describe_table=MISSING).tag_copy("t", "eu-west-1", {})


def spec(**more: Any) -> TableSpec:
    return TableSpec("t", more.pop("write", 5), more.pop("read", 6), TableClass.STANDARD, {}, **more)


@pytest.mark.parametrize(
    ("index", "projection"),
    [
        (Index("i", "a"), {"ProjectionType": "ALL"}),
        (Index("i", "a", project=()), {"ProjectionType": "KEYS_ONLY"}),
        (Index("i", "a", project=("b", "c")), {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["in_i"]}),
    ],
)
def test_an_index_projects_what_it_holds(index: Index, projection: Any) -> None:
    (member,) = table_requests.make_index_members(spec(indexes=(index,)))["GlobalSecondaryIndexes"]
    assert member["Projection"] == projection
    assert member["ProvisionedThroughput"] == {"WriteCapacityUnits": 5, "ReadCapacityUnits": 6}


def test_a_local_index_has_no_units_and_a_ranking_a_number() -> None:
    by_mag = Index("l", local=True, sort_by="mag")
    members = table_requests.make_index_members(spec(indexes=(by_mag,), warm=(1, 2)))
    assert list(members) == ["LocalSecondaryIndexes"]
    assert set(members["LocalSecondaryIndexes"][0]) == {"IndexName", "KeySchema", "Projection"}
    definitions = table_requests.make_attribute_definitions(spec(indexes=(by_mag,)), ("pk", "sk"))
    assert definitions == [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
        {"AttributeName": "sk_l", "AttributeType": "N"},
    ]


COPIED = {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}}


@pytest.mark.parametrize(
    ("more", "members"),
    [
        ({}, {}),
        ({"encryption": "aws-managed"}, {"SSESpecification": {"Enabled": True, "SSEType": "KMS"}}),
        (
            {"encryption": "arn:key"},
            {"SSESpecification": {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": "arn:key"}},
        ),
        ({"stream": "keys-only"}, {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}}),
        ({"copied": True}, COPIED),
        ({"stream": "new-image", "copied": True}, COPIED),
        ({"warm": (7, 8)}, {"WarmThroughput": {"WriteUnitsPerSecond": 7, "ReadUnitsPerSecond": 8}}),
        ({"most": (7, 8)}, {"OnDemandThroughput": {"MaxWriteRequestUnits": 7, "MaxReadRequestUnits": 8}}),
    ],
)
def test_the_further_members_of_a_creation(more: dict[str, Any], members: dict[str, Any]) -> None:
    assert table_requests.make_extras(spec(**more)) == members
