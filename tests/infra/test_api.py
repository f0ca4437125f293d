"""The HTTP API: routes, authorization, rates, and the gateway's own answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from tests.infra.synth import BOTH, DOORS, LOCALHOST, ORIGIN, PAGES, ROOT, SIGNED, TRACED, Template, template

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
    ("GET", "/console"): "console",
    ("GET", "/console/assets/{file+}"): "console",
}
# Anybody may call them: monitors have no key, and the page of the console holds no data.
OPEN = [("GET", "/v1/health"), ("GET", "/console"), ("GET", "/console/assets/{file+}")]
ONE_PAGE = ("cors = []", f'cors = ["{ORIGIN}"]')
ALL_PAGES = ("cors = []", 'cors = ["*"]')
RETRIED = {"429": "'1'", "500": "'5'", "503": "'5'", "504": "'5'"}
OUTPUTS = {
    *("ApiUrl", "ApiKeyId", "ArchiveBucket", "CatalogTable"),
    *("LifecycleFunction", "ArchiverFunction", "RestorerFunction", "OverflowQueueUrl", "DeadLetterQueueUrl"),
    *("SweeperFunction", "FeedFunction", "FeedDeadLetterQueueUrl", "ArchiveDatabase"),
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
        handler = next(name for name in ("ingest", "query", "operations", "console") if dev.id_of(name) in target)
        found[method["HttpMethod"], _path(dev, method)] = handler
    assert found == ROUTES


def _methods(template: Template) -> dict[tuple[str, str], dict[str, Any]]:
    return {(one["HttpMethod"], _path(template, one)): one for one in template.all("AWS::ApiGateway::Method").values()}


def test_every_route_but_health_asks_for_a_key(dev: Template) -> None:
    methods = _methods(dev)
    assert [route for route, one in methods.items() if not one["ApiKeyRequired"]] == OPEN
    assert [route for route, one in methods.items() if one["AuthorizationType"] != "CUSTOM"] == OPEN
    assert {json.dumps(one["AuthorizerId"]) for one in methods.values() if "AuthorizerId" in one} == {
        json.dumps({"Ref": next(iter(dev.all("AWS::ApiGateway::Authorizer")))})
    }
    assert len(dev.all("AWS::ApiGateway::UsagePlanKey")) == 1


def test_the_gateway_counts_requests_by_the_key_that_the_authorizer_names(dev: Template) -> None:
    (api,) = dev.all("AWS::ApiGateway::RestApi").values()
    assert api["ApiKeySourceType"] == "AUTHORIZER"


def test_the_emulator_which_cannot_do_that_is_not_told_to(local: Template) -> None:
    """It would ask for the header x-api-key, and a key may be in others."""
    methods = _methods(local)
    assert not [route for route, one in methods.items() if one["ApiKeyRequired"]]
    assert [route for route, one in methods.items() if one["AuthorizationType"] != "CUSTOM"] == OPEN


def test_the_gateway_keeps_no_answer_of_the_authorizer(dev: Template) -> None:
    """With a cache, AWS refuses each request that lacks one of the identity sources, and keys may be in several headers."""
    (authorizer,) = dev.all("AWS::ApiGateway::Authorizer").values()
    assert (authorizer["Type"], authorizer["AuthorizerResultTtlInSeconds"]) == ("REQUEST", 0)
    assert "IdentitySource" not in authorizer
    assert dev.id_of("authorizer") in json.dumps(authorizer["AuthorizerUri"])


def test_the_authorizer_reads_the_keys_of_the_catalog_and_nothing_else(dev: Template) -> None:
    reading = [one for one in dev.statements("authorizer") if "dynamodb:GetItem" in json.dumps(one["Action"])]
    assert [one["Condition"] for one in reading] == [{"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["keys"]}}]


# Both were in templates of before: another id would replace the key, and the callers' key with it.
KEY, API = "ApiRestKey89BAA58B", "ApiRest4DEC74FE"


def test_the_first_key_is_the_one_of_earlier_deployments(dev: Template) -> None:
    assert list(dev.all("AWS::ApiGateway::ApiKey")) == [KEY]
    assert list(dev.all("AWS::ApiGateway::RestApi")) == [API]


def test_the_first_key_is_known_before_the_stage_asks_for_it(dev: Template) -> None:
    ((name, first),) = dev.all("Custom::TidetableFirstKey").items()
    assert first["gateway_key"] == {"Ref": KEY}
    (stage,) = [one for one in dev.resources.values() if one["Type"] == "AWS::ApiGateway::Stage"]
    assert name in stage["DependsOn"]


def test_a_deployment_reads_the_text_of_the_first_key_alone(dev: Template) -> None:
    found = {
        name: (policy["Roles"], statement["Resource"])
        for name, policy in dev.all("AWS::IAM::Policy").items()
        for statement in policy["PolicyDocument"]["Statement"]
        if "apigateway" in json.dumps(statement["Action"])
    }
    ((name, (roles, resource)),) = found.items()
    assert resource["Fn::Join"][1][-1] == {"Ref": KEY}
    assert resource["Fn::Join"][1][-2].endswith("::/apikeys/")
    assert roles == [{"Ref": dev.functions()["deployment"]["Role"]["Fn::GetAtt"][0]}]
    (first,) = [one for one in dev.resources.values() if one["Type"] == "Custom::TidetableFirstKey"]
    assert name in first["DependsOn"], "the right must be there before it is used"


@pytest.fixture(scope="module")
def both() -> Template:
    return template("dev", BOTH)


def test_keys_and_signatures_have_an_address_each_for_the_same_routes(both: Template) -> None:
    methods: dict[str, dict[tuple[str, str], str]] = {}
    for one in both.all("AWS::ApiGateway::Method").values():
        methods.setdefault(one["RestApiId"]["Ref"], {})[one["HttpMethod"], _path(both, one)] = one["AuthorizationType"]
    by_key = methods.pop(API)
    ((signed_api, signed),) = methods.items()
    assert by_key == {route: "NONE" if route in OPEN else "CUSTOM" for route in ROUTES}
    assert signed == {route: "NONE" if route in OPEN else "AWS_IAM" for route in ROUTES}
    assert "ApiKeySourceType" not in both.resources[signed_api]["Properties"]
    outputs = both.document["Outputs"]
    assert API in json.dumps(outputs["ApiUrl"])
    assert signed_api in json.dumps(outputs["IamApiUrl"])
    assert len(both.all("AWS::ApiGateway::Account")) == 1


def test_both_addresses_throttle_log_and_answer_alike(both: Template) -> None:
    first, second = both.all("AWS::ApiGateway::Stage").values()
    assert first["MethodSettings"] == second["MethodSettings"]
    assert first["AccessLogSetting"] == second["AccessLogSetting"]
    answers: dict[str, list[str]] = {}
    for one in both.all("AWS::ApiGateway::GatewayResponse").values():
        answers.setdefault(one["RestApiId"]["Ref"], []).append(one["ResponseType"])
    assert len({tuple(sorted(kinds)) for kinds in answers.values()}) == 1
    alarms = [one["AlarmDescription"] for one in both.all("AWS::CloudWatch::Alarm").values()]
    assert len([text for text in alarms if text.endswith("#signedapifailing")]) == 1


def test_with_signatures_alone_no_key_is_checked(signed: Template) -> None:
    assert not signed.all("AWS::ApiGateway::Authorizer")
    assert "authorizer" not in signed.functions()
    assert not signed.all("Custom::TidetableFirstKey")


def test_every_route_but_health_asks_for_a_signature(signed: Template) -> None:
    methods = _methods(signed)
    assert [route for route, one in methods.items() if one["AuthorizationType"] != "AWS_IAM"] == OPEN
    assert not [route for route, one in methods.items() if one.get("ApiKeyRequired", False)]
    assert not signed.all("AWS::ApiGateway::ApiKey")


def test_the_stage_throttles_as_configured(dev: Template) -> None:
    every, health, page, assets = _settings(dev)
    assert (every["ResourcePath"], every["HttpMethod"]) == ("/*", "*")
    assert (every["ThrottlingRateLimit"], every["ThrottlingBurstLimit"]) == (200, 400)
    # Every call runs a function, so the rate is low.
    assert (health["ResourcePath"], health["HttpMethod"]) == ("/~1v1~1health", "GET")
    assert (health["ThrottlingRateLimit"], health["ThrottlingBurstLimit"]) == (2, 10)
    # A browser asks for all files of the console at once.
    assert [setting["ResourcePath"] for setting in (page, assets)] == ["/~1console", "/~1console~1assets~1{file+}"]
    for setting in (page, assets):
        assert (setting["ThrottlingRateLimit"], setting["ThrottlingBurstLimit"]) == (20, 100)


def test_no_body_is_logged_and_no_metric_per_route_is_paid_for(dev: Template) -> None:
    for one in _settings(dev):
        assert one["DataTraceEnabled"] is False
        assert one["MetricsEnabled"] is False
        assert one["LoggingLevel"] == "ERROR"


def _settings(template: Template) -> list[dict[str, Any]]:
    (stage,) = template.all("AWS::ApiGateway::Stage").values()
    settings: list[dict[str, Any]] = stage["MethodSettings"]
    return settings


def test_every_call_is_logged_with_its_caller_and_its_end(dev: Template) -> None:
    (stage,) = dev.all("AWS::ApiGateway::Stage").values()
    assert "ApiAccess" in json.dumps(stage["AccessLogSetting"]["DestinationArn"])
    assert json.loads(stage["AccessLogSetting"]["Format"]) == {
        "requestId": "$context.requestId",
        "extendedRequestId": "$context.extendedRequestId",
        "integrationRequestId": "$context.integration.requestId",
        "requestTime": "$context.requestTime",
        "ip": "$context.identity.sourceIp",
        "userAgent": "$context.identity.userAgent",
        "keyId": "$context.authorizer.key_id",
        "keyName": "$context.authorizer.key_name",
        "refusal": "$context.authorizer.refusal",
        "apiKeyId": "$context.identity.apiKeyId",
        "callerArn": "$context.identity.userArn",
        "httpMethod": "$context.httpMethod",
        "resourcePath": "$context.resourcePath",
        "path": "$context.path",
        "protocol": "$context.protocol",
        "status": "$context.status",
        "error": "$context.error.message",
        "errorType": "$context.error.responseType",
        "integrationError": "$context.integrationErrorMessage",
        "integrationLatency": "$context.integrationLatency",
        "responseLatency": "$context.responseLatency",
        "responseLength": "$context.responseLength",
    }


def test_bodies_travel_as_bytes_and_long_answers_compressed(dev: Template) -> None:
    (api,) = dev.all("AWS::ApiGateway::RestApi").values()
    assert api["BinaryMediaTypes"] == ["*/*"]
    assert api["MinimumCompressionSize"] == 1024


@pytest.mark.parametrize("status", ["400", "401", "403", "404", "413", "415", "429", "500", "503", "504"])
def test_the_gateway_answers_problem_details(dev: Template, status: str) -> None:
    all_answers = dev.all("AWS::ApiGateway::GatewayResponse").values()
    answers = [one for one in all_answers if one.get("StatusCode") == status]
    assert answers
    for one in answers:
        document = json.loads(one["ResponseTemplates"]["application/json"])
        assert document.keys() == {"type", "title", "status", "code", "detail", "request_id"}
        assert document["request_id"] == "$context.requestId"
        assert (document["type"], str(document["status"])) == ("about:blank", status)
        parameters = one["ResponseParameters"]
        assert parameters["gatewayresponse.header.Content-Type"] == "'application/problem+json'"
        assert parameters.get("gatewayresponse.header.Retry-After") == RETRIED.get(status)


def _answers(template: Template) -> dict[str, dict[str, str]]:
    """The headers of the gateway's own answers by their kind."""
    return {
        one["ResponseType"]: {
            name.removeprefix("gatewayresponse.header."): value for name, value in one["ResponseParameters"].items()
        }
        for one in template.all("AWS::ApiGateway::GatewayResponse").values()
    }


