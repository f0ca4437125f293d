"""The gateway itself: its own answers, the plan of keys, and who may call the functions through it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from tests.infra.synth import BOTH, LARGEST, Template, template

AGAIN = "Send the request again, which is harmless."
# Kind of answer: status, title, code, and what the caller should do.
ANSWERS = {
    "BAD_REQUEST_BODY": (400, "Bad Request", "bad_request", "The body is not valid."),
    "BAD_REQUEST_PARAMETERS": (400, "Bad Request", "bad_request", "The parameters are not valid."),
    "UNAUTHORIZED": (401, "Unauthorized", "unauthorized", "Sign the request, or send a valid key."),
    "ACCESS_DENIED": (
        *(403, "Forbidden", "forbidden"),
        "Send one valid key that may call this route: as x-api-key, or as Authorization: Bearer, Token or Basic.",
    ),
    "INVALID_API_KEY": (403, "Forbidden", "forbidden", "This key is new or was revoked: try in a minute."),
    "INVALID_SIGNATURE": (403, "Forbidden", "forbidden", "The request's signature is not valid."),
    "EXPIRED_TOKEN": (403, "Forbidden", "forbidden", "The request's credentials have expired."),
    "MISSING_AUTHENTICATION_TOKEN": (403, "Forbidden", "forbidden", "No such route, or no credentials."),
    "WAF_FILTERED": (403, "Forbidden", "forbidden", "The API's firewall refuses this request."),
    "RESOURCE_NOT_FOUND": (404, "Not Found", "not_found", "There is no such route."),
    "REQUEST_TOO_LARGE": (413, "Content Too Large", "too_large", "Send fewer events per request."),
    "UNSUPPORTED_MEDIA_TYPE": (
        *(415, "Unsupported Media Type", "unsupported_media_type"),
        "Send JSON or NDJSON, plain or gzip.",
    ),
    "THROTTLED": (429, "Too Many Requests", "throttled", "Slow down and send the request again."),
    "QUOTA_EXCEEDED": (429, "Too Many Requests", "throttled", "The key's quota is used up."),
    "DEFAULT_5XX": (500, "Internal Server Error", "internal", AGAIN),
    "AUTHORIZER_FAILURE": (503, "Service Unavailable", "unavailable", AGAIN),
    "INTEGRATION_FAILURE": (503, "Service Unavailable", "unavailable", AGAIN),
    "INTEGRATION_TIMEOUT": (504, "Gateway Timeout", "timeout", AGAIN),
}


def test_each_refusal_of_the_gateway_has_this_status_and_this_code(dev: Template) -> None:
    answers = {one["ResponseType"]: one for one in dev.all("AWS::ApiGateway::GatewayResponse").values()}
    del answers["DEFAULT_4XX"]  # its body is AWS's own
    found = {}
    for kind, one in answers.items():
        document = json.loads(one["ResponseTemplates"]["application/json"])
        assert one["StatusCode"] == str(document["status"])
        found[kind] = tuple(document[name] for name in ("status", "title", "code", "detail"))
    assert found == ANSWERS


def test_keys_without_a_rate_of_their_own_have_a_quarter_of_the_stages(dev: Template) -> None:
    ((id, plan),) = dev.all("AWS::ApiGateway::UsagePlan").items()
    (stage,) = dev.all("AWS::ApiGateway::Stage")
    (api,) = dev.all("AWS::ApiGateway::RestApi")
    (key,) = dev.all("AWS::ApiGateway::ApiKey")
    assert plan["Throttle"] == {"RateLimit": 50, "BurstLimit": 100}
    # Without the stage, the gateway refuses the plan's keys.
    assert [(of["ApiId"], of["Stage"]) for of in plan["ApiStages"]] == [({"Ref": api}, {"Ref": stage})]
    (member,) = dev.all("AWS::ApiGateway::UsagePlanKey").values()
    assert member == {"KeyId": {"Ref": key}, "KeyType": "API_KEY", "UsagePlanId": {"Ref": id}}


def test_the_api_is_regional_and_traced_if_the_configuration_says_so(dev: Template, signed: Template) -> None:
    (api,) = dev.all("AWS::ApiGateway::RestApi").values()
    assert api["EndpointConfiguration"] == {"Types": ["REGIONAL"]}
    for made, traced in ((dev, False), (signed, True)):
        (stage,) = made.all("AWS::ApiGateway::Stage").values()
        assert stage.get("TracingEnabled", False) is traced


def list_sources(made: Template) -> dict[tuple[str, str], list[Any]]:
    """The sources of the APIs' permissions, by the logical ids of the function or alias and of the API."""
    found: dict[tuple[str, str], list[Any]] = {}
    for permission in made.all("AWS::Lambda::Permission").values():
        join = permission["SourceArn"]["Fn::Join"][1]
        api = next(part["Ref"] for part in join if isinstance(part, dict) and part["Ref"].startswith("Api"))
        named = permission["FunctionName"]
        name = named["Ref"] if "Ref" in named else named["Fn::GetAtt"][0]
        found.setdefault((name, api), []).append(join[-1])
    return found


