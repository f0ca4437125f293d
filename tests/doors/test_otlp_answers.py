"""OTLP: what the answers say of refused points and failures, and which bodies are refused."""

import gzip
import json
import zlib
from typing import Any

import pytest
from google.protobuf import json_format
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from tests.worlds.doors import DOORS, Doors, config
from tests.worlds.otlp import JSON, LOGS, METRICS, OLD, PROTOBUF, T, gauge, logs, metrics, point, send, text


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
    # All of the JSON is there, but not the end of its checksum.
    cut = doors.call("POST", METRICS, body[:-2], **more)
    assert (cut.status, b"cut short" in cut.body, len(doors.events())) == (400, True, 1)
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

    monkeypatch.setattr("doors.otlp.nest_attributes", nest)
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
    monkeypatch.setattr("doors.parsers.otlp.MOST_MESSAGES", 1000)
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


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("route", [METRICS, LOGS])
def test_an_answer_without_an_accept_header_is_text_and_whole(doors: Doors, route: str, count: int) -> None:
    """Go's exporters send no Accept header, and a gateway decodes Base64 by that header."""
    name = "\u00e9" * 90
    document = (
        metrics(gauge(*[point(1, OLD)] * count, name=name))
        if route == METRICS
        else logs(*[{"timeUnixNano": str(OLD)}] * count)
    )
    message = json_format.ParseDict(
        document, ExportMetricsServiceRequest() if route == METRICS else ExportLogsServiceRequest()
    )
    reply = doors.call("POST", route, message.SerializeToString(), content_type=PROTOBUF)
    assert (reply.status, doors.encoded, reply.headers["content-type"]) == (200, False, PROTOBUF)
    answer = (ExportMetricsServiceResponse if route == METRICS else ExportLogsServiceResponse).FromString(reply.body)
    assert 0 < len(answer.partial_success.error_message) <= 120
    assert answer.partial_success.error_message.startswith("number 0: 2026-02-20T00:05:00.000000Z is before")
    rejected = (
        answer.partial_success.rejected_data_points if route == METRICS else answer.partial_success.rejected_log_records
    )
    assert rejected == count


def test_an_error_without_an_accept_header_is_text_and_whole(doors: Doors) -> None:
    reply = doors.call("POST", METRICS, b"not a message", content_type=PROTOBUF)
    assert (reply.status, doors.encoded) == (400, False)
    assert Status.FromString(reply.body).message.startswith("the body is not OTLP in protobuf")


def test_an_answer_that_is_not_text_is_base64(doors: Doors) -> None:
    """200 refused points: the number takes two bytes, which are not UTF-8."""
    document = metrics(gauge(*[point(1, OLD)] * 200))
    message = json_format.ParseDict(document, ExportMetricsServiceRequest())
    reply = doors.call("POST", METRICS, message.SerializeToString(), content_type=PROTOBUF, accept="*/*")
    assert doors.encoded
    assert ExportMetricsServiceResponse.FromString(reply.body).partial_success.rejected_data_points == 200