def test_no_browser_guesses_what_an_answer_of_the_gateway_is(dev: Template) -> None:
    answers = _answers(dev)
    assert answers.keys() >= {"DEFAULT_4XX", "DEFAULT_5XX", "WAF_FILTERED"}
    assert {one["X-Content-Type-Options"] for one in answers.values()} == {"'nosniff'"}


def test_other_refusals_of_the_gateway_keep_their_status(dev: Template) -> None:
    answers = dev.all("AWS::ApiGateway::GatewayResponse").values()
    (other,) = (one for one in answers if one["ResponseType"] == "DEFAULT_4XX")
    assert "StatusCode" not in other


def test_web_pages_may_not_call_unless_they_are_named(dev: Template) -> None:
    assert not [route for route in _methods(dev) if route[0] == "OPTIONS"]
    assert not [name for one in _answers(dev).values() for name in one if name.startswith("Access-Control")]


@pytest.mark.parametrize("auth", [(), (SIGNED,)], ids=["by key", "signed"])
def test_a_browser_may_ask_on_every_route_without_a_key(auth: tuple[tuple[str, str], ...]) -> None:
    made = template("dev", PAGES, *auth)
    methods = _methods(made)
    options = {path: one for (verb, path), one in methods.items() if verb == "OPTIONS"}
    # The console is a page of the API itself.
    assert options.keys() == {path for _, path in ROUTES if not path.startswith("/console")}
    for one in options.values():
        assert (one["ApiKeyRequired"], one["AuthorizationType"]) == (False, "NONE")
        integration = one["Integration"]
        # Without the conversions a mock answers 500 where every media type is binary.
        assert (integration["Type"], integration["ContentHandling"]) == ("MOCK", "CONVERT_TO_TEXT")
        (answer,) = integration["IntegrationResponses"]
        assert answer["ContentHandling"] == "CONVERT_TO_TEXT"
        assert json.loads(integration["RequestTemplates"]["application/json"]) == {"statusCode": 204}
        assert (answer["StatusCode"], one["MethodResponses"][0]["StatusCode"]) == ("204", "204")
        assert one["MethodResponses"][0]["ResponseParameters"].keys() == answer["ResponseParameters"].keys()


