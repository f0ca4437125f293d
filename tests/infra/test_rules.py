"""cdk-nag's AwsSolutions rules: the stack passes, violations are found, and every acknowledgement has a reason."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs

from tests.infra.synth import (
    ALL_GOES,
    DOORS,
    ENCRYPTED,
    EVERYTHING,
    FORMER,
    NOTIFYING,
    PAGES,
    ROLLED_UP,
    SCALED,
    SIGNED,
    STORED_BY_KEY,
    TRACED,
    app,
    checked,
)


def _report(made: cdk.App) -> tuple[bool, dict[str, Any]]:
    """Whether the synth succeeded, and the rules' report."""
    try:
        checked(made).synth()
        passed = True
    except Exception:  # jsii wraps the error of the validation.
        passed = False
    (report,) = json.loads((Path(made.outdir) / "validation-report.json").read_text())["pluginReports"]
    return passed, report


@cache
def _validation() -> cdk.CloudFormationValidatePlugin:
    """The validation; its start takes three times as long as a check."""
    return cdk.CloudFormationValidatePlugin()


def _violations(*changes: tuple[str, str], wrong: bool = False) -> set[str]:
    """The rules of CloudFormation's validation, which the other tests switch off, that a configuration's template violates."""
    made, stack = app("dev", *changes)
    cdk.Validations.of(made).add_plugins(_validation())
    if wrong:
        cdk.CfnResource(stack, "Wrong", type="AWS::SQS::Queue", properties={"Colour": "blue"})
    made.synth()
    reports = json.loads((Path(made.outdir) / "validation-report.json").read_text())["pluginReports"]
    return {rule for report in reports for rule in _rules(report)}


def _rules(report: dict[str, Any]) -> set[str]:
    return {violation["ruleName"] for violation in report["violations"]}


@pytest.mark.parametrize(
    "changes",
    [(), (TRACED, SIGNED, SCALED, ENCRYPTED, STORED_BY_KEY, FORMER, PAGES, NOTIFYING, *DOORS, *ROLLED_UP), ALL_GOES],
    ids=[
        "as shipped",
        "traced, signed, scaled, encrypted, called from pages, notifying and rolled up",
        "to be deleted",
    ],
)
def test_the_stack_passes(changes: tuple[tuple[str, str], ...]) -> None:
    made, _ = app("dev", *changes)
    _, report = _report(made)
    assert (report["conclusion"], _rules(report)) == ("success", set())


def test_the_stack_passes_where_account_and_region_are_known() -> None:
    made, _ = app("dev", env=cdk.Environment(account="123456789012", region="eu-west-1"))
    _, report = _report(made)
    assert (report["conclusion"], _rules(report)) == ("success", set())


def test_the_cdks_own_validation_finds_nothing_with_everything_on() -> None:
    assert _violations(*EVERYTHING) == set()


def test_the_cdks_own_validation_finds_nothing_as_shipped_but_a_property_that_does_not_exist() -> None:
    assert _violations(wrong=True) == {"F3002"}


def test_a_bucket_without_tls_and_a_wildcard_are_noticed() -> None:
    made, stack = app()
    s3.Bucket(stack, "Open")
    sqs.Queue(stack, "Plain")
    role = iam.Role(stack, "Mighty", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    role.add_to_policy(iam.PolicyStatement(actions=["dynamodb:DeleteTable"], resources=["*"]))
    # Without tracing no role of the stage may have the wildcard, so no reason accepts it there.
    inner = iam.Role(stack.tidetable, "Wide", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    inner.add_to_policy(iam.PolicyStatement(actions=["dynamodb:Scan"], resources=["*"]))
    passed, report = _report(made)
    assert report["conclusion"] == "failure"
    found = [one for one in report["violations"] if one["ruleName"] == "AwsSolutions-IAM5[Resource::*]"]
    assert [holder in json.dumps(found) for holder in ("Wide", "Mighty")] == [True, True]
    assert _rules(report) >= {
        "AwsSolutions-S1",
        "AwsSolutions-S10",
        "AwsSolutions-SQS4",
        "AwsSolutions-IAM5[Resource::*]",
    }
    assert not passed
