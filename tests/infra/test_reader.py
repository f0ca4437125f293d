"""A reader: the stack in another Region that answers from copies. Every kind of its resources is written out."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns

from app import name_stack
from infra import Config, Tidetable, UsageError
from infra.stack import TidetableStack
from tests.cdk.apps import ACCOUNT, add, new_app, new_stack, synthesise
from tests.infra.synth import (
    BOTH,
    CONFIG,
    DOORS,
    ENCRYPTED,
    PAGER,
    ROLLED_UP,
    ROOT,
    SIGNED,
    STORAGE_KEY,
    STORED_BY_KEY,
    EmptyAssets,
    Template,
    actions,
    checked,
    resources,
    template,
    temporary_folder,
)
from tidetable.config import parse

HOME, AWAY = "us-east-1", "eu-west-1"
COPIED = ("[streams.stations]", f'[streams.stations]\nreplicas = ["{AWAY}"]')


def configured(*changes: tuple[str, str]) -> str:
    text = CONFIG.read_text()
    for old, new in (COPIED, *changes):
        assert old in text
        text = text.replace(old, new)
    return text


def reader_app(*changes: tuple[str, str]) -> tuple[cdk.App, TidetableStack]:
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    made = cdk.App(context=context, outdir=temporary_folder("reader"))
    stack = TidetableStack(
        made,
        name_stack("prod", "reader"),
        stage="prod",
        config=parse(configured(*changes)),
        assets=EmptyAssets(ROOT, CONFIG, "prod"),
        env=cdk.Environment(account=ACCOUNT, region=AWAY),
        role="reader",
        origin=HOME,
    )
    return made, stack


@cache
def reader(*changes: tuple[str, str]) -> Template:
    made, stack = reader_app(*changes)
    return Template(made.synth().get_stack_by_name(stack.stack_name).template)


def kinds(made: Template) -> Counter[str]:
    return Counter(resource["Type"].removeprefix("AWS::") for resource in made.resources.values())


def test_cfn_lint_finds_nothing() -> None:
    # Each process collects this file, and cfn-lint takes a second to import.
    from tests.infra.lint import problems

    assert problems(reader(), AWAY) == []


def test_a_reader_has_only_what_reads() -> None:
    assert set(reader().functions()) == {"query", "archive_reader", "authorizer"}
    found = kinds(reader())
    methods = found.pop("ApiGateway::Method")
    parts = found.pop("ApiGateway::Resource")
    assert (methods, parts) == (11, 14)
    assert found == {
        "ApiGateway::Account": 1,
        "ApiGateway::Authorizer": 1,
        "ApiGateway::Deployment": 1,
        "ApiGateway::GatewayResponse": 19,
        "ApiGateway::RestApi": 1,
        "ApiGateway::Stage": 1,
        "CloudWatch::Alarm": 2,
        "IAM::Policy": 3,
        "IAM::Role": 4,
        "Lambda::Function": 3,
        "Lambda::Permission": 2,
        "Logs::LogGroup": 4,
    }


def test_a_reader_takes_tls_1_2_and_logs_as_the_stage_does() -> None:
    made = reader(BOTH)
    apis = made.all("AWS::ApiGateway::RestApi").values()
    policies = [(api["SecurityPolicy"], api["EndpointAccessMode"]) for api in apis]
    assert policies == [("SecurityPolicy_TLS13_1_2_2021_06", "BASIC")] * 2
    levels = {one["LoggingConfig"]["SystemLogLevel"] for one in made.functions().values()}
    assert levels == {"WARN"}
    groups = made.all("AWS::Logs::LogGroup").items()
    assert {id: group.get("LogGroupClass") for id, group in groups if id.startswith("ApiAccess")} == {
        "ApiAccessLog713001CC": "INFREQUENT_ACCESS"
    }


def test_everything_that_a_stage_may_have_besides_adds_nothing_that_writes() -> None:
    full = reader(*ROLLED_UP, *DOORS, BOTH, STORED_BY_KEY, ("snap_start = false", "snap_start = true"))
    assert set(full.functions()) == {"query", "archive_reader", "authorizer"}
    # Versions and aliases of SnapStart, and the API for signatures.
    assert set(kinds(full)) - set(kinds(reader())) == {"Lambda::Version", "Lambda::Alias"}
    assert kinds(full)["ApiGateway::RestApi"] == 2
    assert kinds(full)["CloudWatch::Alarm"] == 3


@pytest.mark.parametrize("changes", [(), (BOTH,)])
def test_every_method_of_a_reader_reads(changes: tuple[tuple[str, str], ...]) -> None:
    methods = reader(*changes).all("AWS::ApiGateway::Method").values()
    assert {method["HttpMethod"] for method in methods} == {"GET"}
    paths = {part["PathPart"] for part in reader(*changes).all("AWS::ApiGateway::Resource").values()}
    assert not paths & {"console", "plan", "cost", "alarms", "influx", "otlp"}


def test_the_rights_of_a_reader_are_to_read_in_its_own_region_and_from_the_origins_bucket() -> None:
    made = reader()
    tables = f":dynamodb:{AWAY}:{ACCOUNT}:table/tidetable-prod."
    catalog = f":dynamodb:{AWAY}:{ACCOUNT}:table/tidetable-prod-catalog"
    bucket = f"tidetable-prod-archive-{ACCOUNT}-{HOME}"
    rights: dict[str, set[tuple[str, str]]] = {}
    for handler in made.functions():
        for statement in made.statements(handler):
            for action in actions(statement):
                for resource in resources(statement):
                    place = next(
                        (
                            name
                            for name, part in (
                                ("catalog", catalog),
                                ("tables", tables),
                                ("bucket", bucket),
                                ("logs", "Logs"),
                                ("reader", "ArchiveReader"),
                            )
                            if part in resource
                        ),
                        resource,
                    )
                    rights.setdefault(handler, set()).add((action, place))
    logs = {("logs:CreateLogStream", "logs"), ("logs:PutLogEvents", "logs")}
    assert rights == {
        "query": logs
        | {("dynamodb:Query", "catalog"), ("lambda:InvokeFunction", "reader")}
        | {(f"dynamodb:{action}", "tables") for action in ("Query", "GetItem", "BatchGetItem", "DescribeTable")}
        | {("s3:GetObject", "bucket"), ("s3:ListBucket", "bucket")},
        "archive_reader": logs | {("s3:GetObject", "bucket")},
        "authorizer": logs | {("dynamodb:GetItem", "catalog")},
    }


def test_the_keys_of_the_bucket_are_used_through_the_origins_s3() -> None:
    """A customer's key of a stream's tables is of the stage's Region: it does not encrypt the copies."""
    made = reader(STORED_BY_KEY, ENCRYPTED)
    for handler in ("query", "archive_reader"):
        uses = [statement for statement in made.statements(handler) if "kms:" in json.dumps(statement["Action"])]
        assert [statement["Resource"] for statement in uses] == [STORAGE_KEY]
        assert actions(uses[0]) == {"kms:Decrypt"}
        through = json.dumps(uses[0]["Condition"]["StringEquals"]["kms:ViaService"])
        assert f"s3.{HOME}." in through
    assert "kms:" not in json.dumps(made.statements("authorizer"))


