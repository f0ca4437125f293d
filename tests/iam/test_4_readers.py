"""Readers of the tables themselves, with the policies of examples/access and nothing else: what they see, and what not."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from local.emulator import REGION, ROOT
from local.http import Api
from tests.e2e.clock import NOW
from tests.iam import flows
from tests.iam.conftest import PROBE, Stage

ACCOUNT = "000000000000"
DENIED = "no identity-based policy allows"
# `#` in a series is written %23 in a key: no series' name reaches into another's keys.
SERIES = ("boiler-1", "boiler-10", "boiler-2", "boiler-1#x")


@pytest.fixture(scope="module")
def tables(stage: Stage, api: Api) -> dict[str, str]:
    """The table of each stream's present period; the stations' has one event per series, and its mark."""
    data = {"mag": 4.5, "place": "cellar", "status": "new", "secret": "42"}
    # The tests before let time pass.
    time = (NOW + stage.passed).isoformat()
    events = [{"series": series, "id": f"of-{series}", "time": time, "data": data} for series in SERIES]
    flows.send(api, "stations", *events)
    found: dict[str, str] = {}
    for page in stage.deployed.make_client("dynamodb").get_paginator("list_tables").paginate():
        for name in page["TableNames"]:
            stream = name.removeprefix("tidetable-local.").partition(".")[0]
            if name.startswith("tidetable-local.") and _has(stage, name):
                found[stream] = name
    return found


def _has(stage: Stage, table: str) -> bool:
    return bool(stage.deployed.make_client("dynamodb").scan(TableName=table, Limit=1)["Items"]) and not table.endswith(
        ".parts"
    )


@pytest.fixture(scope="module")
def partitions(stage: Stage, tables: dict[str, str]) -> dict[str, str]:
    """The partition key of each series' event."""
    items = stage.deployed.make_client("dynamodb").scan(TableName=tables["stations"])["Items"]
    found = {item["pk"]["S"].rpartition("#")[0]: item["pk"]["S"] for item in items}
    assert {"boiler-1", "boiler-10", "boiler-2", "boiler-1%23x"} <= set(found)
    return found


def reader(stage: Stage, name: str) -> Any:
    """A DynamoDB client of a role with one policy of examples/access."""
    text = (ROOT / "examples" / "access" / f"{name}.json").read_text()
    for placeholder, value in (("<region>", REGION), ("<account>", ACCOUNT), ("<stage>", "local")):
        text = text.replace(placeholder, value)
    assert "<" not in text
    iam = stage.deployed.make_client("iam")
    trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
    role = iam.create_role(
        RoleName=f"reader-{name}",
        AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
    )["Role"]
    iam.put_role_policy(RoleName=f"reader-{name}", PolicyName="p", PolicyDocument=text)
    held = stage.deployed.make_client("sts").assume_role(RoleArn=role["Arn"], RoleSessionName=PROBE)["Credentials"]
    return boto3.client(
        "dynamodb",
        endpoint_url=stage.deployed.endpoint,
        region_name=REGION,
        aws_access_key_id=held["AccessKeyId"],
        aws_secret_access_key=held["SecretAccessKey"],
        aws_session_token=held["SessionToken"],
        config=Config(retries={"total_max_attempts": 1}),
    )


@pytest.fixture(scope="module")
def of_replica(stage: Stage) -> Any:
    return reader(stage, "replica")


@pytest.fixture(scope="module")
def of_series(stage: Stage) -> Any:
    return reader(stage, "series")


@pytest.fixture(scope="module")
def of_fields(stage: Stage) -> Any:
    return reader(stage, "fields")


def query(
    client: Any, table: str, index: str | None, partition: str, key: str = "pk", **more: Any
) -> list[dict[str, Any]]:
    """The items of a partition of an index, or of the table."""
    names = {"#key": key, **more.pop("names", {})}
    values = {":value": {"S": partition}, **more.pop("values", {})}
    return client.query(  # type: ignore[no-any-return]
        TableName=table,
        **({"IndexName": index} if index else {}),
        KeyConditionExpression="#key = :value",
        ExpressionAttributeNames=names,
        ExpressionAttributeValues=values,
        **more,
    )["Items"]


def is_denied(call: Callable[[], Any]) -> bool:
    """Whether IAM refuses a call; a refusal of DynamoDB's own is an error of the test."""
    try:
        call()
    except ClientError as error:
        if DENIED in error.response["Error"]["Message"]:
            return True
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
    return False


def test_the_reader_of_the_replica_sees_whole_events(
    of_replica: Any, tables: dict[str, str], partitions: dict[str, str]
) -> None:
    for series in ("boiler-1", "boiler-2"):
        (item,) = query(of_replica, tables["stations"], "reports", partitions[series])
        assert item["data"]["M"]["secret"] == {"S": "42"}


def test_the_reader_of_the_replica_reaches_no_other_index_table_stream_or_stage(
    of_replica: Any, tables: dict[str, str], partitions: dict[str, str]
) -> None:
    table, partition = tables["stations"], partitions["boiler-1"]
    places = [
        (table, None),
        (table, "by_status"),
        (table, "strongest"),
        ("tidetable-local.quakes.2020-01-01", "reports"),
        ("tidetable-local.stations2.2020-01-01", "reports"),
        ("tidetable-prod.stations.2020-01-01", "reports"),
        ("tidetable-local-catalog", None),
    ]
    seen = [place for place in places if not is_denied(partial(query, of_replica, *place, partition))]
    assert seen == []


