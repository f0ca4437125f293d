"""The construct of the project's Lambda functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from tidetable.config import Config
from tidetable.config.regions import Offer
from tidetable.names import name_service

from . import allocator
from .naming import name_catalog_table

METRICS_NAMESPACE = "Tidetable"
# The bundles of code: of the functions on the hot path, of those that write and read Parquet, of the doors, of the Iceberg
# tables, and of the function that serves the console.
Kind = Literal["slim", "archive", "doors", "iceberg", "console"]


class Code(Protocol):
    """The code of the functions, as assets."""

    def make_code(self, kind: Kind) -> lambda_.Code:
        """Return the asset of a bundle."""


class Size(NamedTuple):
    """The bundle of a function, the seconds until its time-out, and its memory in MB.

    ``serves`` is true for functions that serve callers: a flood of requests must not use up the executions of the
    account's other functions, such as the drain. ``snapshot`` is true for functions that start from a snapshot if
    ``[api] snap_start`` says so.
    """

    kind: Kind
    seconds: int
    memory: int
    serves: bool = False
    snapshot: bool = False

    @property
    def environment(self) -> Mapping[str, str]:
        """The settings of the allocator, for functions that serve events."""
        return allocator.ENVIRONMENT if self.serves and self.snapshot else {}


_PROCESSOR = 1769  # MB of memory that come with a whole processor
# The sizes of the functions, by the names of their handlers.
SIZES = {
    "ingest": Size("slim", 28, 512, serves=True, snapshot=True),
    "drain": Size("slim", 60, 1024),  # 6 MB of messages, decoded
    "query": Size("slim", 28, 1024, serves=True, snapshot=True),
    "archive_reader": Size("archive", 25, _PROCESSOR),  # for decompression
    # A hostile message of 4 MB takes 280 MB when it is parsed.
    "doors": Size("doors", 28, 1024, serves=True, snapshot=True),
    # The gateway gives up after 30 seconds, so the function must end earlier.
    "authorizer": Size("slim", 25, 512, snapshot=True),
    # The functions of the console start without a snapshot: they are called a few times a day, and their snapshots
    # would cost $8 per month.
    "console": Size("console", 10, 256),
    "operations": Size("slim", 28, _PROCESSOR, serves=True),  # pricing a load takes some seconds
    "lifecycle": Size("slim", 300, 512),
    # Within the 15 minutes of the provider's own function.
    "deployment": Size("slim", 840, 512),
    # A worker reads a segment on a whole core, and ends after five minutes; another one goes on.
    "archiver": Size("archive", 300, _PROCESSOR),
    # The memory that a file of 128 MB and its rows need.
    "restorer": Size("archive", 300, 3008),
    "sweeper": Size("slim", 900, 512),
    "lake": Size("iceberg", 300, 1024),
    # The lease of a run that died ends soon after this time. The memory is for the sketches of a bucket's groups.
    "refresher": Size("slim", 300, _PROCESSOR),
    # The feed calls a target that is a function up to three times, and waits for each answer for a minute.
    "feed": Size("slim", 300, 512),
}


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
    code: Code
    architecture: lambda_.Architecture = lambda_.Architecture.ARM_64
    # For a reader, the Region of its stage; empty for the stage itself.
    origin: str = ""
    # What the Region of the stack offers.
    offer: Offer = field(default_factory=Offer)


class Function(lambda_.Function):
    """A function with its own log group and its own role, of the size that ``SIZES`` has for its handler.

    The role may only write to the log group until ``allow_actions`` adds rights.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        common: Common,
        handler: str,
        environment: Mapping[str, str] | None = None,
        *,
        dead_letters: lambda_.IDestination | None = None,
    ) -> None:
        observability, size = common.config.observability, SIZES[handler]
        snapshot = size.snapshot and common.config.api.snap_start
        group = make_logs(scope, f"{id}Logs", common)
        role = iam.Role(scope, f"{id}Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        group.grant_write(role)
        super().__init__(
            scope,
            id,
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=common.architecture,
            handler=f"handlers.{handler}.handler",
            code=common.code.make_code(size.kind),
            role=role,
            log_group=group,
            **_find_logging(common),
            timeout=Duration.seconds(size.seconds),
            memory_size=size.memory,
            tracing=lambda_.Tracing.ACTIVE if observability.tracing else lambda_.Tracing.DISABLED,
            on_failure=dead_letters,
            reserved_concurrent_executions=common.config.api.concurrency if size.serves else None,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if snapshot else None,
            retry_attempts=0 if dead_letters is not None else None,
            environment={
                "TIDETABLE_STAGE": common.stage,
                "TIDETABLE_CATALOG_TABLE": name_catalog_table(common.stage),
                # The only dimension of the metrics. It contains the stage, so the metrics of two stages do not mix.
                "POWERTOOLS_SERVICE_NAME": name_service(common.stage, handler),
                "POWERTOOLS_METRICS_NAMESPACE": METRICS_NAMESPACE,
                "POWERTOOLS_LOG_LEVEL": observability.log_level,
                **({"TIDETABLE_ORIGIN": common.origin} if common.origin else {}),
                **size.environment,
                **(environment or {}),
            },
        )

        self.handler_name = handler
        # SnapStart works for published versions only. Callers reach the published version by an alias.
        self.entry: lambda_.IFunction = (
            lambda_.Alias(scope, f"{id}Live", alias_name="live", version=self.current_version) if snapshot else self
        )

    def allow_actions(
        self, service: str, actions: Sequence[str], *resources: str, conditions: Mapping[str, Any] | None = None
    ) -> None:
        """Let the function do these actions of a service, such as ``dynamodb``, on these resources."""
        names = [f"{service}:{action}" for action in actions]
        self.add_to_role_policy(iam.PolicyStatement(actions=names, resources=list(resources), conditions=conditions))

    def receive_messages(self, id: str, queue: sqs.IQueue, *, batch_size: int, most: int) -> lambda_.EventSourceMapping:
        """Let Lambda call the function with messages of a queue, in ``most`` executions at the same time.

        The CDK's ``SqsEventSource`` would also allow the function to decrypt with the queue's key without SQS.
        """
        takes = ["ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes", "GetQueueUrl"]
        self.allow_actions("sqs", takes, queue.queue_arn)
        return self.add_event_source_mapping(
            id,
            event_source_arn=queue.queue_arn,
            batch_size=batch_size,
            max_concurrency=most,
            # AWS: batches of more than ten messages need a second to gather them.
            max_batching_window=Duration.seconds(1) if batch_size > 10 else None,
            report_batch_item_failures=True,
        )

    def schedule_runs(
        self, scope: Construct, id: str, every: Duration, description: str, dead_letters: sqs.IQueue | None = None
    ) -> scheduler.Schedule:
        """Let a schedule call the function. A call that is late gives way to the next.

        With a queue of ``dead_letters``, a run that fails is repeated, and then reported there. Without one, the next
        run does the work of a lost run.
        """
        return scheduler.Schedule(
            scope,
            id,
            description=description,
            schedule=scheduler.ScheduleExpression.rate(every),
            target=targets.LambdaInvoke(
                self,
                dead_letter_queue=dead_letters,
                input=scheduler.ScheduleTargetInput.from_object({"source": "schedule"}),
                retry_attempts=2 if dead_letters is not None else 0,
                max_event_age=every,
            ),
        )


def make_logs(scope: Construct, id: str, common: Common, **options: Any) -> logs.LogGroup:
    """Make a log group that keeps its lines for the configured days, and that is deleted with the stack."""
    group = logs.LogGroup(scope, id, removal_policy=RemovalPolicy.DESTROY, **options)
    resource = group.node.default_child
    if isinstance(resource, logs.CfnLogGroup):
        # The CDK has a name for each number of days that CloudWatch takes, such as EIGHTEEN_MONTHS for 545.
        resource.retention_in_days = common.config.observability.log_retention_days
    return group


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