def test_the_functions_know_their_origin() -> None:
    for handler, function in reader().functions().items():
        variables = function["Environment"]["Variables"]
        assert variables["TIDETABLE_ORIGIN"] == HOME, handler
        assert variables["TIDETABLE_CATALOG_TABLE"] == "tidetable-prod-catalog"
        assert "TIDETABLE_ROLLUPS_TABLE" not in variables
    for handler in ("query", "archive_reader"):
        variables = reader().functions()[handler]["Environment"]["Variables"]
        assert variables["TIDETABLE_ARCHIVE_BUCKET"] == f"tidetable-prod-archive-{ACCOUNT}-{HOME}"


def test_no_name_of_the_account_is_taken_that_the_stage_has() -> None:
    """Roles, policies and dashboards are of the account, whatever the Region."""
    for kind, name in (("AWS::IAM::Role", "RoleName"), ("AWS::IAM::ManagedPolicy", "ManagedPolicyName")):
        assert not [made for made in reader().all(kind).values() if name in made]
    assert not reader().all("AWS::CloudWatch::Dashboard")
    assert {name_stack("prod", "reader"), name_stack("prod", "origin")} == {"Tidetable-Reader-prod", "Tidetable-prod"}


def test_keys_of_the_stage_are_checked_and_none_is_counted_by_the_gateway() -> None:
    methods = [method for method in reader().all("AWS::ApiGateway::Method").values() if "AuthorizerId" in method]
    assert len(methods) == 10
    assert not any(method.get("ApiKeyRequired") for method in methods)
    (rest,) = reader().all("AWS::ApiGateway::RestApi").values()
    assert "ApiKeySourceType" not in rest


