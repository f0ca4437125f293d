"""The HTTP API: routes, who may call, how often, and what the gateway answers by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.infra.synth import Template

ROUTES = {
    ("POST", "/v1/streams/{stream}/events"): "ingest",
    ("GET", "/v1/streams/{stream}/events"): "query",
    ("GET", "/v1/streams/{stream}/events/{ref}"): "query",
    ("GET", "/v1/streams/{stream}/periods"): "query",
    ("GET", "/v1/streams/{stream}/latest"): "query",
    ("GET", "/v1/streams/{stream}/top"): "query",
    ("GET", "/v1/streams/{stream}/aggregate"): "query",
    ("GET", "/v1/streams"): "query",
    ("GET", "/v1/health"): "query",
}
RETRIED = {"429", "500", "503", "504"}
OUTPUTS = {
    *("ApiUrl", "ApiKeyId", "ArchiveBucket", "CatalogTable"),
    *("LifecycleFunction", "ArchiverFunction", "RestorerFunction", "OverflowQueueUrl", "DeadLetterQueueUrl"),
}


def _path(template: Template, method: dict[str, Any]) -> str:
    resources = template.all("AWS::ApiGateway::Resource")
    parts: list[str] = []
    at = method["ResourceId"]
    while "Ref" in at:
        parts.insert(0, resources[at["Ref"]]["PathPart"])
        at = resources[at["Ref"]]["ParentId"]
    return "/" + "/".join(parts)


def test_the_routes_are_those_of_the_contract(dev: Template) -> None:
    found = {}
    for method in dev.all("AWS::ApiGateway::Method").values():
        target = json.dumps(method["Integration"]["Uri"])
        handler = next(name for name in ("ingest", "query") if dev.id_of(name) in target)
        found[method["HttpMethod"], _path(dev, method)] = handler
    assert found == ROUTES


def test_every_route_asks_for_a_key(dev: Template) -> None:
    assert {one["ApiKeyRequired"] for one in dev.all("AWS::ApiGateway::Method").values()} == {True}
    assert len(dev.all("AWS::ApiGateway::UsagePlanKey")) == 1


def test_every_route_asks_for_a_signature(signed: Template) -> None:
    methods = signed.all("AWS::ApiGateway::Method").values()
    assert {(one["AuthorizationType"], one.get("ApiKeyRequired", False)) for one in methods} == {("AWS_IAM", False)}
    assert not signed.all("AWS::ApiGateway::ApiKey")


def test_the_stage_throttles_as_configured(dev: Template) -> None:
    (stage,) = dev.all("AWS::ApiGateway::Stage").values()
    (every,) = stage["MethodSettings"]
    assert (every["ResourcePath"], every["HttpMethod"]) == ("/*", "*")
    assert (every["ThrottlingRateLimit"], every["ThrottlingBurstLimit"]) == (200, 400)
    assert every["DataTraceEnabled"] is False  # bodies are nobody's business


def test_every_call_is_logged(dev: Template) -> None:
    (stage,) = dev.all("AWS::ApiGateway::Stage").values()
    assert "ApiAccess" in json.dumps(stage["AccessLogSetting"]["DestinationArn"])


def test_bodies_travel_as_bytes(dev: Template) -> None:
    (api,) = dev.all("AWS::ApiGateway::RestApi").values()
    assert api["BinaryMediaTypes"] == ["*/*"]


@pytest.mark.parametrize("status", ["400", "401", "403", "404", "413", "415", "429", "500", "503", "504"])
def test_the_gateway_answers_problem_details(dev: Template, status: str) -> None:
    answers = [one for one in dev.all("AWS::ApiGateway::GatewayResponse").values() if one["StatusCode"] == status]
    assert answers
    for one in answers:
        document = json.loads(one["ResponseTemplates"]["application/json"])
        assert document.keys() == {"type", "title", "status", "code", "detail"}
        assert (document["type"], str(document["status"])) == ("about:blank", status)
        parameters = one["ResponseParameters"]
        assert parameters["gatewayresponse.header.Content-Type"] == "'application/problem+json'"
        assert ("gatewayresponse.header.Retry-After" in parameters) == (status in RETRIED)


def test_the_outputs_name_what_a_user_needs(dev: Template, signed: Template) -> None:
    assert dev.document["Outputs"].keys() >= OUTPUTS
    assert signed.document["Outputs"].keys() >= OUTPUTS - {"ApiKeyId"}
    assert "ApiKeyId" not in signed.document["Outputs"]


def test_what_can_be_tagged_is_tagged(dev: Template) -> None:
    tags = [one["Tags"] for one in dev.functions().values()] + [
        *(t["Tags"] for t in dev.all("AWS::SQS::Queue").values())
    ]
    assert all(
        {"Key": "project", "Value": "tidetable"} in one and {"Key": "stage", "Value": "dev"} in one for one in tags
    )
