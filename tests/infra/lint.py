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


# A resource of a type of its own may have any attribute, and needs nothing but the function that makes it.
STAND_IN = {
    "Type": "Custom::Checked",
    "Properties": {"ServiceToken": "arn:aws:lambda:us-east-1:000000000000:function:checked"},
}


# A Region of each kind: commercial with every feature, commercial without SnapStart, and one of each partition whose
# documents are public. cfn-lint looks at all of them in the time of one and a quarter.
REGIONS = ("us-east-1", "eu-central-1", "ap-east-2", "cn-north-1", "us-gov-west-1", "eusc-de-east-1")


def problems(made: Template, *regions: str, checked: Template | None = None) -> list[str]:
    """The problems that cfn-lint finds in a template for some Regions, by default for one of each kind, as lines.

    A resource that is the same in the ``checked`` template was looked at there. A stand-in takes its place, to which the
    other resources may refer: a template has 190 resources, and an example differs in four.
    """
    document = made.document
    if checked is not None:
        resources = {
            id: STAND_IN if resource == checked.resources.get(id) else resource
            for id, resource in made.resources.items()
        }
        document = document | {"Resources": resources}
    settings = ManualArgs(ignore_checks=list(IGNORED), regions=list(regions or REGIONS))
    found = lint(json.dumps(document), config=settings)
    return [f"{finding.rule.id} {'/'.join(map(str, finding.path or []))}: {finding.message}" for finding in found]