def test_the_outputs_of_a_reader() -> None:
    assert str(reader().document["Description"]).endswith("; a reader of the copies of us-east-1")
    assert {"ApiUrl", "Origin", "QueryLogs"} <= set(reader().document["Outputs"])
    assert reader().document["Outputs"]["Origin"]["Value"] == HOME
    assert not {"CatalogTable", "LifecycleFunction", "OverflowQueueUrl", "ApiKeyId"} & set(reader().document["Outputs"])


def test_cdk_nag_has_nothing_against_a_reader() -> None:
    made, _ = reader_app(STORED_BY_KEY)
    checked(made).synth()


def test_alarms_notify_topics_of_their_own_region() -> None:
    """test_own_app.py has the alarms of a stage with the same topics."""
    away = PAGER.replace(HOME, AWAY)
    topics = ("notify = []", f'notify = ["ops@example.com", "{PAGER}", "{away}"]')
    (subscription,) = reader(topics).all("AWS::SNS::Subscription").values()
    assert subscription["Endpoint"] == "ops@example.com"
    for alarm in reader(topics).all("AWS::CloudWatch::Alarm").values():
        assert [action for action in alarm["AlarmActions"] if isinstance(action, str)] == [away]


def test_of_topics_in_several_regions_cloudformation_takes_those_of_a_region_that_the_synth_does_not_know() -> None:
    """CloudWatch refuses an alarm with a topic of another Region: "Invalid region specified"."""
    away = PAGER.replace(HOME, AWAY)
    stack = new_stack()
    config = Config.text(configured(("notify = []", f'notify = ["{PAGER}", "{away}"]')))
    Tidetable(stack, "Events", stage="prod", config=config, code=EmptyAssets(ROOT, CONFIG, "prod"))
    made = synthesise(stack)
    nothing = {"Ref": "AWS::NoValue"}
    for alarm in made.all("AWS::CloudWatch::Alarm").values():
        chosen = [action["Fn::If"] for action in alarm["AlarmActions"]]
        assert [(arn, other) for _, arn, other in chosen] == [(PAGER, nothing), (away, nothing)]
        conditions = [made.document["Conditions"][name] for name, _, _ in chosen]
        assert conditions == [{"Fn::Equals": [{"Ref": "AWS::Region"}, region]} for region in (HOME, AWAY)]


