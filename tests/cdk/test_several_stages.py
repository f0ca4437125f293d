"""Several stages in one app: their names, their buckets, and what is refused."""

from __future__ import annotations

import json

import pytest
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra import UsageError
from tests.cdk.apps import ACCOUNT, add, new_app, new_stack, synthesise

ALARM, BUCKET = "AWS::CloudWatch::Alarm", "AWS::S3::Bucket"


def test_two_stages_in_one_stack_share_nothing() -> None:
    stack = new_stack()
    add(stack, "Orders", "orders")
    add(stack, "Sensors", "sensors")
    found = synthesise(stack)
    names = sorted(table["TableName"] for table in found.all("AWS::DynamoDB::Table").values())
    assert names == [
        f"tidetable-{stage}-{table}" for stage in ("orders", "sensors") for table in ("catalog", "rollups")
    ]
    for resource in found.resources.values():
        text = json.dumps(resource)
        assert not ("tidetable-orders" in text and "tidetable-sensors" in text)


def test_one_stage_name_in_two_regions_of_one_app() -> None:
    app = new_app()
    stacks = [new_stack(app, f"Shop-{region}", region) for region in ("us-east-1", "eu-west-1")]
    for stack in stacks:
        add(stack, stage="prod")
    for stack, region in zip(stacks, ("us-east-1", "eu-west-1"), strict=True):
        buckets = {bucket["BucketName"] for bucket in synthesise(stack).all(BUCKET).values()}
        assert f"tidetable-prod-archive-{ACCOUNT}-{region}" in buckets


def test_the_dashboards_of_one_stage_name_in_two_regions_have_two_names() -> None:
    """AWS: a dashboard's name belongs to the account. CloudFormation refuses a second one of the same name."""
    app = new_app()
    stacks = [new_stack(app, f"Shop-{region}", region) for region in ("us-east-1", "eu-west-1")]
    for stack in stacks:
        add(stack, stage="prod")
    (first,), (second,) = (synthesise(stack).all("AWS::CloudWatch::Dashboard").values() for stack in stacks)
    assert (first["DashboardName"], second["DashboardName"]) == ("tidetable-prod-us-east-1", "tidetable-prod-eu-west-1")


@pytest.mark.parametrize("region", [None, "eu-west-1"])
def test_one_stage_name_twice_in_a_region_is_refused(region: str | None) -> None:
    app = new_app()
    add(new_stack(app, "One", region), stage="prod")
    with pytest.raises(UsageError, match="stage 'prod': One/Events has this name already"):
        add(new_stack(app, "Two", region), stage="prod")


def test_one_bucket_for_two_stages_is_refused() -> None:
    stack = new_stack()
    names = [s3.Bucket.from_bucket_name(stack, id, "the-shops-own") for id in ("A", "B")]
    add(stack, "Orders", "orders", bucket=names[0])
    with pytest.raises(UsageError, match="bucket: Shop/Orders uses this bucket already"):
        add(stack, "Sensors", "sensors", bucket=names[1])


@pytest.mark.parametrize(
    ("outer", "id", "expected"),
    [
        # The alarms of a construct of the id Events-2b begin with Shop-Events2b.
        (None, "Events-2", "Shop-Events2Alarms"),
        # The CDK leaves out an id with which the one before it ends.
        ("Events", "Events", "Shop-EventsAlarms"),
        (None, "EventAlarms", "Shop-EventAlarms"),
    ],
)
def test_the_console_finds_the_alarms_of_a_stage_in_a_stack_of_another_name(
    outer: str | None, id: str, expected: str
) -> None:
    stack = new_stack()
    add(Construct(stack, outer) if outer else stack, id)
    found = synthesise(stack)
    prefix = found.functions()["operations"]["Environment"]["Variables"]["TIDETABLE_ALARM_PREFIX"]
    assert prefix == expected
    # CloudFormation's names: the stack's name, the logical id, and a random text.
    assert all(f"{stack.stack_name}-{id}".startswith(prefix) for id in found.all(ALARM))
