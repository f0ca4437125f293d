"""Any bytes at any door: never an error of the function, and what is acknowledged is stored."""

import base64
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from handlers import doors as handler
from tests.worlds.doors import Doors, Reply, config, nanos

PROTOBUF, JSON = "application/x-protobuf", "application/json"
T = nanos(60)
DOORS: list[tuple[str, str, str]] = [
    ("/write", "db=quakes", ""),
    ("/api/v2/write", "bucket=quakes", ""),
    ("/api/v3/write_lp", "db=quakes", ""),
    ("/v1/metrics", "", PROTOBUF),
    ("/v1/metrics", "", JSON),
    ("/v1/logs", "", PROTOBUF),
    ("/v1/logs", "", JSON),
    ("/v1/streams/{stream}/cloudevents", "", "application/cloudevents+json"),
    ("/v1/streams/{stream}/cloudevents", "", "application/cloudevents-batch+json"),
    ("/v1/streams/{stream}/firehose", "", JSON),
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_every_door_is_here() -> None:
    routes = {route for route, *_ in DOORS}
    named = {"/v1/streams/{stream}/otlp/v1/metrics", "/v1/streams/{stream}/otlp/v1/logs"}
    assert routes | named == set(handler._DOORS)


def send(doors: Doors, door: tuple[str, str, str], body: bytes) -> Reply:
    route, query, kind = door
    return doors.call(
        "POST", route, body, query=query, stream="quakes" if "{stream}" in route else "", content_type=kind
    )


def check(reply: Reply, doors: Doors, count: int | None = None) -> None:
    assert 200 <= reply.status < 500
    if count is not None and reply.status in (200, 204) and reply.body in (b"", b"{}"):
        assert len(doors.events()) == count


@pytest.mark.parametrize("door", DOORS, ids=str)
@quick
@given(body=st.binary(max_size=200))
def test_any_bytes(door: tuple[str, str, str], body: bytes) -> None:
    doors = Doors(config())
    check(send(doors, door, body), doors)


@pytest.mark.parametrize("door", [door for door in DOORS if door[2] != PROTOBUF and door[2]], ids=str)
@quick
@given(value=VALUES)
def test_any_json(door: tuple[str, str, str], value: Any) -> None:
    doors = Doors(config())
    check(send(doors, door, json.dumps(value).encode()), doors)
    record = {"data": base64.b64encode(json.dumps(value).encode()).decode()}
    check(send(doors, DOORS[-1], json.dumps({"records": [record]}).encode()), doors)


LINES = st.lists(
    st.text(alphabet='mt,= \\"\nvé1i.-eE\r#tru', max_size=20)
    | st.sampled_from([f"cpu v=1 {T}", f'cpu,a=b s="x\ny" {T}']),
    max_size=8,
)


@pytest.mark.parametrize("door", DOORS[:3], ids=str)
@quick
@given(lines=LINES)
def test_lines_that_nearly_are_lines(door: tuple[str, str, str], lines: list[str]) -> None:
    doors = Doors(config())
    reply = send(doors, door, "\n".join(lines).encode())
    check(reply, doors)
    if reply.status == 204 and f"cpu v=1 {T}" in lines:
        # All or nothing of a line: it is an event of its own, or it stands within the text of another.
        stored = [event["data"] for event in doors.events()]
        assert any(data.get("v") == 1 or "cpu v=1" in str(data) for data in stored)


def _message(kind: Any) -> st.SearchStrategy[bytes]:
    """Messages whose bytes are changed in some places."""
    if kind is ExportMetricsServiceRequest:
        request = ExportMetricsServiceRequest()
        metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
        point = metric.histogram.data_points.add(
            time_unix_nano=T, count=1, sum=2.0, bucket_counts=[1], explicit_bounds=[5.0]
        )
        point.attributes.add(key="a").value.array_value.values.add().string_value = "x"
    else:
        request = ExportLogsServiceRequest()
        record = request.resource_logs.add().scope_logs.add().log_records.add(time_unix_nano=T, trace_id=b"12")
        record.body.kvlist_value.values.add(key="k").value.double_value = 0.5
    whole = bytes(request.SerializeToString())
    changes = st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=4)

    def change(places: list[tuple[int, int]]) -> bytes:
        content = bytearray(whole)
        for place, value in places:
            content[place] = value
        return bytes(content)

    return changes.map(change)


@pytest.mark.parametrize(
    ("route", "kind"), [("/v1/metrics", ExportMetricsServiceRequest), ("/v1/logs", ExportLogsServiceRequest)]
)
@quick
@given(data=st.data())
def test_messages_that_nearly_are_messages(route: str, kind: Any, data: st.DataObject) -> None:
    doors = Doors(config())
    body = data.draw(_message(kind))
    reply = send(doors, (route, "", PROTOBUF), body)
    check(reply, doors)
    try:
        request = kind.FromString(body)
    except Exception:
        return
    if route == "/v1/logs":
        count = sum(len(scoped.log_records) for owner in request.resource_logs for scoped in owner.scope_logs)
        check(reply, doors, count)
