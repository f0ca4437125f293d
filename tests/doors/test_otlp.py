"""OTLP: what becomes of data points and log records, in protobuf and in JSON, and the answers."""

import gzip
import json
import zlib
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import json_format
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from tests.worlds.doors import DOORS, Doors, Reply, config, nanos
from tidetable.config.model import OtlpPolicy

METRICS, LOGS = "/v1/metrics", "/v1/logs"
T, OLD = nanos(60), nanos(9 * 86_400)
PROTOBUF, JSON = "application/x-protobuf", "application/json"


def text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


RESOURCE = {"attributes": [text("service.name", "shop"), text("telemetry.sdk.version", "1")]}


def metrics(*found: dict[str, Any], resource: dict[str, Any] = RESOURCE) -> dict[str, Any]:
    return {
        "resourceMetrics": [
            {"resource": resource, "scopeMetrics": [{"scope": {"name": "lib"}, "metrics": list(found)}]}
        ]
    }


def gauge(*points: dict[str, Any], name: str = "load") -> dict[str, Any]:
    return {"name": name, "unit": "1", "gauge": {"dataPoints": points}}


def point(value: Any, nanos: int = T, **more: Any) -> dict[str, Any]:
    kind = "asInt" if isinstance(value, int) else "asDouble"
    return {"timeUnixNano": str(nanos), kind: value, **more}


def logs(*records: dict[str, Any]) -> dict[str, Any]:
    return {"resourceLogs": [{"resource": RESOURCE, "scopeLogs": [{"scope": {"name": "lib"}, "logRecords": records}]}]}


def send(doors: Doors, document: Any, kind: str = JSON, route: str = METRICS, **more: Any) -> Reply:
    """Send a request that is written in JSON, in JSON or in protobuf."""
    body = json.dumps(document).encode()
    if kind == PROTOBUF:
        message = ExportMetricsServiceRequest() if route == METRICS else ExportLogsServiceRequest()
        body = json_format.Parse(body, message).SerializeToString()
    return doors.call("POST", route, body, content_type=kind, **more)


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_a_point_becomes_an_event(doors: Doors, kind: str) -> None:
    start = T - 60 * 10**9
    sent = point(0.25, T + 7, startTimeUnixNano=str(start), attributes=[text("http.method", "GET")], flags=1)
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
        "flags": 1,
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


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_refused_points_are_counted_in_an_answer_of_200(doors: Doors, kind: str) -> None:
    reply = send(doors, metrics(gauge(point(1), point(2, OLD), {"asInt": 3})), kind)
    assert reply.status == 200
    if kind == JSON:
        partial = reply.document["partialSuccess"]
        assert partial["rejectedDataPoints"] == "2"
        message = partial["errorMessage"]
    else:
        answer = ExportMetricsServiceResponse.FromString(reply.body)
        assert answer.partial_success.rejected_data_points == 2
        message = answer.partial_success.error_message
    assert message.startswith("number 1: 2026-02-20T00:05:00.000000Z is before")
    assert message.endswith("number 2: metric 'load': timeUnixNano is missing")
    assert len(doors.events()) == 1


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_refused_records_are_counted_too(doors: Doors, kind: str) -> None:
    reply = send(doors, logs({"timeUnixNano": str(OLD)}), kind, LOGS)
    assert reply.status == 200
    if kind == JSON:
        assert reply.document["partialSuccess"]["rejectedLogRecords"] == "1"
    else:
        assert ExportLogsServiceResponse.FromString(reply.body).partial_success.rejected_log_records == 1


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_a_failure_asks_for_the_request_again_after_a_second(doors: Doors, kind: str) -> None:
    doors.store.throttles = {"tidetable-t.quakes.2026-03-01"}
    doors.overflow.refuses = True
    reply = send(doors, metrics(gauge(point(1))), kind, seconds=14)
    assert (reply.status, reply.headers["retry-after"], reply.headers["content-type"]) == (503, "1", kind)
    status = Status.FromString(reply.body) if kind == PROTOBUF else json_format.ParseDict(reply.document, Status())
    assert status.code == 14
    assert "send the whole request again" in status.message


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (JSON, b"{"),
        (JSON, b'{"resourceMetrics": 5}'),
        (JSON, (b'{"resourceMetrics": [{"resource": {"attributes": [{"key": "n", "value": {"intValue": "x"}}]}, '
            b'"scopeMetrics": [{"metrics": [{"name": "m", "gauge": {"dataPoints": [{}]}}]}]}]}')),
        (PROTOBUF, b"\x0a\xff"),
        (PROTOBUF, b"not a message"),
    ],
)  # fmt: skip
def test_a_body_that_cannot_be_read_is_400_and_must_not_come_again(doors: Doors, kind: str, body: bytes) -> None:
    reply = doors.call("POST", METRICS, body, content_type=kind)
    status = Status.FromString(reply.body) if kind == PROTOBUF else json_format.ParseDict(reply.document, Status())
    assert (reply.status, status.code) == (400, 3)
    assert "retry-after" not in reply.headers


def test_other_types_are_415(doors: Doors) -> None:
    reply = doors.call("POST", METRICS, b"x", content_type="text/plain")
    assert (reply.status, reply.document["code"]) == (415, 3)
    assert "application/x-protobuf" in reply.document["message"]


def test_an_empty_request_and_one_of_metadata_are_accepted(doors: Doors) -> None:
    assert doors.call("POST", METRICS, b"", content_type=PROTOBUF)[0::2] == (200, b"")
    assert send(doors, {}).document == {}
    assert send(doors, metrics({"name": "m", "gauge": {}}, {"name": "n"})).document == {}
    assert send(doors, {"resourceLogs": [{}]}, JSON, LOGS).document == {}


