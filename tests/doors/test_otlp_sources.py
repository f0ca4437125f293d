"""OTLP: what an event has of its resource and scope, which series it is in, and records that are equal."""

from typing import Any

import pytest

from tests.worlds.doors import Doors, config
from tests.worlds.otlp import JSON, LOGS, METRICS, PROTOBUF, T, gauge, logs, metrics, point, send, text
from tidetable.config.model import OtlpPolicy

BOTH = pytest.mark.parametrize("kind", [JSON, PROTOBUF])
SCOPE = {"name": "lib", "version": "2", "attributes": [text("a.b", "1")]}


def set_scope(document: dict[str, Any], scope: dict[str, Any]) -> dict[str, Any]:
    for owner in (*document.get("resourceMetrics", ()), *document.get("resourceLogs", ())):
        for scoped in (*owner.get("scopeMetrics", ()), *owner.get("scopeLogs", ())):
            scoped["scope"] = scope
    return document


@BOTH
@pytest.mark.parametrize("route", [METRICS, LOGS])
def test_an_event_has_its_resource_and_its_scope(doors: Doors, kind: str, route: str) -> None:
    document = metrics(gauge(point(1))) if route == METRICS else logs({"timeUnixNano": str(T)})
    assert send(doors, set_scope(document, SCOPE), kind, route).status == 200
    (event,) = doors.events()
    assert event["data"]["scope"] == {"name": "lib", "version": "2", "attributes": {"a": {"b": "1"}}}
    assert event["data"]["resource"] == {"service": {"name": "shop"}, "telemetry": {"sdk": {"version": "1"}}}


@pytest.mark.parametrize("change", [{"name": "other"}, {"version": "3"}, {"attributes": [text("a.b", "2")]}], ids=str)
def test_points_of_scopes_that_differ_are_different_events(doors: Doors, change: dict[str, Any]) -> None:
    for scope in (SCOPE, SCOPE | change, SCOPE):
        send(doors, set_scope(metrics(gauge(point(1))), scope))
    assert len(doors.events()) == 2


def test_equal_records_of_a_request_are_numbered_from_the_second_on(doors: Doors) -> None:
    """So a record that comes alone in a repeated request has the same id."""
    record = {"timeUnixNano": str(T), "body": {"stringValue": "x"}}
    send(doors, logs(record), JSON, LOGS)
    (first,) = (event["id"] for event in doors.events())
    send(doors, logs(record, record, record), JSON, LOGS)
    assert [event["id"] for event in doors.events()] == [first, f"{first}-2", f"{first}-3"]


@pytest.mark.parametrize(
    ("chosen", "series"),
    [
        ((), "service.name=shop"),
        (("user",), "user=u1"),
        (("user", "service.name"), "service.name=shop,user=u1"),
        (("telemetry.sdk.version",), "telemetry.sdk.version=1"),
        (("none",), "unknown"),
    ],
)
def test_the_series_of_a_record_has_the_attributes_that_are_chosen(chosen: tuple[str, ...], series: str) -> None:
    doors = Doors(config(otlp=OtlpPolicy(series=chosen)))
    record = {"timeUnixNano": str(T), "attributes": [text("user", "u1"), text("path", "/")]}
    assert send(doors, logs(record), JSON, LOGS).status == 200
    assert [event["series"] for event in doors.events()] == [series]


@pytest.mark.parametrize(
    ("chosen", "series"),
    [((), "load{core=1,service.name=shop}"), (("core",), "load{core=1}"), (("none",), "load")],
)
def test_the_series_of_a_point_has_the_attributes_that_are_chosen(chosen: tuple[str, ...], series: str) -> None:
    doors = Doors(config(otlp=OtlpPolicy(series=chosen)))
    core = {"key": "core", "value": {"intValue": "1"}}
    assert send(doors, metrics(gauge(point(1, attributes=[core])))).status == 200
    assert [event["series"] for event in doors.events()] == [series]
