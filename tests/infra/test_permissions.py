"""Least privilege: each role's actions, on what, and no wildcard without a reason."""

from __future__ import annotations

import json
import re

import pytest

from tests.infra import synth
from tests.infra.synth import ENCRYPTED, KEY, SCALED, Template, actions, resources

TABLES = ":table/tidetable-dev.*"
RECONCILE = {
    *("dynamodb:CreateTable", "dynamodb:DescribeTable", "dynamodb:UpdateTable"),
    *("dynamodb:DeleteTable", "dynamodb:TagResource", "dynamodb:ListTagsOfResource"),
    "dynamodb:UpdateContinuousBackups",
}
ENTRIES = {"dynamodb:Query", "dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"}
# Per function: what it may do on period tables, on the catalog, and in the archive.
RIGHTS: dict[str, tuple[set[str], set[str], set[str]]] = {
    "ingest": (
        {"dynamodb:BatchWriteItem", "dynamodb:PutItem", "dynamodb:BatchGetItem"},
        {"dynamodb:Query"},
        {"s3:PutObject"},
    ),
    "drain": (
        {f"dynamodb:{one}" for one in ("BatchWriteItem", "PutItem", "GetItem", "BatchGetItem")},
        {"dynamodb:Query", "dynamodb:ConditionCheckItem"},
        {"s3:PutObject", "s3:GetObject", "s3:ListBucket"},
    ),
    "query": (
        {"dynamodb:Query", "dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:DescribeTable"},
        {"dynamodb:Query"},
        {"s3:GetObject", "s3:ListBucket"},
    ),
    "lifecycle": (RECONCILE, ENTRIES | {"dynamodb:GetItem"}, set()),
    "deployment": (RECONCILE, ENTRIES | {"dynamodb:GetItem"}, set()),
    "archiver": (
        {"dynamodb:Scan", "dynamodb:DescribeTable", "dynamodb:BatchGetItem"},
        ENTRIES,
        {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"},
    ),
    "restorer": (
        {
            *("dynamodb:CreateTable", "dynamodb:DescribeTable", "dynamodb:TagResource"),
            *("dynamodb:ListTagsOfResource", "dynamodb:BatchWriteItem", "dynamodb:Scan"),
            *("dynamodb:BatchGetItem", "dynamodb:UpdateContinuousBackups"),
        },
        ENTRIES | {"dynamodb:GetItem"},
        {"s3:GetObject", "s3:PutObject", "s3:ListBucket"},
    ),
    "archive_reader": (set(), set(), {"s3:GetObject"}),
    "sweeper": (
        {"dynamodb:BatchGetItem"},
        {"dynamodb:Query", "dynamodb:UpdateItem"},
        {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"},
    ),
}
# Every wildcard in any policy, and why it may stand.
WILDCARDS = {
    r":table/tidetable-dev\.\*": "period tables come and go by themselves",
    r"/stream=\*": "the archive's objects",
    r"/large/\*": "large values",
    r"/overflow/\*": "messages too large for their queue",
    r"Lifecycle(Function|Deployment|Sweeper)\w+\", \"Arn\"\]}, \":\*": "any version of the one function that is called",
}


def _on(template: Template, handler: str, resource: str) -> set[str]:
    found = [one for one in template.statements(handler) if any(resource in text for text in resources(one))]
    return {action for one in found for action in actions(one)}


@pytest.mark.parametrize("name", RIGHTS)
def test_a_function_may_do_exactly_its_own(dev: Template, name: str) -> None:
    tables, catalog, archive = RIGHTS[name]
    assert _on(dev, name, TABLES) == tables
    assert _on(dev, name, '"StorageCatalog') == catalog
    assert _on(dev, name, '"StorageArchive') == archive


@pytest.mark.parametrize(
    "name, called", [("query", "archive_reader"), ("lifecycle", "archiver"), ("deployment", "archiver")]
)
def test_a_function_may_call_one_other(dev: Template, name: str, called: str) -> None:
    invoking = [one for one in dev.statements(name) if "lambda:InvokeFunction" in actions(one)]
    assert [resources(one) for one in invoking] == [[json.dumps({"Fn::GetAtt": [dev.id_of(called), "Arn"]})]]


def test_only_ingest_may_send_to_the_overflow_queue(dev: Template) -> None:
    may = {name for name in RIGHTS if "sqs:SendMessage" in _on(dev, name, '"IngestOverflow')}
    assert may == {"ingest"}


@pytest.mark.parametrize("name", RIGHTS)
def test_a_function_may_write_to_its_own_log_group_only(dev: Template, name: str) -> None:
    group = dev.functions()[name]["LoggingConfig"]["LogGroup"]["Ref"]
    writing = [one for one in dev.statements(name) if any(action.startswith("logs:") for action in actions(one))]
    assert [resources(one) for one in writing] == [[json.dumps({"Fn::GetAtt": [group, "Arn"]})]]


def test_no_two_functions_share_a_role(dev: Template) -> None:
    roles = [json.dumps(one["Role"]) for one in dev.functions().values()]
    assert len(set(roles)) == len(roles)


def test_no_action_is_a_wildcard(dev: Template) -> None:
    found = [action for one in _allowed(dev) for action in actions(one) if "*" in action]
    assert found == []


def test_every_wildcard_of_a_resource_has_a_reason(dev: Template) -> None:
    starred = {text for one in _allowed(dev) for text in resources(one) if "*" in text}
    assert [text for text in starred if not any(re.search(reason, text) for reason in WILDCARDS)] == []


def test_tracing_alone_brings_a_bare_wildcard(signed: Template) -> None:
    bare = [one for one in _allowed(signed) if '"*"' in resources(one)]
    assert bare
    assert {action for one in bare for action in actions(one)} == {"xray:PutTraceSegments", "xray:PutTelemetryRecords"}


def test_nobody_may_list_the_accounts_tables(dev: Template) -> None:
    assert "dynamodb:ListTables" not in {action for one in _allowed(dev) for action in actions(one)}


def test_only_who_scales_may_scale_and_only_if_configured(dev: Template) -> None:
    scaled = synth.template("dev", SCALED)
    for made, expected in ((dev, set()), (scaled, {"lifecycle", "deployment"})):
        may = {
            name
            for name in RIGHTS
            if any("application-autoscaling:RegisterScalableTarget" in actions(one) for one in made.statements(name))
        }
        assert may == expected
    linked = [one for one in scaled.statements("lifecycle") if "iam:CreateServiceLinkedRole" in actions(one)]
    assert [one["Condition"] for one in linked] == [
        {"StringLike": {"iam:AWSServiceName": "dynamodb.application-autoscaling.amazonaws.com"}}
    ]


def test_only_who_keeps_versions_may_put_on_condition() -> None:
    never = synth.template("dev", ('versions = "keep"', ""))
    assert _on(never, "ingest", TABLES) == {"dynamodb:BatchWriteItem"}
    assert _on(never, "drain", TABLES) == {"dynamodb:BatchWriteItem", "dynamodb:PutItem"}


def test_a_key_of_ones_own_is_used_through_dynamodb_only() -> None:
    made = synth.template("dev", ENCRYPTED)
    for name in ("ingest", "drain", "query", "lifecycle", "deployment", "archiver", "restorer", "sweeper"):
        uses = [one for one in made.statements(name) if any(action.startswith("kms:") for action in actions(one))]
        assert [resources(one) for one in uses] == [[f'"{KEY}"']]
        assert all("kms:ViaService" in str(one["Condition"]) for one in uses)


def _allowed(template: Template) -> list[dict[str, object]]:
    inline = [policy for role in template.all("AWS::IAM::Role").values() for policy in role.get("Policies", [])]
    documents = [policy["PolicyDocument"] for policy in [*template.all("AWS::IAM::Policy").values(), *inline]]
    return [one for document in documents for one in document["Statement"] if one["Effect"] == "Allow"]
