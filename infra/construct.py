"""One stage of the pipeline as a construct, for any stack of any app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from aws_cdk import CfnOutput, Stack, Tags
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from .acknowledgements import acknowledge_findings
from .bundles import Bundles
from .checks import check_name, check_own, check_region, check_role, find_stack_offer
from .configuration import Config
from .errors import UsageError
from .function import Code, Common, Function
from .integration import STAGE
from .outputs import name_outputs
from .stage_constructs import External, make_reader, make_stage
from .stage_parts import StageParts

Part = TypeVar("Part")

# The constructs need these flags of the CDK, whatever the app's cdk.json says. Without the first, the request
# validators of two APIs get the same name. Without the second, a bucket that forbids ACLs cannot receive access logs.
# Without the third, policies may exceed IAM's size. Without the fourth, a change of the authorizer alone makes no new
# deployment of the API, and callers still meet the old authorizer.
_FLAGS = (
    "@aws-cdk/aws-apigateway:requestValidatorUniqueId",
    "@aws-cdk/aws-s3:serverAccessLogsUseBucketPolicy",
    "@aws-cdk/aws-iam:minimizePolicies",
    "@aws-cdk/aws-apigateway:authorizerChangeDeploymentLogicalId",
)
# Some Regions refuse tags on event source mappings (aws/aws-cdk#31532 and #31965). AWS lists them as not available in
# China and in GovCloud.
_UNTAGGED = ["AWS::Lambda::EventSourceMapping"]


class Tidetable(Construct):
    """One stage: the API, its functions, the period tables' lifecycle, the archive, alarms and a dashboard.

    ``stage`` is part of the name of every table, so two stages in one account and Region need different names.
    ``local`` is for emulators only. ``bucket`` replaces the stage's own bucket of archives and large values. ``key``
    encrypts the queues and the stage's own bucket. ``alarm_topic`` is notified beside the targets of ``[observability]
    notify``. ``permissions_boundary`` limits every role that the construct makes. ``code`` is for a checkout of the
    project; the installed package has the functions' code. UsageError names the parameter or the key that cannot be
    used.

    With ``role="reader"`` the construct is a reader instead: the API's routes that read, the functions that answer them
    from the copies in its own Region, and their alarms. ``origin`` is then the Region of the stage; ``bucket`` and
    ``key`` are the bucket and the key of the origin.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        stage: str,
        config: Config,
        bucket: s3.IBucket | None = None,
        key: kms.IKey | None = None,
        alarm_topic: sns.ITopic | None = None,
        permissions_boundary: iam.IManagedPolicy | None = None,
        architecture: lambda_.Architecture | None = None,
        code: Code | None = None,
        role: str = "origin",
        origin: str | None = None,
    ) -> None:
        check_name(stage)
        check_own(config.parsed, bucket, key)
        check_role(Stack.of(scope), config.parsed, role, origin)
        super().__init__(scope, id)
        for flag in _FLAGS:
            self.node.set_context(flag, True)
        stack = Stack.of(self)
        check_region(stack, config.parsed, origin or "")
        offer = find_stack_offer(self, config.parsed)
        present = {child.node.id for child in stack.node.children}
        machine = architecture or (lambda_.Architecture.X86_64 if stage == "local" else lambda_.Architecture.ARM_64)
        functions = code or Bundles(config.content, stage, machine)
        self._common = Common(stage, config.parsed, functions, machine, origin or "", offer)
        external = External(bucket, key, alarm_topic)
        made = (
            make_reader(self, self._common, external) if origin else make_stage(self, self._common, external, present)
        )
        self._constructs = made
        # ``"origin"`` for the stage itself, or ``"reader"``; and the name of the stage.
        self.role, self.stage = role, stage
        # For a reader, the Region of its stage; for the stage itself, None.
        self.origin = origin
        # The API, for keys, or for signed requests if ``auth`` is ``"iam"`` alone; and its address, with a slash at its end.
        self.api, self.url = made.api.rest, made.api.rest.url
        # The API for requests that are signed with AWS credentials; None unless ``auth`` has ``"iam"``.
        self.signed_api = made.api.signed or (None if config.parsed.api.by_key else self.api)
        # The first key of callers, which may do everything, and the usage plan of keys without a rate of their own; None
        # unless ``auth`` has ``"api-key"``.
        self.key, self.usage_plan = made.api.key, made.api.plan
        # The bucket of archives and large values.
        self.bucket: s3.IBucket = made.storage.bucket
        # The key of the queues and the stage's own bucket; None if the services use their own keys.
        self.encryption_key = made.storage.key
        # The table that records the period tables; for a reader, the copy of that table in the reader's Region.
        self.catalog: dynamodb.ITable = made.storage.catalog
        # The alarms by their sections of the runbook, such as ``DeadLetters``.
        self.alarms: Mapping[str, cloudwatch.Alarm] = made.alarms.by_name
        # The stage's own topic; None unless ``[observability] notify`` has e-mail addresses.
        self.alarm_topic = made.targets.topic
        outside = [child for child in stack.node.children if child.node.id not in present]
        for construct in (self, *outside):
            for name, value in (("project", "tidetable"), ("stage", stage)):
                Tags.of(construct).add(name, value, exclude_resource_types=_UNTAGGED)
            acknowledge_findings(construct, self._common, self.bucket, self._constructs.own)
            if permissions_boundary is not None:
                iam.PermissionsBoundary.of(construct).apply(permissions_boundary)

    def _find_stage(self, name: str) -> StageParts:
        return self._require_stage(name, self._constructs.own)

    def _require_stage(self, name: str, part: Part | None) -> Part:
        if part is None:
            raise UsageError(f"{name}: a reader does not have it; the stage in {self._common.origin} has it")
        return part

    @property
    def signed_url(self) -> str:
        """The address of ``signed_api``, with a slash at its end; UsageError if the API takes no signed requests."""
        return self._find_signed_api("signed_url").url

    @property
    def rollups_table(self) -> dynamodb.Table:
        """The table of the rollups' state."""
        return self._find_stage("rollups_table").storage.rollups

    @property
    def database(self) -> str:
        """The name of the Glue database of the archive."""
        return self._find_stage("database").lake.name

    @property
    def overflow(self) -> sqs.Queue:
        """The queue of acknowledged events that DynamoDB did not accept in time."""
        return self._find_stage("overflow").ingest.overflow

    @property
    def dead_letters(self) -> sqs.Queue:
        """The queue of acknowledged events that could not be written for half a day."""
        return self._find_stage("dead_letters").ingest.dead_letters

    @property
    def feed_dead_letters(self) -> sqs.Queue:
        """The queue of changes that a target of a feed did not accept."""
        return self._find_stage("feed_dead_letters").feed.dead_letters

    @property
    def work_dead_letters(self) -> sqs.Queue:
        """The queue of messages whose workers died again and again."""
        return self._find_stage("work_dead_letters").work.dead_letters

    @property
    def lifecycle_dead_letters(self) -> sqs.Queue:
        """The queue of failed runs of the lifecycle and of the sweeper."""
        return self._find_stage("lifecycle_dead_letters").lifecycle.dead_letters

    @property
    def functions(self) -> Mapping[str, lambda_.Function]:
        """The functions by the names of their handlers, such as ``ingest`` and ``query``."""
        functions = [construct for construct in self.node.find_all() if isinstance(construct, Function)]
        return {function.handler_name: function for function in functions}

    @property
    def dashboard(self) -> cloudwatch.Dashboard:
        """The dashboard."""
        return self._require_stage("dashboard", self._constructs.dashboard).board

    def grant_write(self, grantee: iam.IGrantable, *streams: str) -> iam.Grant:
        """Let a role or a user send events by signed requests: to these streams, or to all if no stream is named.

        UsageError if the API takes no signed requests, or if there is no such stream.
        """
        self._find_stage("grant_write")
        return self._grant_routes(
            "grant_write", grantee, [("POST", f"/v1/streams/{name}/*") for name in self._find_streams(streams)]
        )

    def grant_read(self, grantee: iam.IGrantable, *streams: str) -> iam.Grant:
        """Let a role or a user list the streams, and query these streams (all if no stream is named) by signed
        requests.

        UsageError if the API takes no signed requests, or if there is no such stream.
        """
        routes = [("GET", f"/v1/streams/{name}/*") for name in self._find_streams(streams)]
        return self._grant_routes("grant_read", grantee, [("GET", "/v1/streams"), *routes])

    def _find_streams(self, streams: tuple[str, ...]) -> tuple[str, ...]:
        known = self._common.config.streams
        for name in streams:
            if name not in known:
                raise UsageError(f"stream {name!r}: the configuration has no such stream; it has: {', '.join(known)}")
        return streams or ("*",)

    def _grant_routes(self, function: str, grantee: iam.IGrantable, routes: list[tuple[str, str]]) -> iam.Grant:
        signed = self._find_signed_api(function)
        arns = [signed.arn_for_execute_api(method, path, STAGE) for method, path in routes]
        return iam.Grant.add_to_principal(grantee=grantee, actions=["execute-api:Invoke"], resource_arns=arns)

    def _find_signed_api(self, function: str) -> apigateway.RestApi:
        signed = self.signed_api
        if signed is None:
            raise UsageError(
                f'{function}: the API takes keys only. Set [api] auth = ["api-key", "iam"] to let roles sign their requests, or'
                " give the caller a key: docs/operate/keys.md"
            )
        return signed

    @property
    def outputs(self) -> Mapping[str, str]:
        """The values with which the command line finds the stage, by the names of their outputs."""
        return name_outputs(self._common, self._constructs, self.functions)

    def add_outputs(self) -> None:
        """Add the outputs with which ``bin/tidetable --stage`` finds a stage. A stack can have only one such stage."""
        for name, value in self.outputs.items():
            CfnOutput(Stack.of(self), name, value=value)
