"""OTLP in JSON: the grammar of ProtoJSON, and what is refused alone; points whose source had no value to report."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from tests.worlds.doors import Doors
from tests.worlds.otlp import JSON, LOGS, METRICS, PROTOBUF, T, gauge, logs, metrics, point, send, text

STAMP = str(T)
KINDS: dict[str, dict[str, Any]] = {
    "gauge": {"asDouble": 0},
    "sum": {"asInt": "0"},
    "histogram": {"count": "0", "sum": 0, "min": 0, "max": 0, "bucketCounts": ["0", "0"], "explicitBounds": [1]},
    "exponentialHistogram": {
        "count": "0", "sum": 0, "min": 0, "max": 0, "scale": 3, "zeroCount": "1", "zeroThreshold": 0.5,
        "positive": {"offset": 1, "bucketCounts": ["0"]}, "negative": {"bucketCounts": ["0"]},
    },
    "summary": {"count": "0", "sum": 0, "quantileValues": [{"quantile": 0.5, "value": 0}]},
}  # fmt: skip
MEASURED = {"value", "value_text", "count", "sum", "min", "max", "bounds", "buckets", "scale", "zero_count",
            "zero_threshold", "positive", "negative", "quantiles"}  # fmt: skip


@pytest.mark.parametrize("encoding", [JSON, PROTOBUF])
@pytest.mark.parametrize("flags", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_point_of_any_kind_without_a_recorded_value_has_no_values(
    doors: Doors, kind: str, flags: int, encoding: str
) -> None:
    attributes = [text("a", "b")]
    found = [
        {"timeUnixNano": STAMP, "startTimeUnixNano": STAMP, "flags": flags, "attributes": attributes, **KINDS[kind]},
        {"timeUnixNano": str(T + 1000), "flags": 2, **KINDS[kind]},
    ]
    assert send(doors, metrics({"name": "m", kind: {"dataPoints": found}}), encoding).status == 200
    silent, usual = (event["data"] for event in doors.events())
    assert silent["flags"] == flags
    assert MEASURED.isdisjoint(silent)
    assert (silent["attributes"], silent["start"], silent["metric"]) == ({"a": "b"}, "2026-03-01T00:04:00.000000Z", "m")
    assert not MEASURED.isdisjoint(usual)


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"asDouble": 1}, Decimal("1.0")),
        ({"asDouble": "1.50"}, Decimal("1.5")),
        ({"asDouble": "-2.5e-3"}, Decimal("-0.0025")),
        ({"asInt": "12"}, 12),
        ({"asInt": 12}, 12),
        ({"asInt": 1.2e1}, 12),
        ({"asInt": "1.2e1"}, 12),
        ({"asInt": "-9223372036854775808"}, -(2**63)),
    ],
)
def test_numbers_in_every_form_of_protojson(doors: Doors, fields: dict[str, Any], value: Any) -> None:
    for stamp in (STAMP, T, float(T), f"{T / 10**9:.0f}e9"):
        assert send(doors, metrics(gauge({"timeUnixNano": stamp, **fields}))).document == {}
    assert [(event["data"]["value"], event["time"]) for event in doors.events()] == [
        (value, "2026-03-01T00:04:00.000000Z")
    ]


BAD_POINTS: list[Any] = [
    {"asDouble": "1_0"},
    {"asDouble": " 1"},
    {"asDouble": "inf"},
    {"asDouble": "nan"},
    {"asDouble": "infinity"},
    {"asDouble": "+1"},
    {"asDouble": "0x10"},
    {"asDouble": ""},
    {"asDouble": "1e400"},
    {"asDouble": True},
    {"asInt": "1_0"},
    {"asInt": "1.5"},
    {"asInt": 1.5},
    {"asInt": "18446744073709551616"},
    {"asInt": False},
    {"asInt": []},
    {"timeUnixNano": "1e30"},
    {"timeUnixNano": -1},
    {"timeUnixNano": {}},
    {"flags": "x"},
    {"attributes": 5},
    {"attributes": [{"key": 5}]},
    {"attributes": [{"key": "a", "value": {"intValue": "x"}}]},
    {"attributes": [{"key": "a", "value": {"bytesValue": "*"}}]},
    {"attributes": [{"key": "a", "value": {"bytesValue": "AAAAA"}}]},
    {"attributes": [{"key": "a", "value": {"stringValue": 5}}]},
]


@pytest.mark.parametrize("bad", BAD_POINTS, ids=str)
def test_a_bad_point_is_refused_alone(doors: Doors, bad: dict[str, Any]) -> None:
    value = {} if "asDouble" in bad else {"asInt": "2"}
    found = [point(1), {"timeUnixNano": STAMP, **value, **bad}, point(3, T + 1000)]
    reply = send(doors, metrics(gauge(*found)))
    assert reply.status == 200
    partial = reply.document["partialSuccess"]
    assert partial["rejectedDataPoints"] == "1"
    assert partial["errorMessage"].startswith("number 1: metric 'load': ")
    assert [event["data"]["value"] for event in doors.events()] == [1, 3]


def test_a_number_beyond_all_floats_refuses_its_point(doors: Doors) -> None:
    body = json.dumps(metrics(gauge(point(1), point(0.25)))).replace("0.25", "1e400").encode()
    reply = doors.call("POST", METRICS, body, content_type=JSON)
    assert (reply.status, reply.document["partialSuccess"]["rejectedDataPoints"]) == (200, "1")
    assert [event["data"]["value"] for event in doors.events()] == [1]


@pytest.mark.parametrize(
    "change",
    [
        {"resource": {"attributes": 5}},
        {"resource": {"attributes": [{"key": "n", "value": {"intValue": "x"}}]}},
        {"scopeMetrics": [{"scope": {"name": 5}, "metrics": [gauge(point(1))]}]},
        {"scopeMetrics": [{"metrics": [gauge(point(1)) | {"name": 5}]}]},
        {"scopeMetrics": [{"metrics": [gauge(point(1)) | {"unit": []}]}]},
        {
            "scopeMetrics": [
                {"metrics": [{"name": "m", "sum": {"dataPoints": [point(1)], "aggregationTemporality": "X"}}]}
            ]
        },
        {
            "scopeMetrics": [
                {"metrics": [{"name": "m", "sum": {"dataPoints": [point(1)], "aggregationTemporality": []}}]}
            ]
        },
        {"scopeMetrics": [{"metrics": [{"name": "m", "sum": {"dataPoints": [point(1)], "isMonotonic": "yes"}}]}]},
    ],
    ids=str,
)
def test_what_is_bad_above_points_refuses_only_these_points(doors: Doors, change: dict[str, Any]) -> None:
    document = metrics(gauge(point(1)))
    document["resourceMetrics"][0] |= change
    document["resourceMetrics"] += metrics(gauge(point(7), name="other"))["resourceMetrics"]
    reply = send(doors, document)
    assert (reply.status, reply.document["partialSuccess"]["rejectedDataPoints"]) == (200, "1")
    assert [event["data"]["value"] for event in doors.events()] == [7]


@pytest.mark.parametrize(
    "bad",
    [{"timeUnixNano": "x"}, {"severityNumber": "LOUD"}, {"body": 5}, {"attributes": {}}, {"severityText": 5}],
    ids=str,
)
def test_a_bad_record_is_refused_alone(doors: Doors, bad: dict[str, Any]) -> None:
    found = [{"timeUnixNano": STAMP, "body": {"stringValue": word}} for word in ("a", "b", "c")]
    found[1] |= bad
    reply = send(doors, logs(*found), JSON, LOGS)
    assert (reply.status, reply.document["partialSuccess"]["rejectedLogRecords"]) == (200, "1")
    assert sorted(event["data"]["body"] for event in doors.events()) == ["a", "c"]


def test_a_bad_resource_refuses_the_records_of_its_own(doors: Doors) -> None:
    document = logs({"timeUnixNano": STAMP}, {"timeUnixNano": STAMP})
    document["resourceLogs"][0]["resource"] = []
    document["resourceLogs"] += logs({"timeUnixNano": STAMP, "body": {"stringValue": "a"}})["resourceLogs"]
    reply = send(doors, document, JSON, LOGS)
    assert reply.document["partialSuccess"]["rejectedLogRecords"] == "2"
    assert [event["data"]["body"] for event in doors.events()] == ["a"]


@pytest.mark.parametrize("null", [point(2), point(2, exemplars=None) | {"flags": "2"}], ids=["typed", "one by one"])
def test_points_of_a_request_with_a_bad_point_are_stored_as_usual(doors: Doors, null: dict[str, Any]) -> None:
    """Each point is decoded by itself then, and an event must not depend on that."""
    total = {"aggregationTemporality": "AGGREGATION_TEMPORALITY_DELTA", "isMonotonic": True, "dataPoints": [null]}
    document = metrics({"name": "m", "unit": "s", "sum": total}, gauge(point("x")), {"name": "empty", "gauge": {}})
    document["resourceMetrics"][0]["scopeMetrics"][0]["scope"] = {"name": "lib", "attributes": [text("a", "b")]}
    send(doors, document)
    document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].append(gauge(point(5, flags=[])))
    send(doors, document)
    (event,) = doors.events()
    assert event["series"] == "m{scope:a=b,service.name=shop}"
    assert (event["data"]["temporality"], event["data"]["monotonic"], event["data"]["unit"]) == ("delta", True, "s")
    assert event["data"]["resource"] == {"service": {"name": "shop"}, "telemetry": {"sdk": {"version": "1"}}}


@pytest.mark.parametrize(
    ("sent", "number"),
    [("SEVERITY_NUMBER_INFO", 9), ("SEVERITY_NUMBER_TRACE", 1), ("SEVERITY_NUMBER_FATAL4", 24), (17, 17), ("17", 17)],
)
def test_a_severity_may_be_a_name(doors: Doors, sent: Any, number: int) -> None:
    assert send(doors, logs({"timeUnixNano": STAMP, "severityNumber": sent}), JSON, LOGS).document == {}
    assert [event["data"]["severity"] for event in doors.events()] == [number]


@pytest.mark.parametrize("sent", ["+/8=", "-_8=", "-_8", "+/8"])
def test_bytes_in_every_alphabet_are_stored_alike(doors: Doors, sent: str) -> None:
    attributes = [{"key": "a", "value": {"bytesValue": sent}}]
    assert send(doors, logs({"timeUnixNano": STAMP, "attributes": attributes}), JSON, LOGS).document == {}
    assert [event["data"]["attributes"] for event in doors.events()] == [{"a": "+/8="}]


def test_the_original_names_of_fields_are_read(doors: Doors) -> None:
    """OTLP does not allow them. But it ignores unknown fields, so the points would be lost, and the answer 200."""
    found = {"time_unix_nano": STAMP, "as_int": "1", "attributes": [text("time_unix_nano", "resource_metrics")]}
    scope = {"metrics": [{"name": "as_int", "gauge": {"data_points": [found]}}]}
    assert send(doors, {"resource_metrics": [{"scope_metrics": [scope]}]}).document == {}
    assert [(event["series"], event["data"]["value"]) for event in doors.events()] == [
        ("as_int{time_unix_nano=resource_metrics}", 1)
    ]
    record = {"observed_time_unix_nano": STAMP, "severity_number": 9}
    assert send(doors, {"resource_logs": [{"scope_logs": [{"log_records": [record]}]}]}, JSON, LOGS).document == {}
    assert doors.events()[1]["data"] == {"severity": 9}


@pytest.mark.parametrize("route", [METRICS, LOGS])
def test_a_byte_order_mark_is_skipped(doors: Doors, route: str) -> None:
    document = metrics(gauge(point(1))) if route == METRICS else logs({"timeUnixNano": STAMP})
    body = b"\xef\xbb\xbf" + json.dumps(document).encode()
    assert doors.call("POST", route, body, content_type=JSON).status == 200
    assert len(doors.events()) == 1


@pytest.mark.parametrize("half", ["\\ud83d", "\\uDE00", "a\\ud83d\\ud83d\\ude00"])
@pytest.mark.parametrize("route", [METRICS, LOGS])
def test_half_of_a_surrogate_pair_refuses_its_point_alone(doors: Doors, route: str, half: str) -> None:
    """JavaScript's programs send it, if they cut a text within an emoji."""
    whole = [text("a", "HALF"), text("b", "\U0001f600 \\ud83d")]
    if route == METRICS:
        document = metrics(gauge(point(1, attributes=whole[:1]), point(2, attributes=whole[1:])))
    else:
        document = logs(
            {"timeUnixNano": STAMP, "attributes": whole[:1]}, {"timeUnixNano": STAMP, "attributes": whole[1:]}
        )
    reply = doors.call("POST", route, json.dumps(document).replace("HALF", half), content_type=JSON)
    assert reply.status == 200
    assert "half of a surrogate pair" in reply.document["partialSuccess"]["errorMessage"]
    # A pair stays, and so does a text that only looks like an escape.
    assert [event["data"]["attributes"] for event in doors.events()] == [{"b": "\U0001f600 \\ud83d"}]


