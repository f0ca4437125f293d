"""A stage in a stack of a user's app: the user's resources take the place of the stage's own."""

from __future__ import annotations

import json
import re
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra import UsageError
from infra.naming import name_alarm_prefix
from tests.infra.shop import Shop
from tests.infra.synth import PAGER, actions, resources


def find_id(shop: Shop, part: Any) -> str:
    """The logical id of a construct, without its hash."""
    return re.sub(r"[0-9A-F]{8}$", "", shop.stack.get_logical_id(part.node.default_child))


# The attributes of the construct that are resources.
MADE = {
    "api": "EventsApiRest",
    "signed_api": "EventsApiSigned",
    "key": "EventsApiRestKey",
    "usage_plan": "EventsApiRestPlan",
    "bucket": "Own",
    "encryption_key": "QueueKey",
    "catalog": "EventsStorageCatalog",
    "rollups_table": "EventsStorageRollups",
    "overflow": "EventsIngestOverflow",
    "dead_letters": "EventsIngestDeadLetters",
    "feed_dead_letters": "EventsFeedDeadLetters",
    "lifecycle_dead_letters": "EventsLifecycleDeadLetters",
    "alarm_topic": "EventsNotifyTopic",
    "dashboard": "EventsDashboardBoard",
}


def test_each_resource_of_a_stage_is_an_attribute(shop: Shop) -> None:
    stage = shop.stage
    assert {name: find_id(shop, getattr(stage, name)) for name in MADE} == MADE
    assert (stage.role, stage.origin, stage.stage, stage.database) == ("origin", None, "prod-eu", "tidetable_prod_eu")
    assert stage.url == stage.api.url
    assert stage.signed_api is not None
    assert stage.signed_url == stage.signed_api.url != stage.url
    assert (set(stage.alarms), set(stage.functions)) == (
        {re.sub(r"^EventsAlarms(\w+)[0-9A-F]{8}$", r"\1", id) for id in shop.template.all("AWS::CloudWatch::Alarm")},
        set(shop.template.functions()),
    )
    assert find_id(shop, stage.alarms["DeadLetters"]) == "EventsAlarmsDeadLetters"
    assert find_id(shop, stage.functions["archiver"]) == "EventsLifecycleArchiver"
    # The outputs of a stage are the app's business.
    assert stage.outputs["CatalogTable"] == stage.catalog.table_name
    assert [name for name in shop.template.document["Outputs"] if not name.startswith("Events")] == []


def test_every_role_and_function_is_as_the_app_says(shop: Shop) -> None:
    """The CDK makes the roles of schedules beside the construct. Its flags hold whatever the app's cdk.json says."""
    roles = shop.template.all("AWS::IAM::Role")
    assert sum(id.startswith("SchedulerRole") for id in roles) == 6
    boundaries = {json.dumps(role.get("PermissionsBoundary")) for role in roles.values()}
    (boundary,) = boundaries
    assert ":policy/team-boundary" in boundary
    tags = [{"Key": "project", "Value": "tidetable"}, {"Key": "stage", "Value": "prod-eu"}]
    mappings = shop.template.all("AWS::Lambda::EventSourceMapping")
    assert [id for id, one in mappings.items() if "Tags" in one] == []
    assert len(mappings) == 6
    assert [id for id, role in roles.items() if [tag for tag in tags if tag not in role.get("Tags", [])]] == []
    assert {tuple(one["Architectures"]) for one in shop.template.functions().values()} == {("x86_64",)}
    flags = (
        *("apigateway:requestValidatorUniqueId", "s3:serverAccessLogsUseBucketPolicy", "iam:minimizePolicies"),
        # With this flag, a change of the authorizer alone makes a new deployment of the API.
        "apigateway:authorizerChangeDeploymentLogicalId",
    )
    found = {flag: shop.stage.node.try_get_context(f"@aws-cdk/aws-{flag}") for flag in flags}
    assert found == dict.fromkeys(flags, True)


def test_the_apps_own_resources_are_not_of_the_stage(shop: Shop) -> None:
    own = {id: one for id, one in shop.template.resources.items() if not id.startswith(("Events", "Scheduler"))}
    # The bucket's policy is the stack's.
    assert len(own) > 5
    assert [id for id, one in own.items() if "Tags" in one.get("Properties", {})] == []
    (standing,) = (one for id, one in shop.template.resources.items() if id.startswith("EventsStanding"))
    assert len(standing["DependsOn"]) > 100
    assert set(standing["DependsOn"]) & own.keys() == set()


def test_every_alarm_notifies_the_apps_topic_beside_the_targets_of_the_configuration(shop: Shop) -> None:
    """CloudWatch refuses an alarm that notifies a topic of another Region."""
    (pager,) = (id for id in shop.template.all("AWS::SNS::Topic") if id.startswith("Pager"))
    (own,) = (id for id in shop.template.all("AWS::SNS::Topic") if id.startswith("EventsNotify"))
    for alarm in shop.template.all("AWS::CloudWatch::Alarm").values():
        assert alarm["AlarmActions"] == alarm["OKActions"] == [PAGER, {"Ref": pager}, {"Ref": own}]