def _preflight(template: Template) -> tuple[dict[str, str], str]:
    """The headers of a preflight's answer, and the template that may change them."""
    (answer,) = _methods(template)["OPTIONS", "/v1/streams/{stream}/events"]["Integration"]["IntegrationResponses"]
    headers = {name.rpartition(".")[2]: value.strip("'") for name, value in answer["ResponseParameters"].items()}
    return headers, answer["ResponseTemplates"]["application/json"]


def test_a_browser_is_told_what_a_page_may_send() -> None:
    headers, choice = _preflight(template("dev", ONE_PAGE))
    assert headers == {
        "Access-Control-Allow-Origin": ORIGIN,
        "Access-Control-Allow-Methods": "GET,POST,OPTIONS",
        "Access-Control-Allow-Headers": (
            "Authorization,Content-Type,Prefer,X-Api-Key,X-Amz-Content-Sha256,X-Amz-Date,X-Amz-Security-Token"
        ),
        "Access-Control-Max-Age": "7200",
        "Vary": "Origin",
        "X-Content-Type-Options": "nosniff",
    }
    assert choice == ""


def test_of_several_origins_the_callers_is_named_and_no_other() -> None:
    headers, choice = _preflight(template("dev", PAGES))
    assert headers["Access-Control-Allow-Origin"] == ORIGIN
    assert f'#if($origin == "{ORIGIN}" || $origin == "{LOCALHOST}")' in choice
    assert "#set($context.responseOverride.header.Access-Control-Allow-Origin = $origin)" in choice
    assert "matches" not in choice  # As a pattern, https://app.example.com would also match https://app-example.com.


