"""The HTTP API: routes, authorization, rates, and the gateway's own answers."""

from __future__ import annotations

import json

import pytest

from tests.infra.routes import OPEN, ROUTES, answers_of, make_settings, methods_of, path_of
from tests.infra.synth import AGEING, BOTH, Template, template
from tests.worlds.configs import ROOT

RETRIED = {"429": "'1'", "500": "'5'", "503": "'5'", "504": "'5'"}
OUTPUTS = {
    *("ApiUrl", "ApiKeyId", "ArchiveBucket", "CatalogTable"),
    *("LifecycleFunction", "ArchiverFunction", "RestorerFunction", "OverflowQueueUrl", "DeadLetterQueueUrl"),
    *("SweeperFunction", "LakeFunction", "FeedFunction", "FeedDeadLetterQueueUrl", "ArchiveDatabase"),
    *("IngestLogs", "QueryLogs"),
}


def test_the_routes_are_those_of_the_contract(dev: Template) -> None:
    found = {}
    for method in dev.all("AWS::ApiGateway::Method").values():
        target = json.dumps(method["Integration"]["Uri"])
        handler = next(name for name in ("ingest", "query", "operations", "console") if dev.id_of(name) in target)
        found[method["HttpMethod"], path_of(dev, method)] = handler
    assert found == ROUTES


def test_every_route_but_health_asks_for_a_key(dev: Template) -> None:
    methods = methods_of(dev)
    assert [route for route, method in methods.items() if not method["ApiKeyRequired"]] == OPEN
    assert [route for route, method in methods.items() if method["AuthorizationType"] != "CUSTOM"] == OPEN
    assert {json.dumps(method["AuthorizerId"]) for method in methods.values() if "AuthorizerId" in method} == {
        json.dumps({"Ref": next(iter(dev.all("AWS::ApiGateway::Authorizer")))})
    }
    assert len(dev.all("AWS::ApiGateway::UsagePlanKey")) == 1


def test_the_gateway_counts_requests_by_the_key_that_the_authorizer_names(dev: Template) -> None:
    (api,) = dev.all("AWS::ApiGateway::RestApi").values()
    assert api["ApiKeySourceType"] == "AUTHORIZER"


def test_the_emulator_which_cannot_do_that_is_not_told_to(local: Template) -> None:
    """It would ask for the header x-api-key, and a key may be in others."""
    methods = methods_of(local)
    assert not [route for route, method in methods.items() if method["ApiKeyRequired"]]
    assert [route for route, method in methods.items() if method["AuthorizationType"] != "CUSTOM"] == OPEN


def test_the_gateway_keeps_no_answer_of_the_authorizer(dev: Template) -> None:
    """With a cache, AWS refuses each request that lacks one of the identity sources, and keys may be in several headers."""
    (authorizer,) = dev.all("AWS::ApiGateway::Authorizer").values()
    assert (authorizer["Type"], authorizer["AuthorizerResultTtlInSeconds"]) == ("REQUEST", 0)
    assert "IdentitySource" not in authorizer
    assert dev.id_of("authorizer") in json.dumps(authorizer["AuthorizerUri"])


def test_the_authorizer_reads_the_keys_of_the_catalog_and_nothing_else(dev: Template) -> None:
    reading = [
        statement for statement in dev.statements("authorizer") if "dynamodb:GetItem" in json.dumps(statement["Action"])
    ]
    assert [statement["Condition"] for statement in reading] == [
        {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["keys#*", "keys"]}}
    ]


# Both were in templates of before: another id would replace the key, and the callers' key with it.
KEY, API = "ApiRestKey89BAA58B", "ApiRest4DEC74FE"


def test_the_first_key_is_the_one_of_earlier_deployments(dev: Template) -> None:
    assert list(dev.all("AWS::ApiGateway::ApiKey")) == [KEY]
    assert list(dev.all("AWS::ApiGateway::RestApi")) == [API]


def test_the_first_key_is_known_before_the_stage_asks_for_it(dev: Template) -> None:
    ((name, first),) = dev.all("Custom::TidetableFirstKey").items()
    assert first["gateway_key"] == {"Ref": KEY}
    (stage,) = [resource for resource in dev.resources.values() if resource["Type"] == "AWS::ApiGateway::Stage"]
    assert name in stage["DependsOn"]


def test_a_deployment_reads_the_text_of_the_first_key_alone(dev: Template) -> None:
    found = {
        name: (policy["Roles"], statement["Action"], statement["Resource"])
        for name, policy in dev.all("AWS::IAM::Policy").items()
        for statement in policy["PolicyDocument"]["Statement"]
        if "apigateway" in json.dumps(statement["Action"])
    }
    ((name, (roles, action, resource)),) = found.items()
    assert action == "apigateway:GET"
    assert resource["Fn::Join"][1][-1] == {"Ref": KEY}
    assert resource["Fn::Join"][1][-2].endswith("::/apikeys/")
    assert roles == [{"Ref": dev.functions()["deployment"]["Role"]["Fn::GetAtt"][0]}]
    (first,) = [resource for resource in dev.resources.values() if resource["Type"] == "Custom::TidetableFirstKey"]
    assert name in first["DependsOn"], "the right must be there before it is used"


