"""The API's routes, and what a template says of them."""

from __future__ import annotations

from typing import Any

from tests.infra.synth import Template

ROUTES = {
    ("POST", "/v1/streams/{stream}/events"): "ingest",
    ("GET", "/v1/streams/{stream}/events"): "query",
    ("GET", "/v1/streams/{stream}/events/{ref}"): "query",
    ("GET", "/v1/streams/{stream}/periods"): "query",
    ("GET", "/v1/streams/{stream}/latest"): "query",
    ("GET", "/v1/streams/{stream}/top"): "query",
    ("GET", "/v1/streams/{stream}/aggregate"): "query",
    ("GET", "/v1/streams/{stream}/series"): "query",
    ("GET", "/v1/streams/{stream}/fields"): "query",
    ("GET", "/v1/streams/{stream}/fields/{field}/values"): "query",
    ("GET", "/v1/streams"): "query",
    ("GET", "/v1/health"): "query",
    ("GET", "/v1/plan"): "operations",
    ("GET", "/v1/alarms"): "operations",
    ("GET", "/v1/activity"): "operations",
    ("GET", "/v1/cost"): "operations",
    ("GET", "/console"): "console",
    ("GET", "/console/assets/{file+}"): "console",
}
# Anybody may call them: monitors have no key, and the page of the console holds no data.
OPEN = [("GET", "/v1/health"), ("GET", "/console"), ("GET", "/console/assets/{file+}")]


def path_of(template: Template, method: dict[str, Any]) -> str:
    resources = template.all("AWS::ApiGateway::Resource")
    parts: list[str] = []
    at = method["ResourceId"]
    while "Ref" in at:
        parts.insert(0, resources[at["Ref"]]["PathPart"])
        at = resources[at["Ref"]]["ParentId"]
    return "/" + "/".join(parts)


def methods_of(template: Template) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method["HttpMethod"], path_of(template, method)): method
        for method in template.all("AWS::ApiGateway::Method").values()
    }


def make_settings(template: Template) -> list[dict[str, Any]]:
    (stage,) = template.all("AWS::ApiGateway::Stage").values()
    settings: list[dict[str, Any]] = stage["MethodSettings"]
    return settings


def answers_of(template: Template) -> dict[str, dict[str, str]]:
    """The headers of the gateway's own answers by their kind."""
    return {
        one["ResponseType"]: {
            name.removeprefix("gatewayresponse.header."): value for name, value in one["ResponseParameters"].items()
        }
        for one in template.all("AWS::ApiGateway::GatewayResponse").values()
    }


def open_routes(methods: dict[tuple[str, str], dict[str, Any]]) -> set[tuple[str, str]]:
    return {
        route
        for route, method in methods.items()
        if method["AuthorizationType"] == "NONE" and not method.get("ApiKeyRequired", False)
    }
