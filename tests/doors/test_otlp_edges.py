"""OTLP at its edges: fields that few senders set, numbers beyond 64 bits, and what bounds a request."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

import doors.parsers.otlp
from doors.door import DoorRequest
from doors.otlp_door import OtlpDoor
from tests.worlds.doors import Doors, config
from tests.worlds.otlp import JSON, LOGS, OLD, PROTOBUF, T, gauge, logs, metrics, point, send, text
from tidetable.problems import Problem, ProblemError

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"
BOTH = pytest.mark.parametrize("kind", [JSON, PROTOBUF])
AT = datetime(2026, 3, 1, tzinfo=UTC)


def ids(kind: str) -> dict[str, str]:
    """The ids of a trace and a span: JSON has them in hexadecimal digits, and the parser of protobuf's JSON in base64."""
    found = {"traceId": TRACE, "spanId": SPAN}
    if kind == JSON:
        return {name: id.upper() for name, id in found.items()}
    return {name: base64.b64encode(bytes.fromhex(id)).decode() for name, id in found.items()}


@BOTH
def test_a_record_keeps_what_few_senders_set(doors: Doors, kind: str) -> None:
    record = {
        "timeUnixNano": str(T),
        "observedTimeUnixNano": str(T),
        "flags": 1,
        "droppedAttributesCount": 3,
        "eventName": "login",
        "body": {"doubleValue": "NaN"},
        **ids(kind),
    }
    document: dict[str, Any] = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    assert send(doors, document, kind, LOGS).status == 200
    (event,) = doors.events()
    assert event["series"] == "unknown"
    assert event["data"] == {
        "event": "login",
        "trace_id": TRACE,
        "span_id": SPAN,
        "body_text": "NaN",
        "flags": 1,
        "dropped_attributes": 3,
    }


@BOTH
def test_points_of_every_kind_keep_what_few_senders_set(doors: Doors, kind: str) -> None:
    number = {"timeUnixNano": str(T), "asDouble": 0.5, "exemplars": [{"asDouble": 0.25, **ids(kind)}]}
    histogram = {"timeUnixNano": str(T), "count": "1", "max": 7, "bucketCounts": ["1"]}
    exponential = {
        "timeUnixNano": str(T), "count": "1", "min": -2, "max": 3, "negative": {"offset": 1, "bucketCounts": ["1"]},
    }  # fmt: skip
    found = [
        {"name": "n", "gauge": {"dataPoints": [number]}},
        {"name": "h", "histogram": {"dataPoints": [histogram]}},
        {"name": "e", "exponentialHistogram": {"dataPoints": [exponential]}},
    ]
    document = {"resourceMetrics": [{"scopeMetrics": [{"metrics": found}]}]}
    assert send(doors, document, kind).status == 200
    datas = {event["series"]: event["data"] for event in doors.events()}
    assert datas == {
        "n": {
            "metric": "n",
            "type": "gauge",
            "value": 0.5,
            "exemplars": [{"value": 0.25, "trace_id": TRACE, "span_id": SPAN}],
        },
        "h": {"metric": "h", "type": "histogram", "count": 1, "max": 7, "buckets": [1], "bounds": []},
        "e": {
            "metric": "e", "type": "exponential_histogram", "count": 1, "min": -2, "max": 3, "scale": 0,
            "zero_count": 0, "zero_threshold": 0, "negative": {"offset": 1, "buckets": [1]},
        },
    }  # fmt: skip


def test_a_request_without_scope_has_the_same_id_in_both_encodings() -> None:
    stored = []
    for kind in (JSON, PROTOBUF):
        doors = Doors(config())
        send(doors, {"resourceMetrics": [{"scopeMetrics": [{"metrics": [gauge(point(1))]}]}]}, kind)
        send(doors, {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"timeUnixNano": str(T)}]}]}]}, kind, LOGS)
        stored.append(doors.events())
    assert len(stored[0]) == 2
    assert stored[0] == stored[1]
    assert all("body" not in event["data"] for event in stored[0])


def test_the_order_of_attributes_makes_no_other_event_and_another_start_does(doors: Doors) -> None:
    a, b = text("a", "1"), text("b", "2")
    for pair in ([a, b], [b, a]):
        send(doors, metrics(gauge(point(1, attributes=pair)), resource={"attributes": pair}))
    assert len(doors.events()) == 1
    send(doors, metrics(gauge(point(1, startTimeUnixNano=str(T - 10**9), attributes=[a, b]), name="load"),
                        resource={"attributes": [a, b]}))  # fmt: skip
    assert len(doors.events()) == 2