@pytest.fixture(scope="module")
def both() -> Template:
    return template("dev", BOTH)


def test_keys_and_signatures_have_an_address_each_for_the_same_routes(both: Template) -> None:
    methods: dict[str, dict[tuple[str, str], str]] = {}
    for one in both.all("AWS::ApiGateway::Method").values():
        methods.setdefault(one["RestApiId"]["Ref"], {})[one["HttpMethod"], path_of(both, one)] = one[
            "AuthorizationType"
        ]
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
    alarms = [alarm["AlarmDescription"] for alarm in both.all("AWS::CloudWatch::Alarm").values()]
    assert len([text for text in alarms if text.endswith("#signedapifailing")]) == 1


def test_no_other_stage_has_an_api_of_the_second_apis_name(both: Template) -> None:
    """CloudWatch counts errors by the API's name. A stage has no dot in its name, but may be called dev-signed."""
    assert {one["Name"] for one in both.all("AWS::ApiGateway::RestApi").values()} == {
        "tidetable-dev",
        "tidetable-dev.signed",
    }


def test_the_second_api_is_made_when_the_first_is_complete_and_the_account_has_a_role_for_logs(both: Template) -> None:
    (account,) = both.all("AWS::ApiGateway::Account")
    (second,) = (id for id in both.all("AWS::ApiGateway::RestApi") if id != API)
    stages = {one["RestApiId"]["Ref"]: id for id, one in both.all("AWS::ApiGateway::Stage").items()}
    assert stages[API] in both.resources[second]["DependsOn"]
    assert account in both.resources[stages[API]]["DependsOn"]


def test_with_signatures_alone_no_key_is_checked(signed: Template) -> None:
    assert not signed.all("AWS::ApiGateway::Authorizer")
    assert "authorizer" not in signed.functions()
    assert not signed.all("Custom::TidetableFirstKey")


def test_every_route_but_health_asks_for_a_signature(signed: Template) -> None:
    methods = methods_of(signed)
    assert [route for route, method in methods.items() if method["AuthorizationType"] != "AWS_IAM"] == OPEN
    assert not [route for route, method in methods.items() if method.get("ApiKeyRequired", False)]
    assert not signed.all("AWS::ApiGateway::ApiKey")


def test_the_stage_throttles_as_configured(dev: Template) -> None:
    every, health, page, assets, cost, *operated = make_settings(dev)
    assert (every["ResourcePath"], every["HttpMethod"]) == ("/*", "*")
    assert (every["ThrottlingRateLimit"], every["ThrottlingBurstLimit"]) == (200, 400)
    # Every call runs a function, so the rate is low.
    assert (health["ResourcePath"], health["HttpMethod"]) == ("/~1v1~1health", "GET")
    assert (health["ThrottlingRateLimit"], health["ThrottlingBurstLimit"]) == (2, 10)
    # A browser asks for all files of the console at once.
    assert [setting["ResourcePath"] for setting in (page, assets)] == ["/~1console", "/~1console~1assets~1{file+}"]
    for setting in (page, assets):
        assert (setting["ThrottlingRateLimit"], setting["ThrottlingBurstLimit"]) == (20, 100)
    # A bill reads metrics for up to $0.02, and the other operators' routes call AWS's control plane.
    assert (cost["ResourcePath"], cost["HttpMethod"]) == ("/~1v1~1cost", "GET")
    assert (cost["ThrottlingRateLimit"], cost["ThrottlingBurstLimit"]) == (1, 10)
    assert [setting["ResourcePath"] for setting in operated] == ["/~1v1~1plan", "/~1v1~1alarms", "/~1v1~1activity"]
    for setting in operated:
        assert (setting["ThrottlingRateLimit"], setting["ThrottlingBurstLimit"]) == (5, 20)


def test_no_body_is_logged_and_no_metric_per_route_is_paid_for(dev: Template) -> None:
    for setting in make_settings(dev):
        assert setting["DataTraceEnabled"] is False
        assert setting["MetricsEnabled"] is False
        assert setting["LoggingLevel"] == "ERROR"


def test_the_documents_name_the_log_group_that_api_gateway_makes_by_itself(dev: Template) -> None:
    """AWS: its name is that of the API and of the stage. It is not in the template."""
    (stage,) = dev.all("AWS::ApiGateway::Stage").values()
    page = (ROOT / "docs" / "start" / "deploy.md").read_text()
    assert page.count(f"API-Gateway-Execution-Logs_<ApiId>/{stage['StageName']}") == 2
    assert page.count("API-Gateway-Execution-Logs_") == 2


