"""Rights on period tables.

The lifecycle creates and deletes the tables, so the rights use the prefix of their names.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidetable.names import make_table_prefix

from .function import Common, Function
from .kms import TABLE_USES, make_key_statements
from .naming import make_arn, name_period_tables


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


def allow_scaling(function: Function, common: Common) -> None:
    """Let the function register tables with Application Auto Scaling, whose own role changes their capacity.

    The function needs these rights whatever the configuration says, because it deregisters tables of an earlier
    configuration.
    """
    # AWS chooses the names of scalable targets.
    scalable = make_arn(function, "application-autoscaling", "scalable-target", "*")
    targets = ["RegisterScalableTarget", "DeregisterScalableTarget", "PutScalingPolicy"]
    function.allow_actions("application-autoscaling", targets, scalable)
    alarms = make_arn(function, "cloudwatch", "alarm", f"TargetTracking-table/{make_table_prefix(common.stage)}*")
    function.allow_actions("cloudwatch", ["PutMetricAlarm", "DescribeAlarms", "DeleteAlarms"], alarms)
    service = "dynamodb.application-autoscaling.amazonaws.com"
    allow_linked_role(function, service, "AWSServiceRoleForApplicationAutoScaling_DynamoDBTable")


def allow_linked_role(function: Function, service: str, role: str) -> None:
    """Let the function make the role of an AWS service, which AWS makes with the rights of the first caller."""
    name = f"aws-service-role/{service}/{role}"
    arn = make_arn(function, "iam", "role", name, region="")
    conditions = {"StringLike": {"iam:AWSServiceName": service}}
    function.allow_actions("iam", ["CreateServiceLinkedRole"], arn, conditions=conditions)
