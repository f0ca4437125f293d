"""The routes of other programs' protocols: OpenTelemetry, InfluxDB, CloudEvents, Amazon Data Firehose."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring
from doors.cloudevents import CloudEventsDoor, make_consent_headers
from doors.door import Door, DoorAnswer, DoorRequest, ingest_request
from doors.firehose import FirehoseDoor
from doors.influx_door import HEALTH, WRITE_1, WRITE_2, WRITE_3
from handlers._http import Response, complete_answers, make_problem_response, read_access, read_headers
from handlers._observe import make_countdown, observe, pause_collector
from handlers.ingest import RESERVE_SECONDS, publish_metrics, report_failure

_STREAM = "/v1/streams/{stream}"
_DOORS: dict[str, Callable[[wiring.Pipeline], Door]] = {
    **dict.fromkeys((WRITE_1, WRITE_2, WRITE_3), lambda pipeline: pipeline.influx),
    **dict.fromkeys(
        ("/v1/metrics", "/v1/logs", f"{_STREAM}/otlp/v1/metrics", f"{_STREAM}/otlp/v1/logs"),
        lambda pipeline: pipeline.otlp,
    ),
    f"{_STREAM}/cloudevents": lambda _: CloudEventsDoor(),
    f"{_STREAM}/firehose": lambda _: FirehoseDoor(),
}


@pause_collector
@observe
@complete_answers
def handler(event: dict[str, Any], context: LambdaContext) -> Response:
    """Take the points, records or events of one request, or answer a client that checks if the API exists."""
    try:
        return _serve_request(event, context)
    except Exception as error:  # otherwise the gateway would answer 502 without a reason
        return make_problem_response(report_failure(error, "door failed"))


def _serve_request(event: dict[str, Any], context: LambdaContext) -> Response:
    pipeline = wiring.get_pipeline()
    request = _read_request(event, pipeline)
    if event["httpMethod"] != "POST":
        return _make_response(_answer_probe(request, pipeline))
    door = _DOORS[request.route](pipeline)
    try:
        answer, outcome = ingest_request(
            door, request, read_access(event), pipeline.ingest, make_countdown(context, RESERVE_SECONDS)
        )
        publish_metrics(outcome, door.find_stream(request), len(request.body))
        return _make_response(answer)
    except Exception as error:  # the sender must learn that nothing was acknowledged, also if only the answer failed
        return _make_response(door.refuse(request, report_failure(error)))


def _read_request(event: dict[str, Any], pipeline: wiring.Pipeline) -> DoorRequest:
    query = event.get("multiValueQueryStringParameters") or {}
    path = event.get("pathParameters") or {}
    body = event.get("body") or ""
    return DoorRequest(
        event["resource"],
        pipeline.clock.now(),
        unquote(path.get("stream", "")),
        read_headers(event),
        {name: values[0] for name, values in query.items()},
        b64decode(body) if event.get("isBase64Encoded") else body.encode("utf-8", "surrogatepass"),
    )


def _answer_probe(request: DoorRequest, pipeline: wiring.Pipeline) -> DoorAnswer:
    """Answer InfluxDB's clients that look for a server, and the handshake of webhooks."""
    if request.route == "/health":
        return DoorAnswer.json(200, HEALTH)
    if request.route == "/ping":
        return DoorAnswer(204, headers={"X-Influxdb-Version": HEALTH["version"], "X-Influxdb-Build": "tidetable"})
    return DoorAnswer(204, headers=make_consent_headers(request.headers, pipeline.config.api.rate_per_key))


def _make_response(answer: DoorAnswer) -> Response:
    """Write the answer in the gateway's form; a body that is not text is in Base64.

    AWS decodes Base64 by the request's Accept header. It is not documented what it does without that header, so bytes
    that are text in UTF-8, as most short messages are, go as text.
    """
    headers = {"Cache-Control": "no-store", **answer.headers}
    if answer.content_type:
        headers["Content-Type"] = answer.content_type
    try:
        body, encoded = answer.body.decode(), False
    except UnicodeDecodeError:
        body, encoded = b64encode(answer.body).decode(), True
    return {"statusCode": answer.status, "headers": headers, "body": body, "isBase64Encoded": encoded}
