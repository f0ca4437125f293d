"""The routes of a function in an API, with one permission for all of them."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import Names
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_

# The name of each API's stage in API Gateway.
STAGE = "api"


def add_routes(
    rest: apigateway.RestApi,
    function: lambda_.IFunction,
    routes: Iterable[tuple[str, str]],
    *,
    is_open: bool = False,
) -> list[apigateway.Resource]:
    """Let a function serve routes, each a method and a path; anybody may call those that are open."""
    integration, resources = _integrate_function(rest, function), []
    authorization = apigateway.AuthorizationType.NONE if is_open else None
    for method, path in routes:
        resources.append(rest.root.resource_for_path(path))
        resources[-1].add_method(
            method, integration, api_key_required=False if is_open else None, authorization_type=authorization
        )
    return resources


def _integrate_function(rest: apigateway.RestApi, function: lambda_.IFunction) -> apigateway.AwsIntegration:
    """Let the API call the function, and return the integration for the methods of its routes.

    The CDK's ``LambdaIntegration`` makes a permission per method. AWS limits the policy of a function to 20 KB, which
    is about 45 of these permissions; a stack has at most 500 resources. The permission is for the deployed stage only:
    the "Test" button in the console of AWS would otherwise call the function without a key.
    """
    id = f"Permission{Names.node_unique_id(function.node)}"
    if rest.node.try_find_child(id) is None:
        function.add_permission(
            id,
            principal=iam.ServicePrincipal("apigateway.amazonaws.com"),
            scope=rest,
            source_arn=rest.arn_for_execute_api("*", "/*", STAGE),
        )
    return apigateway.AwsIntegration(
        service="lambda", path=f"2015-03-31/functions/{function.function_arn}/invocations", proxy=True
    )
