"""What the template must say; the emulator drops much of it silently, so it is asserted here."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PREFIX = "table/tidetable-prod.*"


def of_type(template: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    found = {name: one for name, one in template["Resources"].items() if one["Type"] == kind}
    assert found, f"no {kind}"
    return found


def functions(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        one["Properties"]["Handler"].split(".")[1]: one["Properties"]
        for one in of_type(template, "AWS::Lambda::Function").values()
        if one["Properties"]["Handler"].startswith("handlers.")
    }


def statements(template: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, policy in of_type(template, "AWS::IAM::Policy").items():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            yield name, statement


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_every_function_has_a_handler_that_exists_and_runs_on_arm() -> None:
    handlers = {file.stem for file in (ROOT / "lambdas" / "handlers").glob("[a-z]*.py")}
    assert handlers == {"ingest", "drain", "query", "lifecycle", "deployment", "archiver", "archive_reader"}


def test_each_handler_is_deployed(template: dict[str, Any]) -> None:
    found = functions(template)
    assert found.keys() == {"ingest", "drain", "query", "lifecycle", "deployment", "archiver", "archive_reader"}
    for one in found.values():
        assert (one["Runtime"], one["Architectures"]) == ("python3.13", ["arm64"])


def test_every_variable_that_the_settings_read_is_supplied(template: dict[str, Any]) -> None:
    source = ast.parse((ROOT / "lambdas" / "settings.py").read_text())
    read = {
        node.value for node in ast.walk(source) if isinstance(node, ast.Constant) and str(node.value).startswith("TIDE")
    }
    given = {handler: set(one["Environment"]["Variables"]) for handler, one in functions(template).items()}
    assert read - {"TIDETABLE_STAGE"} <= set().union(*given.values())
    for variables in given.values():
        assert {"TIDETABLE_STAGE", "TIDETABLE_CATALOG_TABLE", "POWERTOOLS_METRICS_NAMESPACE"} <= variables
    assert "TIDETABLE_OVERFLOW_QUEUE_URL" in given["ingest"]
    assert "TIDETABLE_ARCHIVE_READER_FUNCTION" in given["query"]
    assert {"TIDETABLE_ARCHIVER_FUNCTION", "TIDETABLE_ALLOW_TIME_TRAVEL"} <= given["lifecycle"] & given["deployment"]
    assert "TIDETABLE_ARCHIVE_BUCKET" in given["archiver"] & given["archive_reader"]


def test_nobody_but_the_local_stage_may_act_as_at_another_time(template: dict[str, Any]) -> None:
    variables = functions(template)["lifecycle"]["Environment"]["Variables"]
    assert variables["TIDETABLE_ALLOW_TIME_TRAVEL"] == "off"


def test_no_role_has_a_wildcard_but_its_own_prefixes(template: dict[str, Any]) -> None:
    for name, statement in statements(template):
        assert all("*" not in action for action in listed(statement["Action"])), (name, statement)
        for resource in listed(statement["Resource"]):
            text = json.dumps(resource)
            assert resource != "*", (name, statement)
            allowed = (
                PREFIX in text
                or '"/stream=*"' in text
                or ('":*"' in text and "lambda:InvokeFunction" in str(statement))
            )
            assert "*" not in text or allowed, (name, resource)


def test_only_the_lifecycle_may_make_or_delete_tables(template: dict[str, Any]) -> None:
    for action in ("dynamodb:CreateTable", "dynamodb:DeleteTable", "dynamodb:UpdateTable"):
        holders = {name for name, one in statements(template) if action in listed(one["Action"])}
        assert all("Lifecycle" in name for name in holders)
        assert len(holders) == 2
    assert "ListTables" not in json.dumps(template)


def test_queues_are_encrypted_kept_for_14_days_and_overflow_has_dead_letters(template: dict[str, Any]) -> None:
    queues = of_type(template, "AWS::SQS::Queue")
    for one in queues.values():
        assert one["Properties"]["SqsManagedSseEnabled"] is True
        assert one["Properties"]["MessageRetentionPeriod"] == 1_209_600
    assert sum("RedrivePolicy" in one["Properties"] for one in queues.values()) == 1
    mapping = next(iter(of_type(template, "AWS::Lambda::EventSourceMapping").values()))["Properties"]
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": 2}


def test_buckets_are_private_encrypted_and_over_tls_only(template: dict[str, Any]) -> None:
    buckets = of_type(template, "AWS::S3::Bucket")
    for one in buckets.values():
        assert set(one["Properties"]["PublicAccessBlockConfiguration"].values()) == {True}
        assert "BucketEncryption" in one["Properties"]
    denied = [json.dumps(one) for one in of_type(template, "AWS::S3::BucketPolicy").values()]
    assert len(denied) == len(buckets)
    assert all("aws:SecureTransport" in one for one in denied)


def test_the_catalog_and_the_archive_outlive_the_stack(template: dict[str, Any], other: dict[str, Any]) -> None:
    table = next(iter(of_type(template, "AWS::DynamoDB::Table").values()))
    assert table["DeletionPolicy"] == "Retain"
    assert table["Properties"]["TableName"] == "tidetable-prod-catalog"
    assert table["Properties"]["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"] is True
    assert table["Properties"]["DeletionProtectionEnabled"] is True
    assert next(iter(of_type(other, "AWS::DynamoDB::Table").values()))["DeletionPolicy"] == "Delete"


def test_the_lifecycle_runs_every_five_minutes_with_a_dead_letter_queue(template: dict[str, Any]) -> None:
    schedule = next(iter(of_type(template, "AWS::Scheduler::Schedule").values()))["Properties"]
    assert schedule["ScheduleExpression"] == "rate(5 minutes)"
    assert "DeadLetterConfig" in schedule["Target"]
    assert json.loads(schedule["Target"]["Input"]) == {"source": "schedule"}


def test_the_api_wants_a_key_or_a_signature_as_configured(template: dict[str, Any], other: dict[str, Any]) -> None:
    for one in of_type(template, "AWS::ApiGateway::Method").values():
        assert one["Properties"]["ApiKeyRequired"] is True
    for one in of_type(other, "AWS::ApiGateway::Method").values():
        assert one["Properties"]["AuthorizationType"] == "AWS_IAM"
    assert "ApiKeyId" in template["Outputs"]
    assert "ApiKeyId" not in other["Outputs"]


def test_the_stage_throttles_and_logs(template: dict[str, Any]) -> None:
    stage = next(iter(of_type(template, "AWS::ApiGateway::Stage").values()))["Properties"]
    settings = stage["MethodSettings"][0]
    assert (settings["ThrottlingRateLimit"], settings["ThrottlingBurstLimit"]) == (200, 400)
    assert "AccessLogSetting" in stage


def test_the_gateways_own_errors_are_problems(template: dict[str, Any]) -> None:
    found = {
        one["Properties"]["ResponseType"]: one["Properties"]
        for one in of_type(template, "AWS::ApiGateway::GatewayResponse").values()
    }
    for one in found.values():
        document = json.loads(one["ResponseTemplates"]["application/json"])
        assert {"type", "title", "status", "code", "detail"} <= document.keys()
        assert str(document["status"]) == one["StatusCode"]
    assert "gatewayresponse.header.Retry-After" in found["THROTTLED"]["ResponseParameters"]


def test_a_change_of_the_configuration_runs_the_custom_resource(
    template: dict[str, Any], other: dict[str, Any]
) -> None:
    digests = [
        next(iter(of_type(one, "Custom::TidetableTables").values()))["Properties"]["configuration"]
        for one in (template, other)
    ]
    assert digests[0] != digests[1]


def test_every_alarm_names_a_section_of_the_runbook(template: dict[str, Any]) -> None:
    headings = {
        line.removeprefix("## ").strip().lower()
        for line in (ROOT / "docs" / "runbook.md").read_text().splitlines()
        if line.startswith("## ")
    }
    for one in of_type(template, "AWS::CloudWatch::Alarm").values():
        section = one["Properties"]["AlarmDescription"].rpartition("docs/runbook.md#")[2]
        assert section in headings
