"""The construct in a user's stack: what it takes, what it hands out, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns

from cli.account import name_stack
from infra import Config, Tidetable, UsageError
from tests.cdk.apps import add, new_app, new_stack, synthesise
from tests.infra.synth import (
    ALL_GOES,
    BOTH,
    CONFIG,
    DOORS,
    KEY,
    NOTIFYING,
    ROLLED_UP,
    ROOT,
    SIGNED,
    STORED_BY_KEY,
    TRACED,
    EmptyAssets,
    Template,
    actions,
    resources,
)

ROLE, ALARM, BUCKET, QUEUE = "AWS::IAM::Role", "AWS::CloudWatch::Alarm", "AWS::S3::Bucket", "AWS::SQS::Queue"


def logical_id(stack: cdk.Stack, thing: Any) -> str:
    """The logical id of a construct's resource."""
    return str(stack.get_logical_id(thing.node.default_child))


def statements_of(made: Template, user: str) -> list[dict[str, Any]]:
    """The statements of the policies of a user whose logical id begins so."""
    return [
        statement
        for policy in made.all("AWS::IAM::Policy").values()
        if any(holder["Ref"].startswith(user) for holder in policy.get("Users", ()))
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def routes(made: Template, user: str) -> set[str]:
    """The methods and paths that a user may call, after the stage of the API."""
    found = set()
    for statement in statements_of(made, user):
        assert actions(statement) == {"execute-api:Invoke"}
        found |= {text.rpartition("/api/")[2].rstrip('"]}') for text in resources(statement)}
    return found


def test_every_made_thing_is_an_attribute() -> None:
    stack = new_stack()
    made = add(stack, "Events", "prod", *ROLLED_UP, *DOORS, BOTH, NOTIFYING)
    assert set(made.functions) == {
        *("ingest", "drain", "query", "archive_reader", "feed", "lifecycle", "deployment", "archiver", "restorer"),
        *("sweeper", "lake", "refresher", "doors", "console", "operations", "authorizer"),
    }
    assert {"DeadLetters", "OverflowOld", "FormerKeyUsed", "RollupLagging", "DoorsFailing"} <= set(made.alarms)
    found = synthesise(stack)

    def kind(thing: Any) -> str:
        return str(found.resources[logical_id(stack, thing)]["Type"])

    assert (kind(made.api), kind(made.signed_api)) == ("AWS::ApiGateway::RestApi",) * 2
    assert logical_id(stack, made.api) != logical_id(stack, made.signed_api)
    assert (kind(made.key), kind(made.usage_plan)) == ("AWS::ApiGateway::ApiKey", "AWS::ApiGateway::UsagePlan")
    assert (kind(made.catalog), kind(made.rollups_table)) == ("AWS::DynamoDB::Table",) * 2
    queues = [made.overflow, made.dead_letters, made.feed_dead_letters, made.lifecycle_dead_letters]
    assert {kind(queue) for queue in queues} == {QUEUE}
    assert len({logical_id(stack, queue) for queue in queues}) == 4
    assert (kind(made.bucket), kind(made.alarm_topic)) == (BUCKET, "AWS::SNS::Topic")
    assert kind(made.dashboard) == "AWS::CloudWatch::Dashboard"
    assert (made.stage, made.database, made.encryption_key) == ("prod", "tidetable_prod", None)
    assert len(made.alarms) == len(found.all(ALARM))


def test_the_construct_adds_no_output_unless_the_app_wants_them() -> None:
    stack = new_stack()
    made = add(stack)
    assert not [name for name in synthesise(stack).document.get("Outputs", {}) if not name.startswith("Events")]
    other = new_stack()
    add(other).add_outputs()
    outputs = synthesise(other).document["Outputs"]
    assert {"ApiUrl", "CatalogTable", "LifecycleFunction", "DeadLetterQueueUrl"} <= set(outputs)
    assert set(made.outputs) <= set(outputs)


@pytest.mark.parametrize("auth", [SIGNED, BOTH])
def test_a_grant_reaches_the_routes_of_its_streams_and_no_others(auth: tuple[str, str]) -> None:
    stack = new_stack()
    made = add(stack, "Events", "prod", auth)
    users = {name: iam.User(stack, name) for name in ("Sender", "Reader", "All")}
    made.grant_write(users["Sender"], "quakes")
    made.grant_read(users["Reader"], "quakes", "stations")
    made.grant_write(users["All"])
    made.grant_read(users["All"])
    found = synthesise(stack)
    assert routes(found, "Sender") == {"POST/v1/streams/quakes/*"}
    assert routes(found, "Reader") == {"GET/v1/streams", "GET/v1/streams/quakes/*", "GET/v1/streams/stations/*"}
    assert routes(found, "All") == {"POST/v1/streams/*/*", "GET/v1/streams", "GET/v1/streams/*/*"}
    api = made.signed_api
    assert api is not None
    signed = logical_id(stack, api)
    assert all(signed in text for statement in statements_of(found, "Sender") for text in resources(statement))


def test_a_grant_on_an_api_that_takes_keys_only_names_the_setting() -> None:
    stack = new_stack()
    made = add(stack)
    assert made.signed_api is None
    with pytest.raises(
        UsageError, match=r'grant_write: the API takes keys only. Set \[api\] auth = \["api-key", "iam"\]'
    ):
        made.grant_write(iam.User(stack, "Sender"))


def test_a_grant_on_a_stream_that_is_not_configured_names_those_that_are() -> None:
    stack = new_stack()
    made = add(stack, "Events", "prod", BOTH)
    with pytest.raises(UsageError, match="stream 'quake': the configuration has no such stream; it has: quakes"):
        made.grant_read(iam.User(stack, "Reader"), "quake")


def test_an_own_bucket_takes_the_place_of_the_stages_with_rules_for_its_prefixes_only() -> None:
    stack = new_stack()
    key = kms.Key(stack, "BucketKey")
    own = s3.Bucket(stack, "Own", encryption=s3.BucketEncryption.KMS, encryption_key=key)
    made = add(stack, bucket=own)
    assert made.bucket is own
    found = synthesise(stack)
    (id,) = found.all(BUCKET)
    rules = found.all(BUCKET)[id]["LifecycleConfiguration"]["Rules"]
    assert {rule["Prefix"] for rule in rules} <= {"stream=", "iceberg/", "large/", "overflow/", "saved/", "listings/"}
    assert {"Prefix": "overflow/", "ExpirationInDays": 60, "Status": "Enabled"} in rules
    aborts = [rule["Prefix"] for rule in rules if "AbortIncompleteMultipartUpload" in rule]
    assert sorted(aborts) == ["iceberg/", "large/", "overflow/", "saved/", "stream="]
    for name in ("ingest", "query", "archiver", "sweeper"):
        assert found.functions()[name]["Environment"]["Variables"]["TIDETABLE_ARCHIVE_BUCKET"] == {"Ref": id}
    objects = [
        text for statement in found.statements("archiver") for text in resources(statement) if "stream=*" in text
    ]
    assert objects
    assert all(id in text for text in objects)
    # The functions use the bucket's key through S3 only.
    on_key = [statement for statement in found.statements("archiver") if actions(statement) & {"kms:Decrypt"}]
    assert on_key
    assert all(statement["Resource"] == {"Fn::GetAtt": [logical_id(stack, key), "Arn"]} for statement in on_key)
    assert all("s3." in json.dumps(statement["Condition"]) for statement in on_key)
    # The Iceberg tables are in it.
    assert found.functions()["lake"]["Environment"]["Variables"]["TIDETABLE_ARCHIVE_BUCKET"] == {"Ref": id}


def test_an_imported_bucket_says_which_rules_are_left_to_its_owner() -> None:
    app = new_app()
    stack = new_stack(app)
    add(stack, bucket=s3.Bucket.from_bucket_name(stack, "Own", "the-shops-own"))
    found = synthesise(stack)
    assert found.all(BUCKET) == {}
    variables = found.functions()["ingest"]["Environment"]["Variables"]
    assert variables["TIDETABLE_ARCHIVE_BUCKET"] == "the-shops-own"
    notes = cdk.assertions.Annotations.from_stack(stack).find_info(
        "*", cdk.assertions.Match.string_like_regexp("objects under overflow/ expire after 60 days")
    )
    assert len(notes) == 1


def test_an_own_key_encrypts_the_queues_and_the_stages_bucket() -> None:
    stack = new_stack()
    key = kms.Key(stack, "Key")
    made = add(stack, key=key)
    assert made.encryption_key is key
    found = synthesise(stack)
    arn = {"Fn::GetAtt": [logical_id(stack, key), "Arn"]}
    encrypted = [queue for queue in found.all(QUEUE).values() if queue.get("KmsMasterKeyId") == arn]
    assert len(encrypted) == 3
    archive = next(bucket for bucket in found.all(BUCKET).values() if "VersioningConfiguration" in bucket)
    (rule,) = archive["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": arn}
    for name, service in (("ingest", "sqs."), ("archiver", "s3."), ("query", "s3.")):
        uses = [
            statement
            for statement in found.statements(name)
            if any(use.startswith("kms:") for use in actions(statement))
        ]
        assert uses
        assert all(statement["Resource"] == arn for statement in uses)
        assert any(service in json.dumps(statement["Condition"]) for statement in uses)


def test_an_own_topic_is_notified_by_every_alarm() -> None:
    stack = new_stack()
    topic = sns.Topic(stack, "Pager")
    made = add(stack, alarm_topic=topic)
    assert made.alarm_topic is None
    alarms = synthesise(stack).all(ALARM).values()
    arn = {"Ref": logical_id(stack, topic)}
    assert alarms
    assert all(alarm["AlarmActions"] == alarm["OKActions"] == [arn] for alarm in alarms)


def test_the_documents_name_the_services_that_a_boundary_must_allow() -> None:
    """The first key, say, is read from API Gateway: a boundary without that right fails the first deployment."""
    stack = new_stack()
    add(stack, "Events", "prod", *ROLLED_UP, *DOORS, BOTH, NOTIFYING, STORED_BY_KEY, TRACED)
    policies = synthesise(stack).all("AWS::IAM::Policy").values()
    used = {
        action.partition(":")[0]
        for policy in policies
        for statement in policy["PolicyDocument"]["Statement"]
        for action in actions(statement)
    }
    assert {"dynamodb", "apigateway", "events", "cloudwatch"} <= used
    document = (ROOT / "docs" / "start" / "own-app.md").read_text()
    section = document.partition("## Permissions boundary")[2].partition("\n## ")[0]
    assert [service for service in sorted(used) if f"`{service}:" not in section] == []


def test_a_boundary_limits_every_role_also_those_that_the_cdk_makes_beside_the_construct() -> None:
    stack = new_stack()
    boundary = iam.ManagedPolicy.from_managed_policy_name(stack, "Boundary", "team-boundary")
    iam.Role(stack, "Other", assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"))
    # A bucket that is deleted with its stack is emptied by a helper of the CDK's.
    add(stack, "Events", "prod", *ROLLED_UP, *DOORS, *ALL_GOES, permissions_boundary=boundary)
    roles = synthesise(stack).all(ROLE)
    unbound = {id for id, role in roles.items() if "PermissionsBoundary" not in role}
    assert {id.rstrip("0123456789ABCDEF") for id in unbound} == {"Other"}
    assert len(roles) > 15
    assert {"Scheduler", "CustomS3"} <= {id[: len(start)] for id in roles for start in ("Scheduler", "CustomS3")}


def test_roles_beside_the_construct_have_its_tags() -> None:
    stack = new_stack()
    add(stack)
    schedulers = [role for id, role in synthesise(stack).all(ROLE).items() if id.startswith("Scheduler")]
    assert schedulers
    assert all({"Key": "stage", "Value": "prod"} in role["Tags"] for role in schedulers)


def test_a_copy_in_the_stages_own_region_is_an_error_of_the_synth() -> None:
    text = """
[streams.s]
period = "day"
late = "1d"
retention = 3
replicas = ["eu-west-1"]
key = { partition_by = "series" }
"""
    code = EmptyAssets(ROOT, CONFIG, "prod")
    with pytest.raises(UsageError, match=r"^streams\.s\.replicas: eu-west-1 is the Region of the stage itself"):
        Tidetable(new_stack(region="eu-west-1"), "Events", stage="prod", config=Config.text(text), code=code)


@pytest.mark.parametrize(
    ("stage", "changes", "region", "message"),
    [
        ("Prod", (), None, r"stage 'Prod': use 1 to 16 of a-z, 0-9 and -, beginning with a letter, such as 'prod'"),
        (
            "prod",
            (STORED_BY_KEY,),
            "eu-west-1",
            r"\[storage\] encryption: .* is of us-east-1, and the stack Shop of eu-west-1",
        ),
        ("prod", (NOTIFYING,), "eu-west-1", r"\[observability\] notify: .*:pager is of us-east-1"),
        (
            "prod",
            (('encryption = "aws-owned"', f'encryption = "{KEY}"'),),
            "eu-west-1",
            r"\[streams\.\w+\.table\] encryption: .* is of us-east-1",
        ),
    ],
)
def test_a_mistake_is_an_error_of_the_synth(
    stage: str, changes: tuple[tuple[str, str], ...], region: str | None, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        add(new_stack(region=region), "Events", stage, *changes)
    if stage == "prod":
        add(new_stack(region="us-east-1"), "Events", stage, *changes)


def test_a_bucket_or_a_key_that_contradicts_the_configuration() -> None:
    stack = new_stack()
    with pytest.raises(UsageError, match=r"key and \[storage\] encryption both name the key"):
        add(stack, "A", "a", STORED_BY_KEY, key=kms.Key(stack, "Key"))
    with pytest.raises(UsageError, match=r'bucket and \[storage\] removal = "delete" exclude each other'):
        add(stack, "B", "b", *ALL_GOES, bucket=s3.Bucket(stack, "Own"))


def test_a_configuration_with_mistakes_is_named_with_all_of_them(tmp_path: Path) -> None:
    file = tmp_path / "shop.toml"
    file.write_text('[api]\nauth = "none"\n[streams.quakes]\nperiod = "fortnight"\n')
    with pytest.raises(UsageError, match=r"(?s)^shop\.toml: 5 problems.*auth.*period"):
        Config.file(file)
    with pytest.raises(UsageError, match=r"none\.toml does not exist"):
        Config.file(tmp_path / "none.toml")


def test_a_checkout_has_no_code_of_functions_in_its_package() -> None:
    with pytest.raises(
        UsageError, match=r"this is not an installed package. Install the wheel that `make wheel` makes"
    ):
        Tidetable(new_stack(), "Events", stage="prod", config=Config.file(CONFIG))


@pytest.mark.parametrize(
    ("stage", "architecture", "expected"),
    [
        ("prod", None, "arm64"),
        ("prod", lambda_.Architecture.X86_64, "x86_64"),
        ("local", None, "x86_64"),
    ],
)
def test_functions_run_on_the_architecture_of_the_app(
    stage: str, architecture: lambda_.Architecture | None, expected: str
) -> None:
    stack = new_stack()
    add(stack, stage=stage, architecture=architecture)
    assert {function["Architectures"][0] for function in synthesise(stack).functions().values()} == {expected}


def test_the_package_knows_nothing_of_the_checkout() -> None:
    """Two packages of one name would be two constructs: the modules import each other relatively."""
    for file in (ROOT / "infra").glob("*.py"):
        assert not re.search(r"^\s*(from|import) infra\b", file.read_text(), re.MULTILINE), file


def test_an_app_with_old_flags_gets_the_same_stage() -> None:
    """The flags of the CDK that matter hold within the construct, whatever the app's cdk.json says."""
    app = cdk.App(context={"@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy": False})
    stack = new_stack(app)
    add(stack)
    found = synthesise(stack)
    assert not [bucket for bucket in found.all(BUCKET).values() if "AccessControl" in bucket]


def test_the_command_line_looks_for_the_stack_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert name_stack("prod") == "Tidetable-prod"
    monkeypatch.setenv("TIDETABLE_STACK", "Shop")
    assert name_stack("prod") == "Shop"