@pytest.mark.parametrize("change, allowed", [(ONE_PAGE, f"'{ORIGIN}'"), (PAGES, "'*'"), (ALL_PAGES, "'*'")])
def test_a_page_may_read_the_gateways_own_refusals(change: tuple[str, str], allowed: str) -> None:
    for headers in _answers(template("dev", change)).values():
        assert headers["Access-Control-Allow-Origin"] == allowed
        assert headers["Access-Control-Expose-Headers"] == "'*'"


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


DOOR_ROUTES = {
    ("POST", "/write"),
    ("POST", "/api/v2/write"),
    ("POST", "/api/v3/write_lp"),
    ("GET", "/ping"),
    ("HEAD", "/ping"),
    ("GET", "/health"),
    ("POST", "/v1/metrics"),
    ("POST", "/v1/logs"),
    ("POST", "/v1/streams/{stream}/otlp/v1/metrics"),
    ("POST", "/v1/streams/{stream}/otlp/v1/logs"),
    ("POST", "/v1/streams/{stream}/cloudevents"),
    ("OPTIONS", "/v1/streams/{stream}/cloudevents"),
    ("POST", "/v1/streams/{stream}/firehose"),
}
# Clients look for a server without their key, and a webhook's handshake has none.
OPEN_DOORS = {
    ("GET", "/ping"),
    ("HEAD", "/ping"),
    ("GET", "/health"),
    ("OPTIONS", "/v1/streams/{stream}/cloudevents"),
}


