"""cdk-nag's AwsSolutions rules: the stack passes, violations are found, and every acknowledgement has a reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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
    FORMER,
    NOTIFYING,
    PAGES,
    ROOT,
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


def _rules(report: dict[str, Any]) -> set[str]:
    return {violation["ruleName"] for violation in report["violations"]}


@pytest.mark.parametrize(
    "changes",
    [(), (TRACED, SIGNED, SCALED, ENCRYPTED, STORED_BY_KEY, FORMER, PAGES, NOTIFYING, *DOORS), ALL_GOES],
    ids=["as shipped", "traced, signed, scaled, encrypted, called from pages and notifying", "to be deleted"],
)
def test_the_stack_passes(changes: tuple[tuple[str, str], ...]) -> None:
    made, _ = app("dev", *changes)
    _, report = _report(made)
    assert (report["conclusion"], _rules(report)) == ("success", set())


def test_the_stack_passes_where_account_and_region_are_known() -> None:
    made, _ = app("dev", env=cdk.Environment(account="123456789012", region="eu-west-1"))
    _, report = _report(made)
    assert (report["conclusion"], _rules(report)) == ("success", set())


def test_a_bucket_without_tls_and_a_wildcard_are_noticed() -> None:
    made, stack = app()
    s3.Bucket(stack, "Open")
    sqs.Queue(stack, "Plain")
    role = iam.Role(stack, "Mighty", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    role.add_to_policy(iam.PolicyStatement(actions=["dynamodb:DeleteTable"], resources=["*"]))
    passed, report = _report(made)
    assert report["conclusion"] == "failure"
    assert _rules(report) >= {
        "AwsSolutions-S1",
        "AwsSolutions-S10",
        "AwsSolutions-SQS4",
        "AwsSolutions-IAM5[Resource::*]",
    }
    assert not passed


# Two apps in a process of its own, as the CDK starts its checks of CloudFormation's rules once in a process.
VALIDATED = """
import json, sys
from pathlib import Path
from aws_cdk import CfnResource
from tests.infra.synth import app

for broken in (False, True):
    made, stack = app()
    if broken:
        CfnResource(stack, "Queue", type="AWS::SQS::Queue", properties={"VisibilityTimeout": "soon"})
    made.synth()
    file = Path(made.outdir) / "validation-report.json"
    print(file.read_text().replace("\\n", " ") if file.exists() else json.dumps({"pluginReports": []}))
"""


def test_cloudformations_own_rules_find_nothing() -> None:
    environment = os.environ | {
        "CDK_VALIDATION": "true",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "lambdas")]),
    }
    command = [sys.executable, "-W", "ignore", "-c", VALIDATED]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    ours, broken = (json.loads(line)["pluginReports"] for line in done.stdout.splitlines())
    assert ours == []
    assert [report["pluginName"] for report in broken] == ["CloudFormation Validate"], broken