def test_records_of_scopes_that_differ_in_one_attribute_are_two(doors: Doors) -> None:
    nested = {"key": "a", "value": {"kvlistValue": {"values": [text("b", "1")]}}}
    for attribute in (text("a.b", "1"), nested):
        document = logs({"timeUnixNano": str(T)})
        document["resourceLogs"][0]["scopeLogs"][0]["scope"]["attributes"] = [attribute]
        assert send(doors, document, JSON, LOGS).status == 200
    assert len(doors.events()) == 2


@pytest.mark.parametrize(
    ("value", "fits"),
    [(2**64 - 1, True), (2**64, False), (-(2**63), True), (-(2**63) - 1, False), ("x", False), ("--1", False)],
)
def test_whole_numbers_have_64_bits(doors: Doors, value: Any, fits: bool) -> None:
    reply = send(doors, logs({"timeUnixNano": str(T), "body": {"intValue": str(value)}}), JSON, LOGS)
    assert (reply.status, "partialSuccess" in reply.document) == (200, not fits)
    assert [int(event["data"]["body"]) for event in doors.events()] == ([value] if fits else [])


def test_refused_records_are_counted_each(doors: Doors) -> None:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

    reply = send(doors, logs(*[{"timeUnixNano": str(OLD + n * 1000)} for n in range(3)]), PROTOBUF, LOGS)
    partial = ExportLogsServiceResponse.FromString(reply.body).partial_success
    assert partial.rejected_log_records == 3
    assert "number 2: " in partial.error_message
    assert "more" not in partial.error_message


@pytest.mark.parametrize(("count", "end"), [(3, ""), (5, "; and 2 more")])
def test_three_reasons_are_in_a_message_and_the_others_are_counted(doors: Doors, count: int, end: str) -> None:
    partial = send(doors, metrics(gauge(*[{"asInt": 1}] * count))).document["partialSuccess"]
    reasons = "; ".join(f"number {number}: metric 'load': timeUnixNano is missing" for number in range(3))
    assert partial == {"rejectedDataPoints": str(count), "errorMessage": reasons + end}


def test_what_a_metric_has_in_common_may_grow_to_four_times_the_largest_body(doors: Doors) -> None:
    """Ten kilobytes of a metric's name in each point, of at most 400,000 bytes in all."""
    name = "n" * 10_000
    points = [point(1, T + n * 1000) for n in range(45)]
    assert send(doors, metrics(gauge(*points[:35], name=name), resource={})).status == 200
    assert send(doors, metrics(gauge(*points, name=name), resource={})).status == 413


def test_points_with_many_attributes_are_taken(doors: Doors) -> None:
    found = [point(1, T + n, attributes=[text(f"a{m}", "v") for m in range(20)]) for n in range(30)]
    assert send(doors, metrics(gauge(*found)), PROTOBUF).status == 200
    assert len(doors.events()) == 30


