"""An event that is larger than DynamoDB's item, at each door: it alone is refused in the door's form, or stored outside."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.worlds import influx, otlp
from tests.worlds.doors import Doors, Reply, config
from tidetable.config.stream import LargePolicy

TIME = "2026-03-01T00:04:00Z"
# As an item 410,000 bytes and some more. DynamoDB takes 409,600.
LARGE, FITS = "x" * 410_000, "x" * 400_000
API = {"max_body": 4_000_000}
REASON = "DynamoDB holds at most 409600"


def send_influx(doors: Doors, text: str, route: str) -> Reply:
    """Two points beside a point with a text."""
    lines = [f'load,host={name} text="{value}" {influx.T}' for name, value in (("a", "x"), ("b", text), ("c", "x"))]
    return influx.write(doors, "\n".join(lines), route)


def send_metrics(doors: Doors, text: str, kind: str) -> Reply:
    found = [
        otlp.gauge(otlp.point(1, attributes=[otlp.text("note", value)]), name=name)
        for name, value in (("a", "x"), ("b", text), ("c", "x"))
    ]
    return otlp.send(doors, otlp.metrics(*found), kind)


def send_logs(doors: Doors, text: str, kind: str) -> Reply:
    records = [
        {"timeUnixNano": str(otlp.T + n), "body": {"stringValue": value}} for n, value in enumerate(("x", text, "y"))
    ]
    return otlp.send(doors, otlp.logs(*records), kind, otlp.LOGS)


def make_cloud_event(id: str, text: str) -> dict[str, Any]:
    return {"specversion": "1.0", "id": id, "source": "/s", "type": "t", "time": TIME, "data": {"text": text}}


def send_events(doors: Doors, *texts: str) -> Reply:
    events = [make_cloud_event(str(number), text) for number, text in enumerate(texts)]
    batch = len(events) > 1
    return doors.call(
        "POST",
        "/v1/streams/{stream}/cloudevents",
        json.dumps(events if batch else events[0]),
        stream="quakes",
        content_type="application/cloudevents-batch+json" if batch else "application/cloudevents+json",
    )


def send_binary_event(doors: Doors, text: str) -> Reply:
    names: dict[str, Any] = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/s", "ce_type": "t", "ce_time": TIME}
    return doors.call(
        "POST",
        "/v1/streams/{stream}/cloudevents",
        json.dumps({"text": text}),
        stream="quakes",
        content_type="application/json",
        **names,
    )


def send_records(doors: Doors, text: str) -> Reply:
    records = [
        {"data": base64.b64encode(json.dumps({"series": name, "time": TIME, "text": value}).encode()).decode()}
        for name, value in (("a", "x"), ("b", text), ("c", "x"))
    ]
    return doors.call(
        "POST",
        "/v1/streams/{stream}/firehose",
        json.dumps({"requestId": "r", "timestamp": 1_772_323_440_000, "records": records}),
        stream="quakes",
        content_type="application/json",
        x_amz_firehose_request_id="r",
        x_amz_firehose_protocol_version="1.0",
    )


def count_rejected(reply: Reply, kind: str, field: str) -> tuple[int, str]:
    """The partial success of an answer of OTLP."""
    if kind == otlp.JSON:
        partial = reply.document["partialSuccess"]
        return int(partial[field]), partial["errorMessage"]
    from google.protobuf import json_format
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

    answer: Any = ExportLogsServiceResponse() if "Log" in field else ExportMetricsServiceResponse()
    answer.ParseFromString(reply.body)
    partial = json_format.MessageToDict(answer)["partialSuccess"]
    return int(partial[field]), partial["errorMessage"]


def check_influx_1(reply: Reply) -> None:
    assert (reply.status, REASON in reply.document["error"]) == (400, True)
    assert "partial write" in reply.document["error"]


def check_influx_2(reply: Reply) -> None:
    assert (reply.status, reply.document["code"], REASON in reply.document["message"]) == (
        422,
        "unprocessable entity",
        True,
    )


def check_influx_3(reply: Reply) -> None:
    (line,) = reply.document["data"]
    assert (reply.status, line["line_number"], REASON in line["error_message"]) == (400, 2, True)


def check_firehose(reply: Reply) -> None:
    assert (reply.status, REASON in reply.document["errorMessage"]) == (400, True)


def check_events(reply: Reply) -> None:
    assert (reply.status, reply.document["code"]) == (422, "some_refused")
    (error,) = reply.document["errors"]
    assert (error["index"], error["code"], REASON in error["detail"]) == (1, "too_large", True)


def check_otlp(kind: str, field: str) -> Callable[[Reply], None]:
    def check(reply: Reply) -> None:
        count, message = count_rejected(reply, kind, field)
        assert (reply.status, count, REASON in message) == (200, 1, True)

    return check


DOORS: dict[str, tuple[Callable[[Doors, str], Reply], Callable[[Reply], None]]] = {
    "influx 1": (lambda doors, text: send_influx(doors, text, influx.V1), check_influx_1),
    "influx 2": (lambda doors, text: send_influx(doors, text, influx.V2), check_influx_2),
    "influx 3": (lambda doors, text: send_influx(doors, text, influx.V3), check_influx_3),
    "metrics in JSON": (
        lambda doors, text: send_metrics(doors, text, otlp.JSON),
        check_otlp(otlp.JSON, "rejectedDataPoints"),
    ),
    "metrics in protobuf": (
        lambda doors, text: send_metrics(doors, text, otlp.PROTOBUF),
        check_otlp(otlp.PROTOBUF, "rejectedDataPoints"),
    ),
    "logs in JSON": (
        lambda doors, text: send_logs(doors, text, otlp.JSON),
        check_otlp(otlp.JSON, "rejectedLogRecords"),
    ),
    "logs in protobuf": (
        lambda doors, text: send_logs(doors, text, otlp.PROTOBUF),
        check_otlp(otlp.PROTOBUF, "rejectedLogRecords"),
    ),
    "cloudevents": (lambda doors, text: send_events(doors, "x", text, "x"), check_events),
    "firehose": (send_records, check_firehose),
}


@pytest.mark.parametrize("name", DOORS)
def test_an_event_larger_than_an_item_is_refused_alone(name: str) -> None:
    send, check = DOORS[name]
    doors = Doors(config(API))
    check(send(doors, LARGE))
    assert len(doors.events()) == 2
    assert doors.overflow.queued == []


@pytest.mark.parametrize("name", DOORS)
def test_an_event_that_just_fits_is_stored(name: str) -> None:
    doors = Doors(config(API))
    assert DOORS[name][0](doors, FITS).status in (200, 204)
    assert len(doors.events()) == 3


@pytest.mark.parametrize("name", DOORS)
def test_a_stream_whose_policy_keeps_large_values_takes_the_event(name: str) -> None:
    doors = Doors(config(API, large=LargePolicy(beyond="s3")))
    assert DOORS[name][0](doors, LARGE).status in (200, 204)
    assert len(doors.events()) == 3


@pytest.mark.parametrize("send", [send_events, send_binary_event])
def test_a_single_event_of_cloudevents_is_refused_whole(send: Callable[[Doors, str], Reply]) -> None:
    doors = Doors(config(API))
    reply = send(doors, LARGE)
    assert (reply.status, reply.document["code"]) == (422, "all_refused")
    assert reply.document["errors"][0]["code"] == "too_large"
    assert (doors.events(), doors.overflow.queued) == ([], [])


def test_a_write_that_accepts_no_part_stores_nothing() -> None:
    doors = Doors(config(API))
    lines = [f'load,host={name} text="{value}" {influx.T}' for name, value in (("a", "x"), ("b", LARGE))]
    reply = influx.write(doors, "\n".join(lines), influx.V3, "accept_partial=false")
    assert (reply.status, doors.events()) == (400, [])
