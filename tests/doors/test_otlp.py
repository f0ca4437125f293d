"""OTLP: what becomes of data points and log records, in protobuf and in JSON."""

from decimal import Decimal

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tests.worlds.doors import Doors, config
from tests.worlds.otlp import JSON, LOGS, PROTOBUF, T, gauge, logs, metrics, point, send, text
from tidetable.config.stream import OtlpPolicy


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_a_point_becomes_an_event(doors: Doors, kind: str) -> None:
    start = T - 60 * 10**9
    sent = point(0.25, T + 7, startTimeUnixNano=str(start), attributes=[text("http.method", "GET")], flags=2)
    total = {"name": "hits", "sum": {"dataPoints": [sent], "aggregationTemporality": 2, "isMonotonic": True}}
    reply = send(doors, metrics(total), kind)
    assert (reply.status, reply.headers["content-type"]) == (200, kind)
    assert reply.body == (b"{}" if kind == JSON else b"")
    (event,) = doors.events()
    assert (event["series"], event["time"]) == (
        "hits{http.method=GET,service.name=shop}",
        "2026-03-01T00:04:00.000000Z",
    )
    assert event["id"].endswith("-007")
    assert event["data"] == {
        "metric": "hits",
        "type": "sum",
        "temporality": "cumulative",
        "monotonic": True,
        "value": Decimal("0.25"),
        "start": "2026-03-01T00:03:00.000000Z",
        "flags": 2,
        "attributes": {"http": {"method": "GET"}},
        "resource": {"service": {"name": "shop"}, "telemetry": {"sdk": {"version": "1"}}},
        "scope": {"name": "lib"},
    }


HISTOGRAM = {
    "name": "latency",
    "unit": "ms",
    "histogram": {
        "aggregationTemporality": 1,
        "dataPoints": [
            {
                "timeUnixNano": str(T),
                "count": "3",
                "sum": 12.5,
                "min": 1,
                "bucketCounts": ["1", "2", "0"],
                "explicitBounds": [5, 10.5],
                "exemplars": [{"asInt": "4", "timeUnixNano": str(T)}],
            }
        ],
    },
}
EXPONENTIAL = {
    "name": "latency2",
    "exponentialHistogram": {
        "aggregationTemporality": 2,
        "dataPoints": [
            {
                "timeUnixNano": str(T),
                "count": "3",
                "sum": 12.5,
                "scale": 3,
                "zeroCount": "1",
                "zeroThreshold": 0.5,
                "positive": {"offset": -2, "bucketCounts": ["1", "1"]},
            }
        ],
    },
}
SUMMARY = {
    "name": "old",
    "summary": {
        "dataPoints": [
            {"timeUnixNano": str(T), "count": "2", "sum": 3, "quantileValues": [{"quantile": 0.5, "value": 1.5}]}
        ]
    },
}


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_every_kind_of_metric_keeps_what_it_measures(doors: Doors, kind: str) -> None:
    assert send(doors, metrics(HISTOGRAM, EXPONENTIAL, SUMMARY, resource={}), kind).status == 200
    found = {event["data"].pop("metric"): event["data"] for event in doors.events()}
    scope = {"scope": {"name": "lib"}}
    assert found["latency"] == scope | {
        "type": "histogram",
        "unit": "ms",
        "temporality": "delta",
        "count": 3,
        "sum": Decimal("12.5"),
        "min": 1,
        "buckets": [1, 2, 0],
        "bounds": [5, Decimal("10.5")],
        "exemplars": [{"value": 4, "time": "2026-03-01T00:04:00.000000Z"}],
    }
    assert found["latency2"] == scope | {
        "type": "exponential_histogram",
        "temporality": "cumulative",
        "count": 3,
        "sum": Decimal("12.5"),
        "scale": 3,
        "zero_count": 1,
        "zero_threshold": Decimal("0.5"),
        "positive": {"offset": -2, "buckets": [1, 1]},
    }
    assert found["old"] == scope | {
        "type": "summary",
        "count": 2,
        "sum": 3,
        "quantiles": [{"quantile": Decimal("0.5"), "value": Decimal("1.5")}],
    }


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_numbers_that_are_none_are_kept_as_text_under_another_name(doors: Doors, kind: str) -> None:
    values = ["NaN", "Infinity", "-Infinity", 1e300, 1e-300]
    points = [
        point(value, T + n * 1000, attributes=[{"key": "x.y", "value": {"doubleValue": value}}])
        for n, value in enumerate(values)
    ]
    assert send(doors, metrics(gauge(*points)), kind).status == 200
    datas = [event["data"] for event in doors.events()]
    texts = ["NaN", "Infinity", "-Infinity", "1e+300", "1e-300"]
    assert [data["value_text"] for data in datas] == texts
    assert [data["attributes"] for data in datas] == [{"x": {"y_text": word}} for word in texts]
    assert not any("value" in data for data in datas)


