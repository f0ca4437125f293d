"""The construct of the project's Lambda functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from tidetable.config import Config
from tidetable.config.regions import Offer
from tidetable.names import name_service

from .naming import name_catalog_table

METRICS_NAMESPACE = "Tidetable"


def make_own_metric(stage: str, handler: str, name: str, statistic: str = "Sum") -> cloudwatch.Metric:
    """Make a metric that a function publishes itself."""
    dimensions = {"service": name_service(stage, handler)}
    return cloudwatch.Metric(
        namespace=METRICS_NAMESPACE, metric_name=name, dimensions_map=dimensions, statistic=statistic
    )


@dataclass(frozen=True)
class Common:
    """The settings that all functions of a stage share."""

    stage: str
    config: Config
    architecture: lambda_.Architecture = lambda_.Architecture.ARM_64
    # For a reader, the Region of its stage; empty for the stage itself.
    origin: str = ""
    # What the Region of the stack offers.
    offer: Offer = field(default_factory=Offer)


class Function(lambda_.Function):
    """A function with its own log group and its own role.

    The role may only write to the log group until ``allow`` adds rights.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        common: Common,
        *,
        handler: str,
        code: lambda_.Code,
        timeout: Duration,
        memory: int,
        environment: Mapping[str, str] | None = None,
        dead_letters: lambda_.IDestination | None = None,
        snap_start: bool = False,
        answers: bool = False,
    ) -> None:
        observability = common.config.observability
        group = logs.LogGroup(
            scope,
            f"{id}Logs",
            retention=convert_retention(observability.log_retention_days),
            removal_policy=RemovalPolicy.DESTROY,
        )
        role = iam.Role(scope, f"{id}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        group.grant_write(role)
        super().__init__(
            scope,
            id,
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=common.architecture,
            handler=f"handlers.{handler}.handler",
            code=code,
            role=role,
            log_group=group,
            **_find_logging(common),
            timeout=timeout,
            memory_size=memory,
            tracing=lambda_.Tracing.ACTIVE if observability.tracing else lambda_.Tracing.DISABLED,
            on_failure=dead_letters,
            # Such a function serves callers. A flood of them must not use up the executions of the account's other
            # functions, such as the drain.
            reserved_concurrent_executions=common.config.api.concurrency if answers else None,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if snap_start else None,
            retry_attempts=0 if dead_letters is not None else None,
            environment={
                "TIDETABLE_STAGE": common.stage,
                "TIDETABLE_CATALOG_TABLE": name_catalog_table(common.stage),
                # The only dimension of the metrics. It contains the stage, so the metrics of two stages do not mix.
                "POWERTOOLS_SERVICE_NAME": name_service(common.stage, handler),
                "POWERTOOLS_METRICS_NAMESPACE": METRICS_NAMESPACE,
                "POWERTOOLS_LOG_LEVEL": observability.log_level,
                **({"TIDETABLE_ORIGIN": common.origin} if common.origin else {}),
                **(environment or {}),
            },
        )

        self.handler_name = handler
        # SnapStart works for published versions only. Callers reach the published version by an alias.
        self.entry: lambda_.IFunction = (
            lambda_.Alias(scope, f"{id}Live", alias_name="live", version=self.current_version) if snap_start else self
        )

    def allow_actions(
        self, actions: Sequence[str], *resources: str, conditions: Mapping[str, Any] | None = None
    ) -> None:
        """Let the function do these actions on these resources."""
        self.add_to_role_policy(
            iam.PolicyStatement(actions=list(actions), resources=list(resources), conditions=conditions)
        )


def _find_logging(common: Common) -> dict[str, Any]:
    """Find the format and the levels of a function's log.

    START, END and REPORT lines are half of what a small request logs, and nothing reads them. Level WARN leaves out
    these lines of successful calls; time-outs and crashes stay. Only JSON logs have levels. Lambda passes on lines that
    are JSON already. ``application`` is never above INFO: Lambda counts lines without a level as INFO, among them the
    metrics. https://docs.aws.amazon.com/lambda/latest/dg/monitoring-cloudwatchlogs-log-level.html
    """
    if not common.offer.log_levels:
        return {}
    is_debug = common.config.observability.log_level == "DEBUG"
    application, system = lambda_.ApplicationLogLevel, lambda_.SystemLogLevel
    return {
        "logging_format": lambda_.LoggingFormat.JSON,
        "application_log_level_v2": application.DEBUG if is_debug else application.INFO,
        "system_log_level_v2": system.INFO if is_debug else system.WARN,
    }


def convert_retention(days: int) -> logs.RetentionDays:
    """Convert a log group's retention in days to the CDK's name."""
    return logs.RetentionDays[_RETENTION[days]]


_RETENTION = {
    1: "ONE_DAY",
    3: "THREE_DAYS",
    5: "FIVE_DAYS",
    7: "ONE_WEEK",
    14: "TWO_WEEKS",
    30: "ONE_MONTH",
    60: "TWO_MONTHS",
    90: "THREE_MONTHS",
    120: "FOUR_MONTHS",
    150: "FIVE_MONTHS",
    180: "SIX_MONTHS",
    365: "ONE_YEAR",
    400: "THIRTEEN_MONTHS",
    545: "EIGHTEEN_MONTHS",
    731: "TWO_YEARS",
    1096: "THREE_YEARS",
    1827: "FIVE_YEARS",
    2192: "SIX_YEARS",
    2557: "SEVEN_YEARS",
    2922: "EIGHT_YEARS",
    3288: "NINE_YEARS",
    3653: "TEN_YEARS",
}