def test_ids_of_traces_that_are_not_hexadecimal_keep_their_letters(doors: Doors) -> None:
    """Some senders write them in base64, in which letters of another case are another id."""
    sent = ["0AF7651916CD43DD8448EB211C80319C", "CvdlGRbNQ92ESOshHIAxnA==", "cVdlGRbNQ92ESOshHIAxnA=="]
    for trace in sent:
        assert send(doors, logs({"timeUnixNano": STAMP, "traceId": trace}), JSON, LOGS).document == {}
    assert sorted(event["data"]["trace_id"] for event in doors.events()) == [sent[0].lower(), sent[1], sent[2]]


def test_null_is_neither_a_point_nor_a_record(doors: Doors) -> None:
    """ProtoJSON: null is a field's default, but not an element of a list."""
    nothing: Any = None
    reply = send(doors, metrics(gauge(point(1), nothing)))
    assert reply.document["partialSuccess"]["errorMessage"] == "number 1: metric 'load': it is null"
    reply = send(doors, logs({"timeUnixNano": STAMP}, nothing), JSON, LOGS)
    assert reply.document["partialSuccess"]["errorMessage"] == "number 1: log record: it is null"
    assert len(doors.events()) == 2


@pytest.mark.parametrize("bad", [{"count": "-1"}, {"count": -1}, {"bucketCounts": ["1", "-1"]}], ids=str)
def test_a_count_is_not_negative(doors: Doors, bad: dict[str, Any]) -> None:
    found = [{"timeUnixNano": STAMP, "count": "1", **bad}, {"timeUnixNano": STAMP, "count": "2"}]
    reply = send(doors, metrics({"name": "m", "histogram": {"dataPoints": found}}))
    assert reply.document["partialSuccess"]["errorMessage"] == "number 0: metric 'm': -1 is not a count"
    assert [event["data"]["count"] for event in doors.events()] == [2]
