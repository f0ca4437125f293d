"""Rights on period tables.

The lifecycle creates and deletes the tables, so the rights use the prefix of their names.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import ArnFormat, Stack

from tidetable.names import make_table_prefix

from .function import Common, Function
from .kms import TABLE_USES, make_key_statements
from .naming import name_period_tables


def allow_tables(function: Function, common: Common, actions: Sequence[str]) -> None:
    """Let the function do these actions on the stage's period tables, with the keys that encrypt them.

    A table never changes its layout and its key. So the rights must also suffice for the tables of earlier
    configurations. No customer's key encrypts a copy, so a reader needs no rights on keys.
    """
    function.allow_actions("dynamodb", actions, name_period_tables(function, common.stage))
    creates = "CreateTable" in actions
    keys = () if common.origin else common.config.table_keys
    for statement in make_key_statements(function, "dynamodb", keys, TABLE_USES, grants=creates):
        function.add_to_role_policy(statement)


def name_scalable_targets(function: Function) -> str:
    """Make the ARN pattern of scalable targets, whose names AWS chooses."""
    return Stack.of(function).format_arn(
        service="application-autoscaling",
        resource="scalable-target",
        resource_name="*",
        arn_format=ArnFormat.SLASH_RESOURCE_NAME,
    )


def allow_scaling(function: Function, common: Common) -> None:
    """Let the function register tables with Application Auto Scaling, whose own role changes their capacity.

    The function needs these rights whatever the configuration says, because it deregisters tables of an earlier
    configuration.
    """
    targets = ["RegisterScalableTarget", "DeregisterScalableTarget", "PutScalingPolicy"]
    function.allow_actions("application-autoscaling", targets, name_scalable_targets(function))
    alarms = Stack.of(function).format_arn(
        service="cloudwatch",
        resource="alarm",
        resource_name=f"TargetTracking-table/{make_table_prefix(common.stage)}*",
        arn_format=ArnFormat.COLON_RESOURCE_NAME,
    )
    function.allow_actions("cloudwatch", ["PutMetricAlarm", "DescribeAlarms", "DeleteAlarms"], alarms)
    service = "dynamodb.application-autoscaling.amazonaws.com"
    allow_linked_role(function, service, "AWSServiceRoleForApplicationAutoScaling_DynamoDBTable")


def allow_linked_role(function: Function, service: str, role: str) -> None:
    """Let the function make the role of an AWS service, which AWS makes with the rights of the first caller."""
    name = f"aws-service-role/{service}/{role}"
    arn = Stack.of(function).format_arn(service="iam", region="", resource="role", resource_name=name)
    conditions = {"StringLike": {"iam:AWSServiceName": service}}
    function.allow_actions("iam", ["CreateServiceLinkedRole"], arn, conditions=conditions)
