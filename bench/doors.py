"""CPU per point of the doors of InfluxDB and OpenTelemetry, compared with the same number of events sent to the API.

All run in one process down to the socket, as in ``bench/ingest.py``. The points of a request are of 40 series.
"""

from __future__ import annotations

import base64
import logging
import os
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from statistics import median
from typing import Any
from unittest import mock

from bench.function import ROOT, Context

# isort: split
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

import settings
from bench.deployed import restart_as_deployed
from bench.ingest import EVENTS, STREAM, Handler, make_our_handler, make_request
from bench.results import note_ratios
from bench.stub import run_stub
from handlers import doors

ROUNDS = 25
SECOND = 10**9


def make_lines(now: int) -> dict[str, Any]:
    """Lines of InfluxDB: two numbers and a text, with two tags."""
    lines = [
        f'quakes,station=station-{n % 40},place=10\\ km\\ NE mag=1.25,depth=4.2,status="reviewed" {now - n * SECOND}'
        for n in range(EVENTS)
    ]
    request = _make_request("/api/v2/write", "text/plain", "\n".join(lines))
    return {**request, "multiValueQueryStringParameters": {"bucket": [STREAM], "precision": ["ns"]}}


def make_metrics(now: int) -> dict[str, Any]:
    """Gauges in protobuf, with three attributes and a resource."""
    export = ExportMetricsServiceRequest()
    resource = export.resource_metrics.add()
    _add_attributes(resource.resource, {"service.name": "shop"})
    scope = resource.scope_metrics.add()
    for number in range(5):
        metric = scope.metrics.add(name=f"orders.{number}", unit="1")
        for n in range(EVENTS // 5):
            point = metric.gauge.data_points.add(time_unix_nano=now - n * SECOND, as_double=1.25 * n)
            _add_attributes(point, {"station": f"station-{n % 40}", "place": "10 km NE", "status": "reviewed"})
    body = base64.b64encode(export.SerializeToString()).decode()
    request = _make_request("/v1/streams/{stream}/otlp/v1/metrics", "application/x-protobuf", body)
    return {**request, "isBase64Encoded": True, "pathParameters": {"stream": STREAM}}


def _add_attributes(owner: Any, attributes: Mapping[str, str]) -> None:
    for name, value in attributes.items():
        owner.attributes.add(key=name).value.string_value = value


def _make_request(resource: str, kind: str, body: str) -> dict[str, Any]:
    return {
        "httpMethod": "POST",
        "resource": resource,
        "headers": {"Content-Type": kind},
        "requestContext": {"requestId": "bench", "stage": "v1"},
        "body": body,
        "isBase64Encoded": False,
    }


def measure_cpu(handler: Handler, event: dict[str, Any]) -> float:
    """Microseconds of CPU per event, in the second of two calls: the first call fills caches that other sides used."""
    handler(event)
    begun = time.process_time()
    answer = handler(event)
    spent = time.process_time() - begun
    assert answer["statusCode"] in (200, 204), answer
    return spent / EVENTS * 1e6


def main() -> None:
    """Measure all sides alternately, many times, and print the medians."""
    logging.disable(logging.CRITICAL)
    now = datetime.now(UTC)
    nanos = int(now.timestamp()) * SECOND
    silent = mock.patch("sys.stdout.write", lambda text: len(text))  # the metrics' lines
    environ = mock.patch.dict(os.environ)
    with run_stub() as endpoint, environ, mock.patch.object(settings, "CONFIG_FILE", ROOT / "tidetable.toml"):
        os.environ["AWS_ENDPOINT_URL"] = endpoint
        handle_door: Callable[[dict[str, Any]], dict[str, Any]] = lambda event: doors.handler(event, Context())  # type: ignore[arg-type] # noqa: E731
        sides = {
            "api": (make_our_handler(now), make_request(now)),
            "influx": (handle_door, make_lines(nanos)),
            "otlp": (handle_door, make_metrics(nanos)),
        }
        with silent:
            rounds = [{name: measure_cpu(*side) for name, side in sides.items()} for _ in range(ROUNDS)][3:]
    medians = {name: median(trial[name] for trial in rounds) for name in sides}
    print(f"doors, {EVENTS} points a request, us of CPU per point: ", end="")
    print(", ".join(f"{name} {micros:.1f}" for name, micros in medians.items()))
    note_ratios(
        door_influx_cpu_over_api=median(trial["influx"] / trial["api"] for trial in rounds),
        door_otlp_cpu_over_api=median(trial["otlp"] / trial["api"] for trial in rounds),
    )


if __name__ == "__main__":
    restart_as_deployed("bench.doors")
    main()
