"""A deployed stage in an AWS account, or in the local emulator: its catalog, its tables and its functions."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import boto3
import msgspec
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, NoRegionError

from aws.dynamodb.beats import LeanBeats
from aws.dynamodb.catalog import LeanCatalog
from aws.dynamodb.credentials import LeanCredentials
from aws.dynamodb.tables import DynamoTables
from aws.http.client import LeanClient
from aws.http.credentials import Credentials, NoCredentials
from aws.http.proxies import find_proxy
from aws.objects import S3Values
from cli.errors import CommandError
from tidetable.large.sweep_ports import Store
from tidetable.names import name_rollups_table
from wiring_upkeep import Upkeep

# A NAT gateway drops a connection that is idle for 350 seconds
# (docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-troubleshooting.html).
_IDLE_SECONDS = 60
# The outputs that the stack of every deployed stage has.
_OUTPUTS = (
    "CatalogTable",
    "LifecycleFunction",
    "ArchiverFunction",
    "RestorerFunction",
    "OverflowQueueUrl",
    "DeadLetterQueueUrl",
)


class AccountError(CommandError):
    """A call to the account failed, or the account has no such stage; the message says what to do."""


@dataclass(frozen=True)
class Account:
    """A deployed stage. ``pipeline`` has its name, its catalog and its tables.

    ``outputs`` are the outputs of its stack: names of functions, addresses of queues, and ids of API Gateway.
    ``functions``, ``queues``, ``metrics`` and ``gateway`` are clients of boto3, and ``session`` is its session.
    ``stored`` lists the bucket. ``make_client`` makes other clients of boto3.
    """

    pipeline: Upkeep
    outputs: Mapping[str, str]
    functions: Any = None
    queues: Any = None
    metrics: Any = None
    gateway: Any = None
    session: Any = None
    stored: Store | None = None
    make_client: Any = None

    def sign_request(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        """Return the headers of a request to the API, signed with the session's credentials."""
        request = AWSRequest(method, url, headers=dict(headers), data=body)
        credentials, region = self.session.get_credentials().get_frozen_credentials(), self.session.region_name
        SigV4Auth(credentials, "execute-api", region).add_auth(request)
        return dict(request.headers.items())

    def run_lifecycle(self, **payload: Any) -> dict[str, Any]:
        """Invoke the lifecycle and return its report."""
        return self._invoke_function("the lifecycle", "LifecycleFunction", payload)

    def archive_period(self, stream: str, period: str) -> dict[str, Any]:
        """Invoke the archiver for one period. AccountError says why the period cannot be archived now."""
        task = f"archiving {stream} {period}"
        answer = self._invoke_function(task, "ArchiverFunction", {"stream": stream, "period": period})
        if answer["state"] == "busy":
            raise AccountError(f"{task} has to wait: {answer['reason']}")
        return answer

    def rewrite_archive(self, stream: str, period: str, *, dry_run: bool) -> dict[str, Any]:
        """Invoke the archiver to rewrite an archive. AccountError says why it cannot be rewritten now."""
        task = f"rewriting {stream} {period}"
        payload = {"stream": stream, "period": period, "rewrite": True, "dry_run": dry_run}
        answer = self._invoke_function(task, "ArchiverFunction", payload)
        if answer["state"] == "busy":
            raise AccountError(f"{task} has to wait: {answer['reason']}")
        return answer

    def pause_archiving(self, stream: str, *, on: bool) -> None:
        """Let the archiving of a stream rest, or go on."""
        task = "letting the archives rest" if on else "letting the archives go on"
        self._invoke_function(task, "ArchiverFunction", {"pause" if on else "resume": stream})

    def run_restorer(self, **payload: Any) -> dict[str, Any]:
        """Invoke the restorer and return its answer."""
        return self._invoke_function("the restorer", "RestorerFunction", payload)

    def finish_import(self, stream: str, period: str, order: Any) -> dict[str, Any]:
        """Invoke the restorer to let the files of an import count; without a token it only looks at the period."""
        payload = {"stream": stream, "period": period, "import": msgspec.to_builtins(order)}
        return self._invoke_function(f"importing into {stream} {period}", "RestorerFunction", payload)

    def sweep_objects(self, *, dry_run: bool, position: Any = None) -> dict[str, Any]:
        """Invoke the sweeper and return its report. A dry run goes on at the ``position`` of an unfinished one."""
        where = {} if position is None else {"position": position}
        return self._invoke_function("the sweep", "SweeperFunction", {"dry_run": dry_run, **where})

    def redeliver_changes(self, stream: str, target: str, changes: list[str]) -> None:
        """Invoke the feed for the changes of one dead letter."""
        payload = {"feed": stream, "target": target, "changes": changes}
        self._invoke_function(f"sending changes of {stream} again", "FeedFunction", payload)

    def run_refresher(self, **payload: Any) -> dict[str, Any]:
        """Invoke the refresher of rollups and return its answer."""
        if "RefresherFunction" not in self.outputs:
            raise AccountError("no stream of this stage has rollups: add [[streams.NAME.rollup]] and deploy")
        return self._invoke_function("the refresher", "RefresherFunction", payload)

    def _invoke_function(self, task: str, output: str, payload: dict[str, Any]) -> dict[str, Any]:
        """Call the function of an output; AccountError names its ``task``, as users do not know its generated name."""
        try:
            answer = self.functions.invoke(FunctionName=self.outputs[output], Payload=json.dumps(payload).encode())
            body: dict[str, Any] = json.loads(answer["Payload"].read() or b"null")
        except (ClientError, BotoCoreError) as error:
            raise AccountError(f"{task} could not be called: {error}") from error
        if "FunctionError" in answer:
            raise AccountError(f"{task} failed: {body.get('errorMessage', body)}")
        return body


