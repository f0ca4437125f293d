"""OTLP: what an event has of its resource and scope, which series it is in, and records that are equal."""

import re
from typing import Any

import pytest

from doors.otlp_values import read_whole
from tests.worlds.doors import Doors, config
from tests.worlds.otlp import JSON, LOGS, METRICS, PROTOBUF, T, gauge, logs, metrics, point, send, text
from tidetable.config.stream import OtlpPolicy

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


@BOTH
def test_an_attribute_that_is_repeated_keeps_every_value(doors: Doors, kind: str) -> None:
    """Some SDKs for logs do not check that names are unique, although OpenTelemetry demands it."""
    more = {"attributes": [text("user", "a"), text("code", "7"), text("user", "b")]}
    assert send(doors, logs({"timeUnixNano": str(T), **more}), kind, LOGS).status == 200
    assert [event["data"]["attributes"] for event in doors.events()] == [{"user": ["a", "b"], "code": "7"}]


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
        (("telemetry.sdk.version",), 'telemetry.sdk.version="1"'),
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


@BOTH
@pytest.mark.parametrize(("route", "before"), [(METRICS, "load{"), (LOGS, "")])
def test_two_replicas_of_a_service_are_two_series_unless_the_file_chooses(kind: str, route: str, before: str) -> None:
    """At the same time, with the same values. A choice that leaves out what tells them apart loses no point."""
    found = {}
    for chosen in ((), ("service.name",)):
        doors = Doors(config(otlp=OtlpPolicy(series=chosen)))
        for instance in ("i1", "i2"):
            document = metrics(gauge(point(1))) if route == METRICS else logs({"timeUnixNano": str(T)})
            for owner in (*document.get("resourceMetrics", ()), *document.get("resourceLogs", ())):
                owner["resource"] = {
                    "attributes": [text("service.name", "shop"), text("service.instance.id", instance)]
                }
            assert send(doors, document, kind, route).status == 200
        found[chosen] = sorted(event["series"] for event in doors.events())
    after = "}" if before else ""
    each = [f"{before}service.instance.id={instance},service.name=shop{after}" for instance in ("i1", "i2")]
    assert found == {(): each, ("service.name",): [f"{before}service.name=shop{after}"] * 2}


@BOTH
def test_an_exemplar_keeps_its_value_time_and_attributes(doors: Doors, kind: str) -> None:
    exemplars = [
        {"asInt": "7", "timeUnixNano": str(T), "filteredAttributes": [text("a.b", "1")]},
        {"asDouble": 0.5},
        {},
    ]
    assert send(doors, metrics(gauge(point(1, exemplars=exemplars))), kind).status == 200
    assert [event["data"]["exemplars"] for event in doors.events()] == [
        [{"value": 7, "time": "2026-03-01T00:04:00.000000Z", "attributes": {"a": {"b": "1"}}}, {"value": 0.5}, {}]
    ]


def test_a_point_without_a_value_is_stored_without_one(doors: Doors) -> None:
    """OTLP: the flag 1 says that the source had no value to report."""
    assert send(doors, metrics(gauge({"timeUnixNano": str(T), "flags": 1}))).document == {}
    assert [(event["data"]["flags"], "value" in event["data"]) for event in doors.events()] == [(1, False)]


def test_a_value_that_is_no_number_refuses_its_point(doors: Doors) -> None:
    found = [point(1), {"timeUnixNano": str(T), "asDouble": "x" * 40}]
    partial = send(doors, metrics(gauge(*found))).document["partialSuccess"]
    assert partial == {
        "rejectedDataPoints": "1",
        "errorMessage": f"number 1: metric 'load': '{'x' * 32}' is not a number",
    }
    assert len(doors.events()) == 1


@pytest.mark.parametrize(
    "value",
    ["1_0", " 5", "5 ", "+5", "5.5", "", "-", "x" * 40, "\u0665", "0x5", "5.", ".5", "1e", "NaN", 5.5, float("inf")],
)
def test_what_is_no_whole_number_is_refused(value: str | float) -> None:
    with pytest.raises(ValueError, match=f"^'{re.escape(str(value)[:32])}' is not a whole number$"):
        read_whole(value)


def test_a_whole_number_may_have_zeros_before_it() -> None:
    assert [read_whole("0" * 21 + "5"), read_whole("-5"), read_whole(5)] == [5, -5, 5]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1.8e18, 1_800_000_000_000_000_000),
        ("1.772323440e18", 1_772_323_440_000_000_000),
        ("1772323440000000001", 1_772_323_440_000_000_001),
        ("1.772323440000000001E+18", 1_772_323_440_000_000_001),
        ("18446744073709551615", 18_446_744_073_709_551_615),
        ("-9223372036854775808", -9_223_372_036_854_775_808),
        ("5.0", 5),
        ("50e-1", 5),
        (-0.0, 0),
    ],
)
def test_a_whole_number_may_have_an_exponent_and_keeps_all_digits(value: str | float, number: int) -> None:
    assert read_whole(value) == number


@pytest.mark.parametrize("value", ["18446744073709551616", "-9223372036854775809", "1e20", "1e400", 1e300, "9" * 400])
def test_a_number_of_more_than_64_bits_is_refused(value: str | float) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(str(value)[:32])} does not fit into 64 bits$"):
        read_whole(value)