def _read(stack: cdk.Stack, text: str | None = None, **options: Any) -> Tidetable:
    config = Config.text(text or configured())
    chosen: dict[str, Any] = {"role": "reader", "origin": HOME, "code": EmptyAssets(ROOT, CONFIG, "prod")} | options
    return Tidetable(stack, "Away", stage="prod", config=config, **chosen)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"origin": None}, 'role "reader": add origin, the Region of the stage, such as "us-east-1"'),
        ({"origin": AWAY}, "origin 'eu-west-1': this is the stack's own Region"),
        ({"origin": "Virginia"}, "origin 'Virginia': this is not the name of a Region"),
        ({"role": "replica"}, "role 'replica': use \"reader\""),
        ({"role": "origin"}, "origin 'us-east-1': only a reader has an origin"),
        ({"text": CONFIG.read_text()}, 'no stream has copies in eu-west-1. Add "eu-west-1" to replicas of a stream'),
        # `make destroy` synthesises the stack, too.
        ({"text": CONFIG.read_text()}, "aws cloudformation delete-stack --stack-name Shop --region eu-west-1"),
        (
            {"text": configured((f'["{AWAY}"]', f'["{AWAY}", "{HOME}"]'))},
            "streams.stations.replicas: us-east-1 is the Region of the stage itself",
        ),
    ],
)
def test_what_cannot_be_a_reader(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as raised:
        _read(new_stack(region=AWAY), **options)
    assert message in str(raised.value)


def test_the_region_of_a_reader_must_be_known() -> None:
    with pytest.raises(UsageError, match="the Region of the stack must be known"):
        _read(new_stack())


def test_a_key_of_the_bucket_that_is_not_of_the_origin_is_refused() -> None:
    wrong = (STORED_BY_KEY[0], STORED_BY_KEY[1].replace(HOME, AWAY))
    with pytest.raises(UsageError, match="is of eu-west-1, and its origin is us-east-1: name one of us-east-1"):
        _read(new_stack(region=AWAY), configured(wrong))


def test_the_stage_and_its_reader_in_one_app() -> None:
    app = new_app()
    home, away = new_stack(app, "Home", HOME), new_stack(app, "Away", AWAY)
    bucket = s3.Bucket(home, "Own", bucket_name="shop-events")
    add(home, "Events", "prod", COPIED, bucket=bucket)
    keys = [kms.Key.from_key_arn(away, f"Key{n}", f"arn:aws:kms:{HOME}:{ACCOUNT}:key/{n}") for n in range(2)]
    topic = sns.Topic.from_topic_arn(away, "Pager", f"arn:aws:sns:{AWAY}:{ACCOUNT}:pager")
    taken = s3.Bucket.from_bucket_attributes(away, "Own", bucket_name="shop-events", encryption_key=keys[1])
    made = _read(away, bucket=taken, key=keys[0], alarm_topic=topic)
    assert (made.role, made.origin, made.bucket.bucket_name) == ("reader", HOME, "shop-events")
    assert made.encryption_key is keys[0]
    found = synthesise(away)
    reading = found.statements("archive_reader")
    assert "shop-events/stream=*" in json.dumps(reading)
    assert [one["Resource"] for one in reading if actions(one) == {"kms:Decrypt"}] == [[key.key_arn for key in keys]]
    alarms = found.all("AWS::CloudWatch::Alarm").values()
    assert [alarm["AlarmActions"] for alarm in alarms] == [[topic.topic_arn]] * 2
    for name in ("overflow", "dead_letters", "dashboard", "database", "rollups_table", "lifecycle_dead_letters"):
        with pytest.raises(UsageError, match=f"{name}: a reader does not have it; the stage in us-east-1 has it"):
            getattr(made, name)
    with pytest.raises(UsageError, match="grant_write: a reader does not have it"):
        made.grant_write(iam.User(away, "Sender"))


def test_a_reader_for_signatures_alone_has_one_api_and_no_keys() -> None:
    made = _read(new_stack(region=AWAY), configured(SIGNED))
    assert made.signed_api is made.api
    assert (made.key, made.usage_plan, set(made.alarms)) == (None, None, {"ApiFailing"})
    assert set(made.functions) == {"query", "archive_reader"}


def test_a_second_reader_of_the_same_stage_in_the_region_is_refused() -> None:
    stack = new_stack(region=AWAY)
    _read(stack)
    with pytest.raises(UsageError, match="has this name already"):
        Tidetable(
            stack,
            "Again",
            stage="prod",
            config=Config.text(configured()),
            role="reader",
            origin=HOME,
            code=EmptyAssets(ROOT, CONFIG, "prod"),
        )


def test_the_stage_itself_is_as_without_a_reader() -> None:
    assert "TIDETABLE_ORIGIN" not in template().functions()["query"]["Environment"]["Variables"]