def name_stack(stage: str) -> str:
    """Name a stage's CloudFormation stack. TIDETABLE_STACK names the stack if it belongs to another app."""
    return os.environ.get("TIDETABLE_STACK") or f"Tidetable-{stage}"


def read_stack(cloudformation: Any, stage: str) -> tuple[dict[str, str], str]:
    """Read the outputs and the status of a stage's stack."""
    (stack,) = cloudformation.describe_stacks(StackName=name_stack(stage))["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    return outputs, stack["StackStatus"]


def connect(
    stage: str, *, endpoint: str | None = None, profile: str | None = None, region: str | None = None
) -> Account:
    """Find a stage's stack and its functions; AccountError names the missing part."""
    try:
        session = boto3.Session(profile_name=profile, region_name=region)
        # A run may take five minutes, an archive fifteen.
        patient = Config(read_timeout=910, retries={"total_max_attempts": 1}, tcp_keepalive=True)
        make = partial(session.client, endpoint_url=endpoint)
        outputs, status = read_stack(make("cloudformation"), stage)
        functions = make("lambda", config=patient)
        queues, metrics, gateway = make("sqs"), make("cloudwatch"), make("apigateway")
        # A local stage may keep its tables in another engine.
        tables = os.environ.get("AWS_ENDPOINT_URL_DYNAMODB") or endpoint
        dynamodb: Any = session.client("dynamodb", endpoint_url=tables)
    except NoRegionError as error:
        raise AccountError("no Region is known: add --region, or set AWS_REGION") from error
    except NoCredentialsError as error:
        raise AccountError("there are no AWS credentials: set them in the environment, or add --profile") from error
    except (ClientError, BotoCoreError) as error:
        why = str(error).rstrip(".")
        raise AccountError(
            f"stage {stage!r} could not be reached: {why}. Is it deployed (make deploy STAGE={stage}), and are "
            "credentials and Region those of its account?"
        ) from error
    except ValueError as error:
        raise AccountError(f"{error}: write such as http://127.0.0.1:4566 into AWS_ENDPOINT_URL_DYNAMODB") from error
    missing = [name for name in _OUTPUTS if name not in outputs]
    if missing:
        if "Origin" in outputs:
            raise AccountError(
                f"stage {stage!r} is here a reader of {outputs['Origin']}: add --region {outputs['Origin']}"
            )
        raise AccountError(
            f"the stack {name_stack(stage)} is {status} and has no output {missing[0]}: it is not a"
            " deployed stage, or its first deployment is not done"
        )
    try:
        lean = make_lean_client(session, dynamodb)
    except ValueError as error:
        raise AccountError(str(error)) from error
    _keep_connected(functions)
    catalog = outputs["CatalogTable"]
    pipeline = Upkeep(
        stage=stage,
        catalog=LeanCatalog(lean, catalog),
        tables=DynamoTables(dynamodb),
        keys=LeanCredentials(lean, catalog),
        beats=LeanBeats(lean, name_rollups_table(stage)),
        mappings=None,
        catalog_table=catalog,
    )
    stored = S3Values(lambda: make("s3"), outputs.get("ArchiveBucket", ""))
    return Account(pipeline, outputs, functions, queues, metrics, gateway, session, stored, make)


def _keep_connected(client: Any) -> None:
    """Send a keep-alive packet after each idle minute. With only the option ``tcp_keepalive``, Linux sends the first
    packet after two hours.

    botocore has no setting for the interval; it reads its list of socket options for every new connection.
    """
    idle = getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE", None)
    if idle is not None:
        options = client._endpoint.http_session._socket_options  # noqa: SLF001 - see above
        options.append((socket.IPPROTO_TCP, idle, _IDLE_SECONDS))


def find_credentials(session: Any) -> Credentials:
    """Find the present credentials of a session of boto3: of the environment, a profile, a role or a sign-in. boto3 renews
    them. NoCredentials says why there are none.
    """
    try:
        found = session.get_credentials()
        if found is None:
            raise NoCredentials("there are no AWS credentials: set them in the environment, or add --profile")
        return Credentials(*found.get_frozen_credentials()[:3])
    # botocore raises RuntimeError for credentials that are still expired after they were refreshed.
    except (BotoCoreError, ClientError, RuntimeError) as error:
        raise NoCredentials(str(error)) from error


def make_lean_client(session: Any, dynamodb: Any) -> LeanClient:
    """Make the client with the settings of boto3's client ``dynamodb``, which the same session has made.

    boto3 finds the endpoint: by an address, the profile, or its switches for FIPS and dual stack. ValueError names a
    proxy or a file of certificates that cannot be used.
    """
    endpoint = dynamodb.meta.endpoint_url
    authorities = session._session.get_config_variable("ca_bundle")  # noqa: SLF001 - boto3 has no other way to read it
    credentials = partial(find_credentials, session)
    return LeanClient(
        endpoint, dynamodb.meta.region_name, credentials, proxy=find_proxy(endpoint), authorities=authorities
    )