def test_the_apps_bucket_has_rules_for_the_prefixes_of_the_stage_alone(shop: Shop) -> None:
    ((id, bucket),) = shop.template.all("AWS::S3::Bucket").items()
    cleaned = {
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
        "Status": "Enabled",
    }
    archived = {
        "ExpirationInDays": 365,
        "Status": "Enabled",
        "Transitions": [{"StorageClass": "STANDARD_IA", "TransitionInDays": 30}],
    }
    assert bucket["LifecycleConfiguration"]["Rules"] == [
        *(cleaned | {"Prefix": prefix} for prefix in ("stream=", "iceberg/", "large/", "overflow/", "saved/")),
        {"ExpirationInDays": 60, "Prefix": "overflow/", "Status": "Enabled"},
        {
            "ExpirationInDays": 1,
            "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
            "Prefix": "listings/",
            "Status": "Enabled",
        },
        *(archived | {"Prefix": f"stream={name}/"} for name in ("quakes", "stations", "reports", "quakes-hours")),
    ]
    assert shop.template.functions()["lifecycle"]["Environment"]["Variables"]["TIDETABLE_ARCHIVE_BUCKET"] == {"Ref": id}


@pytest.mark.parametrize(
    ("name", "service", "keys"),
    [("archiver", "s3", {"QueueKey", "BucketKey"}), ("ingest", "sqs", {"QueueKey"}), ("deployment", "s3", set())],
)
def test_the_keys_of_the_app_are_used_through_their_service(
    shop: Shop, name: str, service: str, keys: set[str]
) -> None:
    found = {
        key
        for statement in shop.template.statements(name)
        if json.dumps(statement.get("Condition", {}).get("StringEquals", {}).get("kms:ViaService")).startswith(
            f'{{"Fn::Join": ["", ["{service}.'
        )
        for text in resources(statement)
        for key in re.findall(r'"(\w+)[0-9A-F]{8}", "Arn"', text)
    }
    assert found == keys
    encrypted = [id for id, queue in shop.template.all("AWS::SQS::Queue").items() if "KmsMasterKeyId" in queue]
    assert [re.sub(r"[0-9A-F]{8}$", "", id) for id in sorted(encrypted)] == [
        *("EventsFeedDeadLetters", "EventsIngestDeadLetters", "EventsIngestOverflow")
    ]


@pytest.mark.parametrize(
    ("user", "routes"),
    [
        ("Sender", {"POST/v1/streams/quakes/*"}),
        ("Reader", {"GET/v1/streams", "GET/v1/streams/quakes/*", "GET/v1/streams/stations/*"}),
        ("Every", {"POST/v1/streams/*/*", "GET/v1/streams", "GET/v1/streams/*/*"}),
    ],
)
def test_a_grant_reaches_the_routes_of_its_streams_by_signature(shop: Shop, user: str, routes: set[str]) -> None:
    (signed,) = (id for id in shop.template.all("AWS::ApiGateway::RestApi") if id.startswith("EventsApiSigned"))
    found = set()
    for policy in shop.template.all("AWS::IAM::Policy").values():
        for statement in policy["PolicyDocument"]["Statement"] if user in json.dumps(policy.get("Users")) else []:
            assert actions(statement) == {"execute-api:Invoke"}
            for text in resources(statement):
                assert f'{{"Ref": "{signed}"}}' in text
                found.add(text.rpartition("/api/")[2].removesuffix('"]]}'))
    assert found == routes


def test_the_console_is_told_how_the_names_of_its_alarms_begin(shop: Shop) -> None:
    variables = shop.template.functions()["operations"]["Environment"]["Variables"]
    assert variables["TIDETABLE_ALARM_PREFIX"] == "Shop-EventsAlarms"


def test_the_prefix_of_alarms_is_the_one_that_the_cdk_joins() -> None:
    shop, prod = cdk.Stack(None, "Shop"), cdk.Stack(None, "Tidetable-prod")
    nested = Construct(Construct(shop, "Outer"), "Outer")
    scopes = [Construct(shop, "Events-2b"), nested, Construct(shop, "MyAlarms"), prod, Construct(prod, "Default"), shop]
    assert [name_alarm_prefix(scope, "prod") for scope in scopes] == [
        *("Shop-Events2bAlarms", "Shop-OuterAlarms", "Shop-MyAlarms"),
        # The functions of a checkout's stage know it by the name of the stage.
        *("", "", "Shop-Alarms"),
    ]
    assert name_alarm_prefix(Construct(prod, "Second"), "prod") == "Tidetable-prod-SecondAlarms"
    assert name_alarm_prefix(prod, "dev") == "Tidetable-prod-Alarms"


def test_a_grant_on_a_stream_that_is_not_configured_names_those_that_are(shop: Shop) -> None:
    with pytest.raises(UsageError, match="stream 'quake': the configuration has no such stream; it has: quakes, stat"):
        shop.stage.grant_read(iam.User(cdk.Stack(), "Reader"), "quakes", "quake")
