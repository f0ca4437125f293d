"""The findings of cdk-nag's AwsSolutions rules that the stack accepts, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Acknowledgment, CfnElement, Stack, Token, Validations
from aws_cdk import aws_s3 as s3
from constructs import IConstruct

from tidetable.names import make_table_prefix, name_lake_database

from .function import Common
from .naming import name_catalog_table
from .stage_parts import StageParts

_BY_KEY_OR_SIGNATURE = (
    'A Lambda authorizer checks keys or, with auth = "iam", IAM checks signatures; callers are programs, which have no'
    " user pool"
)
_REASONS: dict[str, str] = {
    "APIG2": "Bodies are validated by the function, event by event: one bad event must not refuse the others",
    "APIG3": "A web ACL costs by the month and by the request, and its rules are the account's; attach one to the stage",
    "APIG4": _BY_KEY_OR_SIGNATURE,
    "COG4": _BY_KEY_OR_SIGNATURE,
    "L1": "The bundled wheels are built for Python 3.13; the runtime changes with them, not with the newest runtime",
    "SQS3": "These queues are the dead-letter queues",
    "IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]": (
        "The CDK's provider framework brings this role for its own function, which only logs and calls ours"
    ),
    "IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs]": (
        "API Gateway's account-wide logging role is defined by AWS as this policy"
    ),
}
_BARE = (
    "A condition limits changes of event source mappings to the feed's function; IAM cannot limit the lists of mappings and"
    " of streams to resources"
)
_VERSIONS = "Any version of the one function that the role may call"
_METRICS = "IAM cannot limit the right to read metrics to some of them"


def acknowledge_findings(scope: IConstruct, common: Common, bucket: s3.IBucket, parts: StageParts | None) -> None:
    """Record on the construct the reasons for the rules above, and for the wildcards that its roles need.

    ``parts`` is None for a reader, whose bucket is that of its stage. The bare wildcard is accepted only for roles that
    change event source mappings or read metrics: elsewhere it is a finding.
    """
    stack = Stack.of(scope)
    # The rules write placeholders such as <AWS::Region> for values that CloudFormation fills in.
    region = "<AWS::Region>" if Token.is_unresolved(stack.region) else stack.region
    account = "<AWS::AccountId>" if Token.is_unresolved(stack.account) else stack.account
    prefix = make_table_prefix(common.stage)
    tables = f"arn:<AWS::Partition>:dynamodb:{region}:{account}:table/{prefix}*"
    # Empty if the name of a reader's bucket is not known yet.
    named = "" if Token.is_unresolved(bucket.bucket_name) else f"arn:<AWS::Partition>:s3:::{bucket.bucket_name}"
    objects = f"<{_find_id(bucket)}.Arn>" if parts is not None else named
    targets = f"arn:<AWS::Partition>:application-autoscaling:{region}:{account}:scalable-target/*"
    alarms = f"arn:<AWS::Partition>:cloudwatch:{region}:{account}:alarm:TargetTracking-table/{prefix}*"
    lake = f"arn:<AWS::Partition>:glue:{region}:{account}:table/{name_lake_database(common.stage)}/*"
    reasons = _REASONS | {
        f"IAM5[Resource::{tables}]": "Period tables come and go by themselves; their common prefix is this stage's alone",
        f"IAM5[Resource::{targets}]": "The names of scalable targets are AWS's own",
        f"IAM5[Resource::{alarms}]": "Application Auto Scaling's alarms for period tables carry their names",
        f"IAM5[Resource::{lake}]": "Iceberg tables come and go with streams, in the database of this stage alone",
        f"IAM5[Resource::{objects}/stream=*]": "The archive's objects, under the one prefix that it uses",
        f"IAM5[Resource::{objects}/stream=*/_manifest*.json]": "The manifests of archives, under the one prefix that they use",
        f"IAM5[Resource::{objects}/iceberg/*]": "The metadata of Iceberg tables, under the one prefix that they use",
        f"IAM5[Resource::{objects}/large/*]": "Large values, under the one prefix that they use",
        f"IAM5[Resource::{objects}/overflow/*]": "Messages too large for their queue, under their one prefix",
        f"IAM5[Resource::{objects}/saved/*]": "Messages too old for their queue, under their one prefix",
        f"IAM5[Resource::{objects}/listings/*]": "Names of listings between two pages, under their one prefix",
    }
    if parts is not None and common.config.has_had_copies:
        for place in (*common.config.replicas, "*"):
            copied = f"arn:<AWS::Partition>:dynamodb:{place}:{account}:table/{prefix}*"
            reasons[f"IAM5[Resource::{copied}]"] = "Copies of period tables come and go with them, under the same names"
        mirrored = f"arn:<AWS::Partition>:application-autoscaling:*:{account}:scalable-target/*"
        reasons[f"IAM5[Resource::{mirrored}]"] = "The names of scalable targets are AWS's own, in a copy's Region, too"
        catalog = f"arn:<AWS::Partition>:dynamodb:*:{account}:table/{name_catalog_table(common.stage)}"
        reasons[f"IAM5[Resource::{catalog}]"] = (
            "The catalog keeps its copies in Regions that no stream names any longer"
        )
    # Without tracing no role needs this wildcard, and acknowledging it anyway would hide any other wildcard.
    if common.config.observability.tracing:
        reasons["IAM5[Resource::*]"] = "IAM cannot limit X-Ray's write actions to resources"
    if parts is not None:
        lifecycle, refreshing = parts.lifecycle, [parts.rollups.function] if parts.rollups is not None else []
        called = [lifecycle.function, lifecycle.deployment, lifecycle.sweeper, lifecycle.lake, lifecycle.restorer]
        called += [parts.ingest.drain, *refreshing]
        reasons |= {f"IAM5[Resource::<{_find_id(function)}.Arn>:*]": _VERSIONS for function in called}
    _acknowledge(scope, reasons)
    if parts is None:
        return
    if parts.console is not None:
        listed = f"arn:<AWS::Partition>:cloudwatch:{region}:{account}:alarm:*"
        listing = "CloudWatch lists alarms by the beginning of their names, which no resource says"
        _acknowledge(
            parts.console.operations.role, {f"IAM5[Resource::{listed}]": listing, "IAM5[Resource::*]": _METRICS}
        )
    for function in (parts.feed.function, lifecycle.function, lifecycle.deployment):
        _acknowledge(function.role, {"IAM5[Resource::*]": _BARE})


def _acknowledge(scope: IConstruct | None, reasons: Mapping[str, str]) -> None:
    if scope is not None:
        for rule, reason in reasons.items():
            Validations.of(scope).acknowledge(Acknowledgment(id=f"AwsSolutions::AwsSolutions-{rule}", reason=reason))


def _find_id(construct: IConstruct) -> str:
    child = construct.node.default_child
    return Stack.of(construct).get_logical_id(child) if isinstance(child, CfnElement) else ""