@pytest.mark.parametrize(
    ("metric", "record"),
    [
        ({"gauge": {"dataPoints": [{"timeUnixNano": "1", "exemplars": [{}] * 60}]}}, None),
        ({"histogram": {"dataPoints": [{"timeUnixNano": "1", "exemplars": [{}] * 60}]}}, None),
        ({"exponentialHistogram": {"dataPoints": [{"timeUnixNano": "1", "exemplars": [{}] * 60}]}}, None),
        ({"summary": {"dataPoints": [{"timeUnixNano": "1", "quantileValues": [{}] * 60}]}}, None),
        ({"gauge": {"dataPoints": [{}] * 60}}, None),
        ({"name": "m", "histogram": {"dataPoints": [{"bucketCounts": [1] * 60}]}}, None),
        ({"name": "m", "histogram": {"dataPoints": [{"explicitBounds": [1] * 60}]}}, None),
        ({"name": "m", "exponentialHistogram": {"dataPoints": [{"negative": {"bucketCounts": [1] * 60}}]}}, None),
        (None, {"body": {"arrayValue": {"values": [{}] * 60}}}),
        (None, {"body": {"kvlistValue": {"values": [{}] * 60}}}),
        (None, {"attributes": [{}] * 60}),
    ],
)
def test_every_repeated_message_counts(doors: Doors, metric: Any, record: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("doors.parsers.otlp.MOST_MESSAGES", 50)
    reply = send(doors, metrics(metric), PROTOBUF) if metric else send(doors, logs(record), PROTOBUF, LOGS)
    assert reply.status == 413
    assert b"more than 50 messages and buckets in one request: send fewer points at once" in reply.body


def test_an_empty_value_in_protobuf_is_no_body_and_an_attribute_without_a_value(doors: Doors) -> None:
    """A kind of value from a later version of the protocol is an empty value, too."""
    record = {"timeUnixNano": str(T), "body": {}, "attributes": [{"key": "a", "value": {}}, {"key": "b"}]}
    assert send(doors, logs(record), PROTOBUF, LOGS).status == 200
    (event,) = doors.events()
    assert "body" not in event["data"]
    assert event["data"]["attributes"] == {"a": None, "b": None}


@pytest.mark.parametrize(("points", "status"), [(47, 200), (48, 413)])
def test_as_many_messages_as_the_limit_are_taken(
    doors: Doors, points: int, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resource's metrics, the scope's metrics, the metric, and the points."""
    monkeypatch.setattr("doors.parsers.otlp.MOST_MESSAGES", 50)
    assert send(doors, metrics(gauge(*[{}] * points), resource={}), PROTOBUF).status == status


def test_a_resource_counts_in_each_event_as_its_attributes_and_as_its_data(doors: Doors) -> None:
    """Twice ten kilobytes in each point, of at most 400,000 bytes in all."""
    resource = {"attributes": [text("a", "v" * 10_000)]}
    points = [point(1, T + n * 1000) for n in range(20)]
    assert send(doors, metrics(gauge(*points[:19]), resource=resource)).status == 200
    assert send(doors, metrics(gauge(*points), resource=resource)).status == 413


@pytest.mark.parametrize("depth", [100, 250, 320])
def test_a_deep_value_is_an_answer_and_no_failure(depth: int) -> None:
    doors = Doors(config({"max_body": 4_000_000}))
    deep = b'{"arrayValue":{"values":[' * depth + b"{}" + b"]}}" * depth
    body = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":' + deep + b"}]}]}]}"
    reply = doors.call("POST", LOGS, body, content_type=JSON)
    assert reply.status in (200, 400)
    assert doors.events() == []


def test_a_body_without_a_type_is_415(doors: Doors) -> None:
    assert doors.call("POST", LOGS, json.dumps(logs({}))).status == 415


def test_each_signal_has_a_default_stream_of_its_own() -> None:
    door = OtlpDoor(doors.parsers.otlp, "numbers", "texts")
    assert door.find_stream(DoorRequest("/v1/metrics", AT)) == "numbers"
    assert door.find_stream(DoorRequest("/v1/logs", AT)) == "texts"
    assert door.find_stream(DoorRequest("/v1/streams/{stream}/otlp/v1/logs", AT, stream="own")) == "own"
    for route, key in (("/v1/metrics", "otlp_metrics"), ("/v1/logs", "otlp_logs")):
        with pytest.raises(ProblemError, match=f"set {key} in"):
            OtlpDoor(doors.parsers.otlp).find_stream(DoorRequest(route, AT))


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 3), (401, 16), (403, 7), (404, 5), (413, 8), (415, 3), (422, 3), (429, 8), (500, 13), (503, 14), (418, 2)],
)
def test_every_status_has_a_code_of_rpc(status: int, code: int) -> None:
    """google.rpc.Code: INVALID_ARGUMENT 3, NOT_FOUND 5, PERMISSION_DENIED 7, RESOURCE_EXHAUSTED 8, INTERNAL 13, and so on."""
    answer = OtlpDoor(doors.parsers.otlp).refuse(DoorRequest("/v1/logs", AT), Problem(status, "x", "why"))
    assert (answer.status, json.loads(answer.body)) == (status, {"code": code, "message": "why"})


def test_a_field_that_is_null_has_its_default(doors: Doors) -> None:
    """Protobuf's JSON: null is the default of every field, and a number of 32 bits may be a text."""
    nulls: dict[str, Any] = {"attributes": None, "startTimeUnixNano": None, "exemplars": None, "flags": "2"}
    found = {**gauge(point(5, **nulls)), "unit": None, "description": None, "sum": None}
    document = {"resourceMetrics": [{"resource": None, "scopeMetrics": [{"scope": None, "metrics": [found]}]}]}
    assert send(doors, document).status == 200
    assert [event["data"] for event in doors.events()] == [{"metric": "load", "type": "gauge", "value": 5, "flags": 2}]


def test_a_log_record_whose_other_fields_are_null_is_stored(doors: Doors) -> None:
    record = {
        "timeUnixNano": str(T),
        "severityText": None,
        "attributes": None,
        "traceId": None,
        "body": text("", "x")["value"],
    }
    assert send(doors, {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}, route=LOGS).status == 200
    assert [event["data"] for event in doors.events()] == [{"body": "x"}]
