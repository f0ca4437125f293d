"""The control plane's adapter: copies, tags and refusals, and the conditions of puts."""

from typing import Any

import pytest

from aws.dynamodb.scaling import ApplicationScaling
from aws.dynamodb.tables import DynamoTables
from aws.dynamodb.wire import make_condition
from tests.fakes.boto import Client
from tidetable.config import Autoscaling, Range, TableClass
from tidetable.errors import NotReady, TableMissing, TableRefused
from tidetable.layout import Index
from tidetable.ports import Guarded, Put, TableSpec


def tables(client: Client, elsewhere: Client | None = None) -> DynamoTables:
    made: Any = client
    there: Any = elsewhere
    return DynamoTables(made, lambda _: there)


def test_a_rate_that_is_exceeded_passes() -> None:
    with pytest.raises(TableRefused) as refused:
        tables(Client({"update_table": "RequestLimitExceeded"})).set_class("t", TableClass.STANDARD)
    assert refused.value.transient


def test_a_table_that_is_gone_is_named() -> None:
    gone = tables(Client({"describe_table": "ResourceNotFoundException", "update_table": "ResourceNotFoundException"}))
    for call in (lambda: gone.tags("t"), lambda: gone.set_protection("t", protected=False)):
        with pytest.raises(TableMissing) as missing:
            call()
        assert str(missing.value) == str(TableMissing("t"))


def test_a_copy_gets_the_tags_once_its_region_knows_it() -> None:
    there = Client(describe_table={"Table": {"TableArn": "arn"}})
    tables(Client(), there).tag_copy("t", "eu-west-1", {"a": "b"})
    tags = [{"Key": "a", "Value": "b"}]
    assert there.sent[1] == ("tag_resource", {"ResourceArn": "arn", "Tags": tags})
    with pytest.raises(NotReady, match="eu-west-1 does not know the copy of t yet"):
        tables(Client(), Client({"describe_table": "ResourceNotFoundException"})).tag_copy("t", "eu-west-1", {})


def test_maxima_are_set_for_each_index() -> None:
    client = Client()
    tables(client).set_maxima("t", (1, 2), ["a", "b"])
    updates = client.sent[0][1]["GlobalSecondaryIndexUpdates"]
    assert [update["Update"]["IndexName"] for update in updates] == ["a", "b"]


def test_an_index_is_as_warm_as_the_greater_of_its_units() -> None:
    client = Client()
    units = {"i": (5, 100)}
    spec = TableSpec("t", 10, 10, TableClass.STANDARD, {}, (Index("i", "status"),), index_units=units, warm=(50, 60))
    tables(client).create(spec)
    (index,) = client.sent[0][1]["GlobalSecondaryIndexes"]
    assert index["WarmThroughput"] == {"WriteUnitsPerSecond": 50, "ReadUnitsPerSecond": 100}


def test_reads_are_scaled_by_the_use_of_reads() -> None:
    client = Client()
    ApplicationScaling(lambda: client).register("t", [], Autoscaling(read=Range(min=1, max=2)))
    policy = client.sent[1][1]["TargetTrackingScalingPolicyConfiguration"]
    assert policy["PredefinedMetricSpecification"] == {"PredefinedMetricType": "DynamoDBReadCapacityUtilization"}


def test_a_put_has_the_condition_of_its_guard() -> None:
    put = Put("t", {"pk": "p", "sk": "s", "at": 7})
    assert make_condition(Guarded(put, None)) == {}
    assert make_condition(Guarded(put, "absent")) == {"ConditionExpression": "attribute_not_exists(pk)"}
    assert make_condition(Guarded(put, "newer")) == {
        "ConditionExpression": "attribute_not_exists(pk) OR attribute_not_exists(#at) OR #at <= :at",
        "ExpressionAttributeNames": {"#at": "at"},
        "ExpressionAttributeValues": {":at": 7},
    }
    assert make_condition(Guarded(put, 3)) == {
        "ConditionExpression": "#version = :version",
        "ExpressionAttributeNames": {"#version": "version"},
        "ExpressionAttributeValues": {":version": 3},
    }