def test_the_reader_of_the_replica_neither_scans_nor_reads_items_nor_writes(
    of_replica: Any, tables: dict[str, str], partitions: dict[str, str]
) -> None:
    table = tables["stations"]
    key = {"pk": {"S": partitions["boiler-1"]}, "sk": {"S": "x"}}
    calls: dict[str, Callable[[], Any]] = {
        "scan": lambda: of_replica.scan(TableName=table),
        "scan of the index": lambda: of_replica.scan(TableName=table, IndexName="reports"),
        "get": lambda: of_replica.get_item(TableName=table, Key=key),
        "batch get": lambda: of_replica.batch_get_item(RequestItems={table: {"Keys": [key]}}),
        "put": lambda: of_replica.put_item(TableName=table, Item=key),
        "delete": lambda: of_replica.delete_item(TableName=table, Key=key),
        "describe": lambda: of_replica.describe_table(TableName=table),
        "list": of_replica.list_tables,
    }
    assert [name for name, call in calls.items() if not is_denied(call)] == []


def test_the_reader_of_a_series_sees_this_series_and_no_other(
    of_series: Any, tables: dict[str, str], partitions: dict[str, str]
) -> None:
    table = tables["stations"]
    (item,) = query(of_series, table, "reports", partitions["boiler-1"])
    assert item["pk"]["S"].startswith("boiler-1#")
    denied = {
        series: is_denied(partial(query, of_series, table, "reports", partition))
        for series, partition in partitions.items()
        if series.startswith("boiler")
    }
    assert denied == {"boiler-1": False, "boiler-10": True, "boiler-2": True, "boiler-1%23x": True}
    # Without a leading key: ForAllValues alone would let it through.
    assert is_denied(lambda: of_series.scan(TableName=table, IndexName="reports"))
    assert is_denied(lambda: query(of_series, table, None, partitions["boiler-1"]))


def test_the_reader_of_fields_sees_what_the_index_holds_and_names_each_attribute(
    stage: Stage, of_fields: Any, tables: dict[str, str]
) -> None:
    table = tables["stations"]
    whole = stage.deployed.make_client("dynamodb").scan(TableName=table, IndexName="strongest")["Items"]
    partition = next(item["pk_strongest"]["S"] for item in whole if item["pk"]["S"].startswith("boiler"))
    ask: dict[str, Any] = {"index": "strongest", "partition": partition, "key": "pk_strongest"}
    items = query(of_fields, table, **ask, ProjectionExpression="pk, sk_strongest, in_strongest")
    assert items
    assert {frozenset(item) for item in items} == {frozenset({"pk", "sk_strongest", "in_strongest"})}
    assert {tuple(sorted(item["in_strongest"]["M"])) for item in items} == {("mag", "place")}
    refused: dict[str, dict[str, Any]] = {
        "everything that the index holds": {},
        "the data": {"ProjectionExpression": "in_strongest, #d", "names": {"#d": "data"}},
        "a part of the data": {"ProjectionExpression": "#d.secret", "names": {"#d": "data"}},
        "a count": {"Select": "COUNT"},
        "a filter on the data": {
            "ProjectionExpression": "in_strongest",
            "FilterExpression": "#d.secret = :s",
            "names": {"#d": "data"},
            "values": {":s": {"S": "42"}},
        },
    }
    passed = [name for name, more in refused.items() if not is_denied(partial(query, of_fields, table, **ask, **more))]
    assert passed == []


def test_the_authorizer_reads_the_partition_of_keys_alone(stage: Stage, api: Api) -> None:
    """With the condition enforced, requests with keys go on, and nothing else of the catalog is readable by its role."""
    assert api.query("stations", series="boiler-1", start="-1h").status == 200
    listed = stage.deployed.make_client("lambda").list_functions(MaxItems=100)["Functions"]
    role = next(function["Role"] for function in listed if function.get("Handler") == "handlers.authorizer.handler")
    name = role.rpartition("/")[2]
    trust = {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    stage.deployed.make_client("iam").update_assume_role_policy(RoleName=name, PolicyDocument=document)
    held = stage.deployed.make_client("sts").assume_role(RoleArn=role, RoleSessionName=PROBE)["Credentials"]
    client = boto3.client(
        "dynamodb",
        endpoint_url=stage.deployed.endpoint,
        region_name=REGION,
        aws_access_key_id=held["AccessKeyId"],
        aws_secret_access_key=held["SecretAccessKey"],
        aws_session_token=held["SessionToken"],
    )

    def get(partition: str) -> Any:
        key = {"pk": {"S": partition}, "sk": {"S": "none"}}
        return client.get_item(TableName="tidetable-local-catalog", Key=key)

    readable = ("keys#8", "keys#changes", "keys")
    assert [partition for partition in readable if is_denied(partial(get, partition))] == []
    others = ("quakes", "keys2", "cursors")
    assert [partition for partition in others if not is_denied(partial(get, partition))] == []
