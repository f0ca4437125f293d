"""The logs: their format, levels and class, and what the access log says about a request."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from string import Template as Text
from typing import Any

import pytest

from bill import prices
from tests.infra.synth import AGEING, LIMITED, LOGGED, Template, located, template
from tidetable.credentials.decide import Call, decide
from tidetable.credentials.ring import CredentialRing

# Without START, END and REPORT lines of successful calls. Lambda counts a line without a level, such as metrics, as INFO.
QUIET = {"LogFormat": "JSON", "ApplicationLogLevel": "INFO", "SystemLogLevel": "WARN"}
DETAILED = {"LogFormat": "JSON", "ApplicationLogLevel": "DEBUG", "SystemLogLevel": "INFO"}


def list_logging(made: Template) -> list[dict[str, Any]]:
    """The logging of each function, without its log group."""
    found = [dict(function["LoggingConfig"]) for function in made.functions().values()]
    for logging in found:
        assert "Ref" in logging.pop("LogGroup")
    return found


@pytest.mark.parametrize(
    ("changes", "logging"),
    [(LOGGED, DETAILED), ((), QUIET), (LIMITED, QUIET), (AGEING, QUIET)],
    ids=["DEBUG", "INFO", "WARNING", "ERROR"],
)
def test_functions_leave_out_lambdas_own_lines_unless_they_log_details(
    changes: tuple[tuple[str, str], ...], logging: dict[str, str]
) -> None:
    made = template("dev", *changes)
    assert list_logging(made) == [logging] * len(made.functions())


@pytest.mark.parametrize(("region", "logging"), [("cn-north-1", QUIET), ("us-gov-west-1", {}), ("eusc-de-east-1", {})])
def test_a_region_without_json_logs_gets_none(region: str, logging: dict[str, str]) -> None:
    made = located(region)
    assert list_logging(made) == [logging] * len(made.functions())


def find_access_log(made: Template) -> tuple[str, str | None]:
    """The id and the class of the log group to which the API writes."""
    (stage,) = made.all("AWS::ApiGateway::Stage").values()
    text = json.dumps(stage["AccessLogSetting"]["DestinationArn"])
    ((id, group),) = (item for item in made.all("AWS::Logs::LogGroup").items() if item[0] in text)
    return id, group.get("LogGroupClass")


def test_the_access_log_is_in_the_class_for_infrequent_access_and_has_a_new_name(dev: Template) -> None:
    """The class of a log group cannot change: the group that deployed stages have has the id ApiAccess9F15EABE."""
    id, kind = find_access_log(dev)
    assert kind == "INFREQUENT_ACCESS"
    assert id.startswith("ApiAccessLog")
    # Logs of functions have metrics, which the other class does not find.
    others = {group.get("LogGroupClass") for name, group in dev.all("AWS::Logs::LogGroup").items() if name != id}
    assert others <= {None, "STANDARD"}


@pytest.mark.parametrize("region", ["cn-north-1", "us-gov-west-1", "eusc-de-east-1"])
def test_a_region_that_may_lack_the_class_keeps_the_log_of_before(region: str) -> None:
    id, kind = find_access_log(located(region))
    assert (id, kind or "STANDARD") == ("ApiAccess9F15EABE", "STANDARD")


# The gateway's values that a caller cannot choose, or only from few characters: a method is a token of HTTP.
SAFE = {
    *("requestId", "extendedRequestId", "integration.requestId", "requestTime", "identity.sourceIp"),
    *("identity.apiKeyId", "identity.userArn", "httpMethod", "resourcePath", "protocol", "status"),
    *("error.responseType", "integrationStatus", "integrationLatency", "responseLatency", "responseLength"),
}
OURS = {"authorizer.key_id", "authorizer.key_name", "authorizer.refusal"}


def read_format(made: Template) -> str:
    (stage,) = made.all("AWS::ApiGateway::Stage").values()
    text: str = stage["AccessLogSetting"]["Format"]
    return text


def test_no_value_of_the_access_log_is_a_text_of_the_caller(dev: Template) -> None:
    """The User-Agent may have quotes, the path has names of series, and error messages repeat headers."""
    fields = json.loads(read_format(dev))
    # The version is no value of a request.
    assert fields.pop("version") == "0.1.0.dev0"
    values = fields.values()
    assert {value.removeprefix("$context.") for value in values} == SAFE | OURS


# Values of usual length: a request of events with a key, in an API whose ids have 36 and 16 characters.
USUAL = {
    **dict.fromkeys(("requestId", "integration.requestId"), "1f0e2f9c-5a0e-4f6d-9a53-2f6a1a2b3c4d"),
    "extendedRequestId": "XyZ1aGHYIAMFkrw=",
    "requestTime": "27/Nov/2026:12:30:00 +0000",
    "identity.sourceIp": "203.0.113.178",
    "authorizer.key_id": "abcdefghij",
    "authorizer.key_name": "ingest-site-7",
    "identity.apiKeyId": "abcdefghij",
    "httpMethod": "POST",
    "resourcePath": "/v1/streams/{stream}/events",
    "protocol": "HTTP/1.1",
    "status": "202",
    "integrationStatus": "200",
    "integrationLatency": "28",
    "responseLatency": "31",
    "responseLength": "112",
}


class Line(Text):
    """A line of the access log with the gateway's variables."""

    idpattern = r"context\.[A-Za-z_.]+"


def test_the_bill_prices_the_bytes_of_a_line_of_the_access_log(dev: Template) -> None:
    """With the 26 bytes that CloudWatch counts for each line; other routes and names have some bytes less or more."""
    text = Line(read_format(dev))
    known = {f"context.{name}": value for name, value in USUAL.items()}
    line = text.substitute({name: known.get(name, "-") for name in text.get_identifiers()})
    assert abs(len(line) + 26 - prices.ACCESS_BYTES) < 20


@pytest.mark.parametrize(
    "key",
    [
        'tt_"quoted"',
        'a"b' * 10,
        "tt_\\",
        "x" * 19 + "\n",
        '","status":"200',
        "é" * 30,
        "tt_abcdefghij_" + '"' * 32,
        "k" * 40,
    ],
)
def test_a_line_of_the_access_log_is_json_whatever_key_the_caller_sends(dev: Template, key: str) -> None:
    call = Call("GET", "/v1/streams", headers={"x-api-key": [key]})
    context = decide(call, CredentialRing(lambda _: None), datetime(2026, 3, 15, tzinfo=UTC)).context()
    known = {f"authorizer.{name}": value for name, value in context.items()}

    # API Gateway writes "-" for a value that is missing.
    text = Line(read_format(dev))
    line = text.substitute({name: known.get(name.removeprefix("context."), "-") for name in text.get_identifiers()})
    assert json.loads(line)["refusal"] == context["refusal"]
    assert key not in line
