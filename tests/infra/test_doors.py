"""The doors: their routes, and what each asks for."""

from __future__ import annotations

import json

import pytest
import yaml

from handlers import doors as handler
from tests.infra.routes import OPEN, make_settings, methods_of, open_routes
from tests.infra.shop import Shop
from tests.infra.synth import DOORS, ROOT, SIGNED, TRACED, Template, template

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


def test_open_doors_are_routes_of_a_function_of_their_own(dev: Template) -> None:
    made = template("dev", *DOORS)
    methods = methods_of(made)
    assert methods.keys() - methods_of(dev).keys() == DOOR_ROUTES
    for route in DOOR_ROUTES:
        assert made.id_of("doors") in json.dumps(methods[route]["Integration"]["Uri"])
    assert "doors" not in dev.functions()


def test_the_threat_model_names_every_route_that_anybody_may_call() -> None:
    """Requests that browsers send before others (CORS) are named by their method."""
    text = (ROOT / "SECURITY.md").read_text()
    (row,) = [line for line in text.splitlines() if line.startswith("| somebody without a key |")]
    paths = {path.partition("{file+}")[0].rstrip("/") for _, path in {*OPEN, *OPEN_DOORS}}
    assert sorted(path for path in {*paths, "OPTIONS"} if f"`{path}`" not in row) == []


def test_the_description_of_the_doors_names_every_route_and_no_other() -> None:
    described = yaml.safe_load((ROOT / "docs" / "use" / "openapi-doors.yaml").read_text())["paths"]
    assert {
        (method.upper(), path) for path, methods in described.items() for method in methods if method != "parameters"
    } == DOOR_ROUTES


def test_the_function_of_the_doors_answers_every_route() -> None:
    assert {("POST", route) for route in handler._DOORS} == {route for route in DOOR_ROUTES if route[0] == "POST"}


def test_a_door_that_is_closed_has_no_route(dev: Template) -> None:
    influx, *_ = DOORS
    made = methods_of(template("dev", influx)).keys() - methods_of(dev).keys()
    assert {path for _, path in made} == {"/write", "/api/v2/write", "/api/v3/write_lp", "/ping", "/health"}


def test_an_open_route_belongs_to_its_door(shop: Shop) -> None:
    """Only clients of InfluxDB and webhooks ask without a key."""
    methods = methods_of(shop.template)
    assert open_routes(methods) == set(OPEN)
    found = {route for route in DOOR_ROUTES if route in methods}
    otlp = ("/v1/metrics", "/v1/logs", "/v1/streams/{stream}/otlp/v1/metrics", "/v1/streams/{stream}/otlp/v1/logs")
    assert found == {("POST", path) for path in (*otlp, "/v1/streams/{stream}/firehose")}


@pytest.mark.parametrize("changes", [(), (SIGNED, TRACED)], ids=["key", "signature"])
def test_a_door_asks_for_what_every_route_asks_for(changes: tuple[tuple[str, str], ...]) -> None:
    made = template("dev", *changes, *DOORS)
    methods = methods_of(made)
    assert open_routes(methods) == {*OPEN, *OPEN_DOORS}
    for route in DOOR_ROUTES - OPEN_DOORS:
        like = methods["POST", "/v1/streams/{stream}/events"]
        assert methods[route]["AuthorizationType"] == like["AuthorizationType"]
        assert methods[route].get("AuthorizerId") == like.get("AuthorizerId")
        assert methods[route].get("ApiKeyRequired") == like.get("ApiKeyRequired")
    slow = {
        setting["ResourcePath"].replace("~1", "/")[1:] + " " + setting["HttpMethod"]
        for setting in make_settings(made)
        if setting["ThrottlingRateLimit"] == 2
    }
    probes = {route for route in OPEN if not route[1].startswith("/console")}
    assert slow == {f"{path} {method}" for method, path in {*probes, *OPEN_DOORS}}
