"""Requests in OTLP: tests write them in JSON, and send them in JSON or in protobuf."""

import json
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.worlds.doors import Doors, Reply, nanos

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
    """Send a request, a JSON document, as ``kind`` says: in JSON or in protobuf."""
    body = json.dumps(document).encode()
    if kind == PROTOBUF:
        message = ExportMetricsServiceRequest() if route == METRICS else ExportLogsServiceRequest()
        body = json_format.Parse(body, message).SerializeToString()
    return doors.call("POST", route, body, content_type=kind, **({"accept": "*/*"} | more))
