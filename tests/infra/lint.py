"""cfn-lint over a template."""

from __future__ import annotations

import json

from cfnlint.api import lint
from cfnlint.config import ManualArgs

from tests.infra.synth import Template

# The ignored rules, each with its reason.
IGNORED = {
    "W3005": "the CDK writes DependsOn for what a reference says already; CloudFormation takes both",
}


def problems(made: Template, region: str = "us-east-1") -> list[str]:
    """The problems that cfn-lint finds in a template for a Region, as lines."""
    settings = ManualArgs(ignore_checks=list(IGNORED), regions=[region])
    found = lint(json.dumps(made.document), config=settings)
    return [f"{finding.rule.id} {'/'.join(map(str, finding.path or []))}: {finding.message}" for finding in found]
