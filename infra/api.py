"""The HTTP API: its routes, their authorization and their limits, and the gateway's own errors in the API's form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from aws_cdk import RemovalPolicy, Size
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_logs as logs
from constructs import Construct

from tidetable.problems import Problem

from .access_log import ACCESS_FORMAT, make_access_log
from .authorizer import CredentialAuthorizer
from .console import OPERATED
from .copies import Copied
from .cors import allow_preflights, make_gateway_headers
from .function import Common
from .integration import STAGE, add_routes
from .query import Query
from .stage_parts import StageParts
from .storage import Storage

# A smaller answer fits into one packet without compression, and compression may make it larger.
_COMPRESSED_FROM = Size.kibibytes(1)
# The limits (requests per second, burst) of routes that anybody may call. They need limits, because each call runs a
# function. A browser that opens the console for the first time asks for some 25 files at once.
_PROBES, _PAGE = (2, 10), (20, 100)
# The limits of routes that call AWS for each request: a bill reads up to 2,000 metrics, which cost $0.02.
_COST, _OPERATED = (1, 10), (5, 20)

_HEALTH, _STREAM = ("GET", "/v1/health"), "/v1/streams/{stream}"
# The routes that the query function answers with GET.
_READ = (
    "/v1/streams",
    *(f"{_STREAM}/{name}" for name in ("periods", "latest", "top", "aggregate", "events", "events/{ref}")),
    *(f"{_STREAM}/{name}" for name in ("series", "fields", "fields/{field}/values")),
)

# Metrics per route and method cost up to $13.50 per month; the alarms use the stage's metrics, which are free.
_LOGGING: dict[str, Any] = {
    "metrics_enabled": False, "logging_level": apigateway.MethodLoggingLevel.ERROR, "data_trace_enabled": False,
}  # fmt: skip
_Answer = apigateway.ResponseType
# The gateway's own answers as problem details: (kind of answer, status, code, remedy).
_PROBLEMS: list[tuple[apigateway.ResponseType, int, str, str]] = [
    (_Answer.BAD_REQUEST_BODY, 400, "bad_request", "The body is not valid."),
    (_Answer.BAD_REQUEST_PARAMETERS, 400, "bad_request", "The parameters are not valid."),
    (_Answer.UNAUTHORIZED, 401, "unauthorized", "Sign the request, or send a valid key."),
    (
        _Answer.ACCESS_DENIED,
        403,
        "forbidden",
        "Send one valid key that may call this route: as x-api-key, or as Authorization: Bearer, Token or Basic.",
    ),
    (_Answer.INVALID_API_KEY, 403, "forbidden", "This key is new or was revoked: try in a minute."),
    (_Answer.INVALID_SIGNATURE, 403, "forbidden", "The request's signature is not valid."),
    (_Answer.EXPIRED_TOKEN, 403, "forbidden", "The request's credentials have expired."),
    (_Answer.MISSING_AUTHENTICATION_TOKEN, 403, "forbidden", "No such route, or no credentials."),
    (_Answer.RESOURCE_NOT_FOUND, 404, "not_found", "There is no such route."),
    (_Answer.WAF_FILTERED, 403, "forbidden", "The API's firewall refuses this request."),
    (_Answer.REQUEST_TOO_LARGE, 413, "too_large", "Send fewer events per request."),
    (_Answer.UNSUPPORTED_MEDIA_TYPE, 415, "unsupported_media_type", "Send JSON or NDJSON, plain or gzip."),
    (_Answer.THROTTLED, 429, "throttled", "Slow down and send the request again."),
    (_Answer.QUOTA_EXCEEDED, 429, "throttled", "The key's quota is used up."),
    (_Answer.AUTHORIZER_FAILURE, 503, "unavailable", "Send the request again, which is harmless."),
    (_Answer.INTEGRATION_TIMEOUT, 504, "timeout", "Send the request again, which is harmless."),
    (_Answer.INTEGRATION_FAILURE, 503, "unavailable", "Send the request again, which is harmless."),
    (_Answer.DEFAULT_5_XX, 500, "internal", "Send the request again, which is harmless."),
]
# API Gateway Developer Guide, "Security policies for REST APIs". Both policies also take TLS 1.3.
_TLS_POLICIES = {"1.2": "SecurityPolicy_TLS13_1_2_2021_06", "1.3": "SecurityPolicy_TLS13_1_3_2025_09"}
_RETRY_AFTER = {429: "1", 500: "5", 503: "5", 504: "5"}


class Api(Construct):
    """REST APIs in front of the ingest and the query function: ``rest``, and ``signed`` if callers may use keys and signatures.

    A method of a REST API has one type of authorization, so keys and signatures together need two APIs. The API of a
    reader has no ``parts`` of a stage: so it has no routes that write, and no first key, as it accepts the keys of the
    stage.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        common: Common,
        *,
        query: Query,
        storage: Storage | Copied,
        parts: StageParts | None = None,
    ) -> None:
        super().__init__(scope, id)
        policy = common.config.api
        self._common = common
        self._query, self._parts = query.function.entry, parts
        self._doors = parts.doors if parts is not None else None
        self._console = parts.console if parts is not None else None
        self._headers = {"X-Content-Type-Options": "'nosniff'", **make_gateway_headers(policy.cors)}
        access = make_access_log(self, common)
        self.keys = CredentialAuthorizer(self, "Keys", common, storage) if policy.by_key else None
        self.rest = self._make_api("Rest", f"tidetable-{common.stage}", access, self.keys)
        self.key: apigateway.IApiKey | None = None
        self.plan: apigateway.UsagePlan | None = None
        if self.keys is not None and parts is not None:
            self.key, self.plan = self._add_first_key(policy.rate_per_key, policy.burst_per_key)
            # API Gateway's stage serves the methods that ask the authorizer. The authorizer must know the key by then.
            self.rest.deployment_stage.node.add_dependency(self.keys.admit_first(self.key, parts.lifecycle))
        self.signed: apigateway.RestApi | None = None
        if policy.by_key and policy.by_signature:
            # CloudWatch counts by the API's name. The dot keeps it apart from the API of a stage "<stage>-signed".
            self.signed = self._make_api("Signed", f"tidetable-{common.stage}.signed", access, None)
            # The first API sets the account's role for API Gateway: with this role the gateway writes logs. The second
            # API begins after the stage of the first. If each resource of the second API waited for each resource of
            # the first, the template would be larger than CloudFormation's 1,000,000 bytes.
            self.signed.node.find_child("Resource").node.add_dependency(self.rest.deployment_stage)

    def _make_api(
        self, id: str, name: str, access: logs.LogGroup, keys: CredentialAuthorizer | None
    ) -> apigateway.RestApi:
        """Make an API whose callers send keys. If ``keys`` is None, the callers sign their requests."""
        policy = self._common.config.api
        own_role = policy.logging_role == "stage" and id == "Rest"
        rest = apigateway.RestApi(
            self,
            id,
            rest_api_name=name,
            description="Tidetable: time-series events in and out",
            endpoint_types=[apigateway.EndpointType.REGIONAL],
            # The gateway passes every body as bytes, so that gzip arrives unchanged with any Content-Type.
            binary_media_types=["*/*"],
            min_compression_size=_COMPRESSED_FROM,
            # The authorizer names the gateway's key for which a request counts, in whatever header the caller sent its
            # own key.
            api_key_source_type=apigateway.ApiKeySourceType.AUTHORIZER
            if keys is not None and not self._common.origin
            else None,
            # The account has one role per Region for the logs of all its APIs, and a stage with logs needs it. The role
            # is kept when the stack is deleted, as other APIs may use it by then; its generated name collides with no
            # other role.
            cloud_watch_role=own_role,
            cloud_watch_role_removal_policy=RemovalPolicy.RETAIN if own_role else None,
            deploy_options=apigateway.StageOptions(
                stage_name=STAGE,
                throttling_rate_limit=policy.rate,
                throttling_burst_limit=policy.burst,
                tracing_enabled=self._common.config.observability.tracing,
                **_LOGGING,
                access_log_destination=apigateway.LogGroupLogDestination(access),
                access_log_format=ACCESS_FORMAT,
                method_options={
                    f"{path}/{method}": _make_throttle(*limits)
                    for limits, routes in self._limited_routes.items()
                    for method, path in routes
                },
            ),
            default_method_options=keys.method_options
            if keys is not None
            else apigateway.MethodOptions(api_key_required=False, authorization_type=apigateway.AuthorizationType.IAM),
        )
        _require_tls(rest, self._common)
        self._add_routes(rest, policy.cors)
        for kind, status, code, detail in _PROBLEMS:
            self._add_problem(rest, kind, status, code, detail)
        # All other refusals get the headers. Their bodies stay AWS's: a template cannot name their status.
        rest.add_gateway_response("ProblemOther", type=_Answer.DEFAULT_4_XX, response_headers=self._headers)
        return rest

    def _add_routes(self, rest: apigateway.RestApi, origins: Sequence[str]) -> None:
        # This route needs no key: monitors and load balancers do not have keys, and the answer does not contain data.
        routes = add_routes(rest, self._query, [_HEALTH], is_open=True)
        routes += add_routes(rest, self._query, [("GET", path) for path in _READ])
        if self._parts is not None:
            add_routes(rest, self._parts.ingest.function.entry, [("POST", f"{_STREAM}/events")])
        if origins:
            allow_preflights(routes, origins)
        if self._doors is not None:
            self._doors.add_routes(rest, origins)
        if self._console is not None:
            self._console.add_routes(rest, origins)

    @property
    def _limited_routes(self) -> dict[tuple[int, int], list[tuple[str, str]]]:
        """List the method and the path of the routes with limits of their own, grouped by these limits: (rate, burst)."""
        probes = [_HEALTH, *(self._doors.open_routes if self._doors is not None else ())]
        limited = {_PROBES: probes}
        if self._console is not None:
            limited[_PAGE] = list(self._console.open_routes)
            limited[_COST] = [("GET", path) for path in OPERATED if path == "/v1/cost"]
            limited[_OPERATED] = [("GET", path) for path in OPERATED if path != "/v1/cost"]
        return limited

    def _add_problem(
        self, rest: apigateway.RestApi, kind: apigateway.ResponseType, status: int, code: str, detail: str
    ) -> None:
        problem = Problem(status, code, detail, {"request_id": "$context.requestId"})
        # The title is that of the functions' Python, whatever Python synthesises.
        document = problem.document() | ({"title": "Content Too Large"} if status == 413 else {})
        headers = self._headers | {"Content-Type": "'application/problem+json'"}
        if status in _RETRY_AFTER:
            headers["Retry-After"] = f"'{_RETRY_AFTER[status]}'"
        rest.add_gateway_response(
            f"Problem{kind.response_type}",
            type=kind,
            status_code=str(status),
            response_headers=headers,
            # AWS substitutes variables here, but runs no template language.
            templates={"application/json": json.dumps(document)},
        )

    def _add_first_key(self, rate: float, burst: int) -> tuple[apigateway.IApiKey, apigateway.UsagePlan]:
        """Add the first key, and the usage plan of every key without a rate of its own."""
        description = "The first caller of Tidetable; docs/operate/keys.md makes others"
        # `add_api_key` makes a key that depends on API Gateway's stage. But the key must exist before that stage asks
        # for it.
        key = apigateway.ApiKey(self.rest, "Key", description=description)
        throttle = apigateway.ThrottleSettings(rate_limit=rate, burst_limit=burst)
        plan = self.rest.add_usage_plan("Plan", throttle=throttle)
        plan.add_api_key(key)
        plan.add_api_stage(stage=self.rest.deployment_stage)
        return key, plan


def _make_throttle(rate: int, burst: int) -> apigateway.MethodDeploymentOptions:
    return apigateway.MethodDeploymentOptions(
        throttling_rate_limit=rate,
        throttling_burst_limit=burst,
        **_LOGGING,
    )


def _require_tls(rest: apigateway.RestApi, common: Common) -> None:
    """Let an API refuse older versions of TLS than ``[api] tls``, if its Region offers that.

    Without a policy, the address of a Regional API takes TLS 1.0. The access mode "BASIC" takes every request that the
    API took before; "STRICT" refuses requests that come through the domain of another endpoint type, such as an
    edge-optimized custom domain.
    """
    policy = _TLS_POLICIES.get(common.config.api.tls)
    resource = rest.node.default_child
    if policy is None or not common.offer.security_policies or not isinstance(resource, apigateway.CfnRestApi):
        return
    resource.security_policy = policy
    resource.endpoint_access_mode = "BASIC"