def test_gzip_is_inflated_and_a_bomb_is_not(doors: Doors) -> None:
    body = gzip.compress(json.dumps(metrics(gauge(point(1)))).encode())
    assert doors.call("POST", METRICS, body, content_type=JSON, content_encoding="gzip").status == 200
    assert len(doors.events()) == 1
    bomb = doors.call("POST", METRICS, gzip.compress(b"\0" * 9_000_000), content_type=PROTOBUF)
    assert (bomb.status, Status.FromString(bomb.body).code) == (413, 8)


def test_deflate_is_inflated_within_the_same_bounds(doors: Doors) -> None:
    body = zlib.compress(json.dumps(metrics(gauge(point(1)))).encode())
    more: dict[str, Any] = {"content_type": JSON, "content_encoding": "deflate"}
    assert doors.call("POST", METRICS, body, **more).status == 200
    assert len(doors.events()) == 1
    assert doors.call("POST", METRICS, body[:-9], **more).status == 400
    assert doors.call("POST", METRICS, zlib.compress(b" " * 9_000_000), **more).status == 413
    # The gateway inflates such a body itself.
    assert doors.call("POST", METRICS, json.dumps(metrics(gauge(point(2, T + 1)))), **more).status == 200


def test_the_path_names_the_stream_or_the_configuration_does(doors: Doors) -> None:
    route = "/v1/streams/{stream}/otlp/v1/metrics"
    body = json.dumps(metrics(gauge(point(1)))).encode()
    assert doors.call("POST", route, body, stream="quakes", content_type=JSON).status == 200
    reply = doors.call("POST", route, body, stream="nosuch", content_type=JSON)
    assert (reply.status, reply.document["code"]) == (404, 5)
    doors.config = type(doors.config)(streams=doors.config.streams)
    assert DOORS.otlp_metrics == "quakes"
    reply = send(doors, metrics(gauge(point(1))))
    assert (reply.status, reply.document["code"]) == (404, 5)
    assert "/v1/streams/NAME/otlp" in reply.document["message"]
    assert "otlp_metrics in [doors]" in reply.document["message"]


def test_a_key_that_may_not_write_is_403(doors: Doors) -> None:
    doors.caller = {"key_id": "k", "streams": "other", "can": "write", "series_prefix": ""}
    reply = send(doors, metrics(gauge(point(1))), PROTOBUF)
    assert (reply.status, Status.FromString(reply.body).code) == (403, 7)


def test_what_a_resource_has_in_common_may_not_grow_without_bound(doors: Doors) -> None:
    """A body of 90 KB would be 2.4 MB of events: 80 KB of resource in each of 30 points."""
    resource = {"attributes": [text("long", "x" * 80_000)]}
    points = [point(1, T + n * 1000) for n in range(30)]
    for kind in (JSON, PROTOBUF):
        reply = send(doors, metrics(gauge(*points), resource=resource), kind)
        assert reply.status == 413
    assert doors.events() == []
    assert send(doors, metrics(gauge(*points[:2]), resource=resource)).status == 200


def test_a_resource_is_read_once_per_scope_and_not_for_empty_scopes(
    doors: Doors, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []

    def nest(pairs: Any) -> dict[str, Any]:
        read.append(1)
        return dict(pairs)

    monkeypatch.setattr("tidetable.dialects.otlp.nest", nest)
    document = metrics(gauge(point(1)))
    scopes = document["resourceMetrics"][0]["scopeMetrics"]
    scopes[0]["metrics"] *= 100
    scopes += [{}] * 1000
    assert send(doors, document).status == 200
    assert len(read) < 5


def test_more_points_than_the_limit_are_413(doors: Doors) -> None:
    assert send(doors, metrics(gauge(*[point(1, T + n * 1000) for n in range(500)]))).status == 200
    reply = send(doors, metrics(gauge(*[{}] * 501)))
    assert (reply.status, reply.document["code"]) == (413, 8)


def test_a_message_of_nothing_but_empty_messages_is_refused_before_it_is_converted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("parsers.otlp.MOST_MESSAGES", 1000)
    doors = Doors(config())
    for body in (b"\x0a\x00" * 2000, _field(1, _field(2, b"\x12\x00" * 2000))):
        assert doors.call("POST", METRICS, body, content_type=PROTOBUF).status == 413
    attributes = _field(1, _field(2, _field(2, b"\x32\x00" * 2000)))
    assert doors.call("POST", LOGS, attributes, content_type=PROTOBUF).status == 413


def test_values_nested_beyond_the_limits_are_refused_and_nothing_breaks(doors: Doors) -> None:
    value: dict[str, Any] = {"stringValue": "end"}
    for _ in range(40):
        value = {"arrayValue": {"values": [value]}}
    record = {"timeUnixNano": str(T), "body": value}
    for kind in (JSON, PROTOBUF):
        reply = send(doors, logs(record), kind, LOGS)
        # Protobuf itself stops at 100 levels of messages.
        assert reply.status in (200, 400)
        assert reply.body not in (b"{}", b"")
    deep = b'{"arrayValue":{"values":[' * 20_000 + b"{}" + b"]}}" * 20_000
    limit = Doors(config({"max_body": 4_000_000}))
    body = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":' + deep + b"}]}]}]}"
    assert limit.call("POST", LOGS, body, content_type=JSON).status == 400
    assert doors.events() == limit.events() == []


def _field(number: int, body: bytes) -> bytes:
    """A field of protobuf that holds a message or text."""
    length, size = b"", len(body)
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + body
