"""CORS: the origins whose web pages may call the API. The functions add the CORS headers to their own answers."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_apigateway as apigateway

# The headers that a page may send: the key or the members of a signature, and the headers that the API reads.
_HEADERS = (
    "Authorization,Content-Type,If-None-Match,Prefer,X-Api-Key,X-Amz-Content-Sha256,X-Amz-Date,X-Amz-Security-Token"
)
# Seconds for which a browser may remember the permission for an address; Chromium accepts two hours at the most.
_MAX_AGE = "7200"
_ALLOW_ORIGIN = "Access-Control-Allow-Origin"


def make_gateway_headers(origins: Sequence[str]) -> dict[str, str]:
    """Make the headers that let a page read the gateway's own refusals; empty without origins.

    A gateway response has only fixed values. So with several origins, every page may read the refusals: they are the
    same fixed sentences for every caller, and contain no data.
    """
    if not origins:
        return {}
    return {_ALLOW_ORIGIN: f"'{_find_single_origin(origins) or '*'}'", "Access-Control-Expose-Headers": "'*'"}


def allow_preflights(routes: Sequence[apigateway.Resource], origins: Sequence[str]) -> None:
    """Let the gateway answer OPTIONS on every route: browsers send no key with OPTIONS, and no function must run."""
    for route in routes:
        route.add_method(
            "OPTIONS",
            _make_preflight_integration(origins),
            api_key_required=False,
            authorization_type=apigateway.AuthorizationType.NONE,
            method_responses=[
                apigateway.MethodResponse(
                    status_code="204",
                    response_parameters={
                        f"method.response.header.{name}": True for name in _make_preflight_headers(origins)
                    },
                )
            ],
        )


def _make_preflight_integration(origins: Sequence[str]) -> apigateway.MockIntegration:
    # With */* among the binary media types, a mock integration takes the empty body for bytes and answers 500. So
    # request and response are converted to text (aws/chalice#1310, squidfunk/terraform-aws-api-gateway-enable-cors#10,
    # serverless/serverless#10254).
    text = apigateway.ContentHandling.CONVERT_TO_TEXT
    return apigateway.MockIntegration(
        content_handling=text,
        passthrough_behavior=apigateway.PassthroughBehavior.WHEN_NO_MATCH,
        request_templates={"application/json": '{"statusCode": 204}'},
        integration_responses=[
            apigateway.IntegrationResponse(
                status_code="204",
                content_handling=text,
                response_parameters={
                    f"method.response.header.{name}": f"'{value}'"
                    for name, value in _make_preflight_headers(origins).items()
                },
                response_templates={"application/json": _make_origin_template(origins)},
            )
        ],
    )


def _make_preflight_headers(origins: Sequence[str]) -> dict[str, str]:
    """Make the headers of a preflight's answer.

    With several origins, the headers name the first origin, and the template replaces it by the caller's origin.
    """
    return {
        _ALLOW_ORIGIN: origins[0],
        "Access-Control-Allow-Methods": "GET,POST,OPTIONS",
        "Access-Control-Allow-Headers": _HEADERS,
        "Access-Control-Max-Age": _MAX_AGE,
        "Vary": "Origin",
        "X-Content-Type-Options": "nosniff",
    }


def _make_origin_template(origins: Sequence[str]) -> str:
    """Make the template that answers the caller's origin if it is allowed. It compares whole origins, not patterns."""
    if _find_single_origin(origins):
        return ""
    known = " || ".join(f'$origin == "{origin}"' for origin in origins)
    lines = [
        '#set($origin = $input.params().header.get("Origin"))',
        # A missing header is read as empty text. HTTP/2 clients send header names in lower case.
        '#if($origin == "")',
        '  #set($origin = $input.params().header.get("origin"))',
        "#end",
        f"#if({known})",
        f"  #set($context.responseOverride.header.{_ALLOW_ORIGIN} = $origin)",
        "#end",
    ]
    return "\n".join(lines)


def _find_single_origin(origins: Sequence[str]) -> str | None:
    return origins[0] if len(origins) == 1 else None