def _ask_for_nothing(methods: dict[tuple[str, str], dict[str, Any]]) -> set[tuple[str, str]]:
    return {
        route
        for route, one in methods.items()
        if one["AuthorizationType"] == "NONE" and not one.get("ApiKeyRequired", False)
    }


def test_open_doors_are_routes_of_a_function_of_their_own(dev: Template) -> None:
    made = template("dev", *DOORS)
    methods = _methods(made)
    assert methods.keys() - _methods(dev).keys() == DOOR_ROUTES
    for route in DOOR_ROUTES:
        assert made.id_of("doors") in json.dumps(methods[route]["Integration"]["Uri"])
    assert "doors" not in dev.functions()


def test_the_description_of_the_doors_names_every_route_and_no_other() -> None:
    described = yaml.safe_load((ROOT / "docs" / "use" / "openapi-doors.yaml").read_text())["paths"]
    assert {
        (method.upper(), path) for path, methods in described.items() for method in methods if method != "parameters"
    } == DOOR_ROUTES


def test_a_door_that_is_closed_has_no_route(dev: Template) -> None:
    influx, *_ = DOORS
    made = _methods(template("dev", influx)).keys() - _methods(dev).keys()
    assert {path for _, path in made} == {"/write", "/api/v2/write", "/api/v3/write_lp", "/ping", "/health"}


@pytest.mark.parametrize("changes", [(), (SIGNED, TRACED)], ids=["key", "signature"])
def test_a_door_asks_for_what_every_route_asks_for(changes: tuple[tuple[str, str], ...]) -> None:
    made = template("dev", *changes, *DOORS)
    methods = _methods(made)
    assert _ask_for_nothing(methods) == {*OPEN, *OPEN_DOORS}
    for route in DOOR_ROUTES - OPEN_DOORS:
        like = methods["POST", "/v1/streams/{stream}/events"]
        assert methods[route]["AuthorizationType"] == like["AuthorizationType"]
        assert methods[route].get("AuthorizerId") == like.get("AuthorizerId")
        assert methods[route].get("ApiKeyRequired") == like.get("ApiKeyRequired")
    slow = {
        one["ResourcePath"].replace("~1", "/")[1:] + " " + one["HttpMethod"]
        for one in _settings(made)
        if one["ThrottlingRateLimit"] == 2
    }
    probes = {route for route in OPEN if not route[1].startswith("/console")}
    assert slow == {f"{path} {method}" for method, path in {*probes, *OPEN_DOORS}}


def test_pages_may_call_the_doors_that_pages_use() -> None:
    preflights = {path for method, path in _methods(template("dev", PAGES, *DOORS)) if method == "OPTIONS"}
    assert {"/v1/metrics", "/v1/streams/{stream}/otlp/v1/logs", "/api/v2/write"} <= preflights
    assert "/v1/streams/{stream}/firehose" not in preflights


def test_the_console_can_be_left_out() -> None:
    made = template("dev", ("console = true", "console = false"))
    assert not [path for _, path in _methods(made) if "console" in path or path in ("/v1/plan", "/v1/alarms")]
    assert not {"console", "operations"} & made.functions().keys()
    assert "ConsoleUrl" not in made.document["Outputs"]
