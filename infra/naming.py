"""Names and ARNs that the stack and the functions share."""

from __future__ import annotations

import re

from aws_cdk import ArnFormat, Stack
from constructs import Construct

from tidetable.names import make_table_prefix


def name_catalog_table(stage: str) -> str:
    """Name the catalog. Its name has no dot, so it never looks like a period table."""
    return f"tidetable-{stage}-catalog"


def name_alarm_prefix(construct: Construct, stage: str) -> str:
    """Make the prefix of the names of a stage's alarms; empty in a checkout's stack, whose functions know the prefix
    from the stage.

    CloudFormation joins an alarm's name from the stack's name and the alarm's logical id. The CDK joins the logical id
    from the ids of the constructs around the alarm. It leaves out an id ``Default``, an id with which the id before it
    ends, and all characters except letters and digits. The prefix ends with ``Alarms``, the construct of the alarms:
    without it, the prefix of a stage ``prod`` would also fit the alarms of a stage ``prod-eu``.
    """
    stack = Stack.of(construct)
    ids = [scope.node.id for scope in construct.node.scopes[len(stack.node.scopes) :] if scope.node.id != "Default"]
    if not ids and stack.stack_name == f"Tidetable-{stage}":
        return ""
    named: list[str] = []
    for id in (*ids, "Alarms"):
        if not named or not named[-1].endswith(id):
            named.append(id)
    return f"{stack.stack_name}-" + re.sub("[^A-Za-z0-9]", "", "".join(named))


def name_archive_bucket(scope: Construct, stage: str, region: str | None = None) -> str:
    """Name the archive bucket. The name is fixed, so that a new stack finds the archive of a destroyed stack.

    If the stack's account and Region are known, the name is a literal: an import needs a literal. Otherwise
    CloudFormation joins the same name. ``region`` is the bucket's Region, by default the stack's.
    """
    stack = Stack.of(scope)
    return f"tidetable-{stage}-archive-{stack.account}-{region or stack.region}"


def name_log_bucket(scope: Construct, stage: str) -> str:
    """Name the bucket with the archive bucket's access logs.

    It is fixed, because an archive bucket that is kept refers to it.
    """
    stack = Stack.of(scope)
    return f"tidetable-{stage}-logs-{stack.account}-{stack.region}"


def name_period_tables(scope: Construct, stage: str) -> str:
    """Make the ARN pattern of a stage's period tables.

    The lifecycle creates and deletes them, so a template cannot list them.
    """
    return make_arn(scope, "dynamodb", "table", f"{make_table_prefix(stage)}*")


def make_arn(scope: Construct, service: str, resource: str, name: str, region: str | None = None) -> str:
    """Make an ARN, or a pattern of ARNs, in the account of the stack, and in its Region unless another is named."""
    form = ArnFormat.COLON_RESOURCE_NAME if service == "cloudwatch" else ArnFormat.SLASH_RESOURCE_NAME
    return Stack.of(scope).format_arn(
        service=service, region=region, resource=resource, resource_name=name, arn_format=form
    )