def test_both_encodings_of_a_request_make_the_same_events() -> None:
    stored = []
    for kind in (JSON, PROTOBUF):
        doors = Doors(config())
        nested = {"kvlistValue": {"values": [text("a", "b"), {"key": "n", "value": {"intValue": "3"}}]}}
        more = {"arrayValue": {"values": [{"boolValue": True}, {"doubleValue": 0.5}, {}, {"bytesValue": "AAE="}]}}
        record = {
            "timeUnixNano": str(T),
            "body": nested,
            "attributes": [{"key": "list", "value": more}],
            "traceId": "0af7651916cd43dd8448eb211c80319c",
        }
        if kind == PROTOBUF:
            # json_format takes the text of an id for base64, so the message gets its bytes by hand.
            message = json_format.ParseDict(logs({**record, "traceId": ""}), ExportLogsServiceRequest())
            message.resource_logs[0].scope_logs[0].log_records[0].trace_id = bytes.fromhex(
                "0af7651916cd43dd8448eb211c80319c"
            )
            doors.call("POST", LOGS, message.SerializeToString(), content_type=PROTOBUF)
        else:
            send(doors, logs(record), kind, LOGS)
        send(doors, metrics(HISTOGRAM, EXPONENTIAL, SUMMARY, gauge(point(1), point(0.5, T + 5))), kind)
        stored.append(doors.events())
    assert len(stored[0]) == 6
    assert stored[0] == stored[1]
    body = next(event["data"] for event in stored[0] if "body" in event["data"])
    assert body["trace_id"] == "0af7651916cd43dd8448eb211c80319c"
    assert body["body"] == {"a": "b", "n": 3}
    assert body["attributes"] == {"list": [True, Decimal("0.5"), None, "AAE="]}


def test_what_tells_points_apart_is_in_the_id(doors: Doors) -> None:
    names = metrics(gauge(point(1), name="a"), gauge(point(2), name="b"))
    other = metrics(
        gauge(point(3), name="a"),
        resource={"attributes": [text("service.name", "shop"), text("telemetry.sdk.version", "2")]},
    )
    scoped = metrics(gauge(point(4), name="a"))
    scoped["resourceMetrics"][0]["scopeMetrics"][0]["scope"]["version"] = "9"
    for document in (names, other, scoped, names):
        send(doors, document)
    assert sorted(event["data"]["value"] for event in doors.events()) == [1, 2, 3, 4]


def test_a_record_becomes_an_event(doors: Doors) -> None:
    record = {
        "timeUnixNano": str(T),
        "observedTimeUnixNano": str(T + 10**9),
        "severityNumber": 9,
        "severityText": "INFO",
        "body": {"stringValue": "hello"},
        "spanId": "00F067AA0BA902B7",
        "eventName": "login",
        "attributes": [text("user.id", "u1"), text("user", "x")],
        "newField": 1,
    }
    assert send(doors, logs(record), JSON, LOGS).status == 200
    (event,) = doors.events()
    assert (event["series"], event["time"]) == ("service.name=shop", "2026-03-01T00:04:00.000000Z")
    assert event["data"] == {
        "severity": 9,
        "severity_text": "INFO",
        "event": "login",
        "span_id": "00f067aa0ba902b7",
        "body": "hello",
        # A name that is a value and the beginning of another stays as it is.
        "attributes": {"user": "x", "user.id": "u1"},
        "resource": {"service": {"name": "shop"}, "telemetry": {"sdk": {"version": "1"}}},
        "scope": {"name": "lib"},
        "observed": "2026-03-01T00:04:01.000000Z",
    }


def test_records_that_are_equal_are_several_and_a_resend_adds_none(doors: Doors) -> None:
    record = {"timeUnixNano": str(T), "body": {"stringValue": "again"}}
    for _ in range(2):
        send(doors, logs(record, record, {**record, "timeUnixNano": str(T + 1)}, record), JSON, LOGS)
    assert len(doors.events()) == 4


def test_a_record_without_a_time_has_the_time_of_its_observation_or_arrival(doors: Doors) -> None:
    send(doors, logs({"observedTimeUnixNano": T, "body": {"intValue": 1}}, {"body": {"intValue": 2}}), JSON, LOGS)
    assert [(event["time"], event["data"]["body"]) for event in doors.events()] == [
        ("2026-03-01T00:04:00.000000Z", 1),
        ("2026-03-01T00:05:00.000000Z", 2),
    ]


def test_the_configuration_chooses_the_attributes_of_the_series() -> None:
    doors = Doors(config(otlp=OtlpPolicy(series=("host", "service.name"))))
    sent = point(1, attributes=[text("host", "a"), text("core", "1")])
    send(doors, metrics(gauge(sent, {**sent, "attributes": [text("host", "a"), text("core", "2")]})))
    assert [event["series"] for event in doors.events()] == ["load{host=a,service.name=shop}"] * 2