def test_each_api_has_one_permission_per_function_and_for_the_deployed_stage_only(rolled: Template) -> None:
    """The "Test" button of the console of AWS calls a function without the API's key."""
    ((api, _),) = rolled.all("AWS::ApiGateway::RestApi").items()
    called = ("ingest", "query", "doors", "console", "operations")
    found = list_sources(rolled)
    (authorizer,) = rolled.all("AWS::ApiGateway::Authorizer")
    assert found.pop((rolled.id_of("authorizer"), api)) == [{"Ref": authorizer}]
    assert found == {(rolled.id_of(handler), api): ["/api/*/*"] for handler in called}


def test_the_second_api_has_permissions_of_its_own_and_snapshots_are_called_by_their_alias() -> None:
    made = template("dev", *LARGEST)
    sources = list_sources(made)
    apis = set(made.all("AWS::ApiGateway::RestApi"))
    aliases = made.all("AWS::Lambda::Alias")
    called = {function for function, _ in sources}
    assert len(apis) == 2
    for handler in ("ingest", "query", "doors"):
        (alias,) = (id for id, one in aliases.items() if one["FunctionName"] == {"Ref": made.id_of(handler)})
        assert alias in called
        assert {api: sources[alias, api] for api in apis} == {api: ["/api/*/*"] for api in apis}


def test_the_policy_of_a_function_is_far_below_the_20_kb_of_aws() -> None:
    """AWS Lambda, "Quotas": function resource-based policy, 20 KB. Each permission is one statement of it."""
    made = template("dev", *LARGEST)
    sizes = Counter(json.dumps(one["FunctionName"]) for one in made.all("AWS::Lambda::Permission").values())
    assert max(sizes.values()) == 2


def test_each_address_has_its_alarms(signed: Template) -> None:
    both = template("dev", BOTH)
    (alarm,) = (one for id, one in both.all("AWS::CloudWatch::Alarm").items() if id.startswith("AlarmsSignedApi"))
    (second,) = (id for id in both.all("AWS::ApiGateway::Stage") if id.startswith("ApiSigned"))
    assert {one["Name"]: one["Value"] for one in alarm["Dimensions"]} == {
        "ApiName": "tidetable-dev.signed",
        "Stage": {"Ref": second},
    }
    watches = ("MetricName", "Statistic", "Period", "EvaluationPeriods", "Threshold", "TreatMissingData")
    assert [alarm[name] for name in watches] == ["5XXError", "Sum", 60, 3, 1, "notBreaching"]
    # Without keys no function counts former keys.
    assert not [id for id in signed.all("AWS::CloudWatch::Alarm") if id.startswith("AlarmsFormerKeyUsed")]
