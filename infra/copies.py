"""Rights on copies in other Regions, which only a stage with ``replicas`` has.

AWS, "DynamoDB global tables security": a role that makes or deletes a replica needs rights in the replica's Region,
namely for the requests that DynamoDB makes there on the role's behalf.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import ArnFormat, Stack

from tidetable.names import make_table_prefix

from .function import Common, Function
from .naming import name_catalog_table

_MAKES = (
    *("CreateTable", "CreateTableReplica", "Scan", "Query", "GetItem"),
    *("PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem"),
)
# The actions that give a copy the tags of its table.
_TAGS = ("DescribeTable", "TagResource")
_DELETES = ("DeleteTable", "DeleteTableReplica")


def allow_copies(function: Function, common: Common) -> None:
    """Let the function make copies of period tables in the Regions of the configuration; tag and delete copies in any Region.

    A table keeps its copies although the configuration no longer names their Region. So the right to tag and delete
    copies must not depend on today's list of Regions.
    """
    if not common.config.has_had_copies:
        return
    tables = f"{make_table_prefix(common.stage)}*"
    _allow_making(function, common.config.replicas, tables)
    function.allow_actions(
        [f"dynamodb:{action}" for action in (*_DELETES, *_TAGS)], find_table_arn(function, "*", tables)
    )
    stack = Stack.of(function)
    # AWS mirrors the scalable targets of a table to a copy's Region, and leaves them there when the copy is deleted.
    targets = stack.format_arn(
        service="application-autoscaling",
        region="*",
        resource="scalable-target",
        resource_name="*",
        arn_format=ArnFormat.SLASH_RESOURCE_NAME,
    )
    function.allow_actions(["application-autoscaling:DeregisterScalableTarget"], targets)
    # DynamoDB makes this role together with the account's first copy, with the rights of the caller that makes the
    # copy.
    service = "replication.dynamodb.amazonaws.com"
    role = f"aws-service-role/{service}/AWSServiceRoleForDynamoDBReplication"
    function.allow_actions(
        ["iam:CreateServiceLinkedRole"],
        stack.format_arn(service="iam", region="", resource="role", resource_name=role),
        conditions={"StringLike": {"iam:AWSServiceName": service}},
    )


def allow_catalog_copies(function: Function, common: Common, catalog: str, *, deletes: bool) -> None:
    """Let the function make copies of the catalog and, with ``deletes``, delete them.

    ``catalog`` is the ARN of the catalog in the stage's own Region.
    """
    if not common.config.has_had_copies:
        return
    function.allow_actions(["dynamodb:DescribeTable", "dynamodb:UpdateTable"], catalog)
    _allow_making(function, common.config.replicas, name_catalog_table(common.stage))
    if deletes:
        copies = find_table_arn(function, "*", name_catalog_table(common.stage))
        function.allow_actions([f"dynamodb:{action}" for action in _DELETES], copies)


def _allow_making(function: Function, regions: Sequence[str], tables: str) -> None:
    if regions:
        copies = [find_table_arn(function, region, tables) for region in regions]
        function.allow_actions([f"dynamodb:{action}" for action in _MAKES], *copies)


def find_table_arn(function: Function, region: str, tables: str) -> str:
    """Find the ARN of the tables in a Region whose names match ``tables``, a name or a pattern."""
    return Stack.of(function).format_arn(
        service="dynamodb",
        region=region,
        resource="table",
        resource_name=tables,
        arn_format=ArnFormat.SLASH_RESOURCE_NAME,
    )
