"""The least version of TLS at the address of an API."""

from __future__ import annotations

from aws_cdk import aws_apigateway as apigateway

from .function import Common

# API Gateway Developer Guide, "Security policies for REST APIs". Both policies also take TLS 1.3.
_POLICIES = {"1.2": "SecurityPolicy_TLS13_1_2_2021_06", "1.3": "SecurityPolicy_TLS13_1_3_2025_09"}


def require_tls(rest: apigateway.RestApi, common: Common) -> None:
    """Let an API refuse older versions of TLS than ``[api] tls``, if its Region offers that.

    Without a policy, the address of a Regional API takes TLS 1.0. The access mode "BASIC" takes every request that the
    API took before; "STRICT" refuses requests that come through the domain of another endpoint type, such as an
    edge-optimized custom domain.
    """
    policy = _POLICIES.get(common.config.api.tls)
    resource = rest.node.default_child
    if policy is None or not common.offer.security_policies or not isinstance(resource, apigateway.CfnRestApi):
        return
    resource.security_policy = policy
    resource.endpoint_access_mode = "BASIC"
