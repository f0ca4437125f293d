"""Browsers: what pages of other origins may send and read."""

from __future__ import annotations

import json

import pytest

from tests.infra.routes import ROUTES, answers_of, methods_of
from tests.infra.synth import AGEING, LARGEST, LOCALHOST, ORIGIN, PAGES, SIGNED, Template, template

ONE_PAGE = ("cors = []", f'cors = ["{ORIGIN}"]')


def test_web_pages_may_not_call_unless_they_are_named(dev: Template) -> None:
    assert not [route for route in methods_of(dev) if route[0] == "OPTIONS"]
    assert not [name for answer in answers_of(dev).values() for name in answer if name.startswith("Access-Control")]


@pytest.mark.parametrize("auth", [(), (SIGNED,)], ids=["by key", "signed"])
def test_a_browser_may_ask_on_every_route_without_a_key(auth: tuple[tuple[str, str], ...]) -> None:
    made = template("dev", PAGES, *auth)
    methods = methods_of(made)
    options = {path: method for (verb, path), method in methods.items() if verb == "OPTIONS"}
    # The console is a page of the API itself.
    assert options.keys() == {path for _, path in ROUTES if not path.startswith("/console")}
    for one in options.values():
        assert (one["ApiKeyRequired"], one["AuthorizationType"]) == (False, "NONE")
        integration = one["Integration"]
        # Without the conversions a mock answers 500 where every media type is binary.
        assert (integration["Type"], integration["ContentHandling"]) == ("MOCK", "CONVERT_TO_TEXT")
        assert integration["PassthroughBehavior"] == "WHEN_NO_MATCH"
        (answer,) = integration["IntegrationResponses"]
        assert answer["ContentHandling"] == "CONVERT_TO_TEXT"
        assert json.loads(integration["RequestTemplates"]["application/json"]) == {"statusCode": 204}
        assert (answer["StatusCode"], one["MethodResponses"][0]["StatusCode"]) == ("204", "204")
        assert one["MethodResponses"][0]["ResponseParameters"].keys() == answer["ResponseParameters"].keys()


def _preflight(template: Template) -> tuple[dict[str, str], str]:
    """The headers of a preflight's answer, and the template that may change them."""
    (answer,) = methods_of(template)["OPTIONS", "/v1/streams/{stream}/events"]["Integration"]["IntegrationResponses"]
    headers = {name.rpartition(".")[2]: value.strip("'") for name, value in answer["ResponseParameters"].items()}
    return headers, answer["ResponseTemplates"]["application/json"]


def test_a_browser_is_told_what_a_page_may_send() -> None:
    headers, choice = _preflight(template("dev", ONE_PAGE))
    assert headers == {
        "Access-Control-Allow-Origin": ORIGIN,
        "Access-Control-Allow-Methods": "GET,POST,OPTIONS",
        "Access-Control-Allow-Headers": (
            "Authorization,Content-Type,If-None-Match,Prefer,X-Api-Key,X-Amz-Content-Sha256,X-Amz-Date,X-Amz-Security-Token"
        ),
        "Access-Control-Max-Age": "7200",
        "Vary": "Origin",
        "X-Content-Type-Options": "nosniff",
    }
    assert choice == ""


def test_of_several_origins_the_callers_is_named_and_no_other() -> None:
    headers, choice = _preflight(template("dev", PAGES))
    assert headers["Access-Control-Allow-Origin"] == ORIGIN
    # Whole origins are compared: as a pattern, https://app.example.com would also match https://app-example.com. A client
    # of HTTP/2 sends the header's name in lower case.
    assert choice.splitlines() == [
        '#set($origin = $input.params().header.get("Origin"))',
        '#if($origin == "")',
        '  #set($origin = $input.params().header.get("origin"))',
        "#end",
        f'#if($origin == "{ORIGIN}" || $origin == "{LOCALHOST}")',
        "  #set($context.responseOverride.header.Access-Control-Allow-Origin = $origin)",
        "#end",
    ]


@pytest.mark.parametrize("changes, allowed", [((ONE_PAGE,), f"'{ORIGIN}'"), ((PAGES,), "'*'"), (AGEING, "'*'")])
def test_a_page_may_read_the_gateways_own_refusals(changes: tuple[tuple[str, str], ...], allowed: str) -> None:
    for headers in answers_of(template("dev", *changes)).values():
        assert headers["Access-Control-Allow-Origin"] == allowed
        assert headers["Access-Control-Expose-Headers"] == "'*'"


def test_pages_may_call_the_doors_that_pages_use() -> None:
    preflights = {path for method, path in methods_of(template("dev", *LARGEST)) if method == "OPTIONS"}
    assert {"/v1/metrics", "/v1/streams/{stream}/otlp/v1/logs", "/api/v2/write"} <= preflights
    assert "/v1/streams/{stream}/firehose" not in preflights