def test_every_call_is_logged_with_its_caller_and_its_end(dev: Template) -> None:
    (stage,) = dev.all("AWS::ApiGateway::Stage").values()
    assert "ApiAccess" in json.dumps(stage["AccessLogSetting"]["DestinationArn"])
    assert json.loads(stage["AccessLogSetting"]["Format"]) == {
        "requestId": "$context.requestId",
        "extendedRequestId": "$context.extendedRequestId",
        "integrationRequestId": "$context.integration.requestId",
        "requestTime": "$context.requestTime",
        "ip": "$context.identity.sourceIp",
        "keyId": "$context.authorizer.key_id",
        "keyName": "$context.authorizer.key_name",
        "refusal": "$context.authorizer.refusal",
        "apiKeyId": "$context.identity.apiKeyId",
        "callerArn": "$context.identity.userArn",
        "httpMethod": "$context.httpMethod",
        "resourcePath": "$context.resourcePath",
        "protocol": "$context.protocol",
        "status": "$context.status",
        "errorType": "$context.error.responseType",
        "integrationStatus": "$context.integrationStatus",
        "integrationLatency": "$context.integrationLatency",
        "responseLatency": "$context.responseLatency",
        "responseLength": "$context.responseLength",
        "version": "0.1.0.dev0",
    }


def test_bodies_travel_as_bytes_and_long_answers_compressed(dev: Template) -> None:
    (api,) = dev.all("AWS::ApiGateway::RestApi").values()
    assert api["BinaryMediaTypes"] == ["*/*"]
    assert api["MinimumCompressionSize"] == 1024


@pytest.mark.parametrize("status", ["400", "401", "403", "404", "413", "415", "429", "500", "503", "504"])
def test_the_gateway_answers_problem_details(dev: Template, status: str) -> None:
    all_answers = dev.all("AWS::ApiGateway::GatewayResponse").values()
    answers = [answer for answer in all_answers if answer.get("StatusCode") == status]
    assert answers
    for answer in answers:
        document = json.loads(answer["ResponseTemplates"]["application/json"])
        assert document.keys() == {"type", "title", "status", "code", "detail", "request_id"}
        assert document["request_id"] == "$context.requestId"
        assert (document["type"], str(document["status"])) == ("about:blank", status)
        parameters = answer["ResponseParameters"]
        assert parameters["gatewayresponse.header.Content-Type"] == "'application/problem+json'"
        assert parameters.get("gatewayresponse.header.Retry-After") == RETRIED.get(status)


def test_no_browser_guesses_what_an_answer_of_the_gateway_is(dev: Template) -> None:
    answers = answers_of(dev)
    assert answers.keys() >= {"DEFAULT_4XX", "DEFAULT_5XX", "WAF_FILTERED"}
    assert {answer["X-Content-Type-Options"] for answer in answers.values()} == {"'nosniff'"}


def test_other_refusals_of_the_gateway_keep_their_status(dev: Template) -> None:
    answers = dev.all("AWS::ApiGateway::GatewayResponse").values()
    (other,) = (answer for answer in answers if answer["ResponseType"] == "DEFAULT_4XX")
    assert "StatusCode" not in other


def test_the_outputs_name_what_a_user_needs(dev: Template, signed: Template) -> None:
    assert dev.document["Outputs"].keys() >= OUTPUTS
    assert signed.document["Outputs"].keys() >= OUTPUTS - {"ApiKeyId"}
    assert "ApiKeyId" not in signed.document["Outputs"]


@pytest.mark.parametrize(("output", "handler"), [("IngestLogs", "ingest"), ("QueryLogs", "query")])
def test_the_logs_that_advice_reads_are_those_of_the_functions(dev: Template, output: str, handler: str) -> None:
    group = dev.functions()[handler]["LoggingConfig"]["LogGroup"]
    assert dev.document["Outputs"][output]["Value"] == group == {"Ref": group["Ref"]}
    assert dev.resources[group["Ref"]]["Type"] == "AWS::Logs::LogGroup"
    assert "DoorsLogs" not in dev.document["Outputs"]


def test_what_can_be_tagged_is_tagged(dev: Template) -> None:
    tags = [function["Tags"] for function in dev.functions().values()] + [
        *(t["Tags"] for t in dev.all("AWS::SQS::Queue").values())
    ]
    assert all(
        {"Key": "project", "Value": "tidetable"} in present and {"Key": "stage", "Value": "dev"} in present
        for present in tags
    )


def test_no_mapping_of_an_event_source_has_tags(dev: Template, rolled: Template) -> None:
    """China and GovCloud refuse them: aws/aws-cdk#31532 and #31965."""
    for made in (dev, rolled):
        mappings = made.all("AWS::Lambda::EventSourceMapping")
        assert mappings
        assert [id for id, mapping in mappings.items() if "Tags" in mapping] == []


def test_the_console_can_be_left_out() -> None:
    made = template("dev", *AGEING)
    operated = {path for (_, path), handler in ROUTES.items() if handler == "operations"}
    assert not [path for _, path in methods_of(made) if "console" in path or path in operated]
    assert not {"console", "operations"} & made.functions().keys()
    assert "ConsoleUrl" not in made.document["Outputs"]
