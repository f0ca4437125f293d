"""The GET routes."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from aws_lambda_powertools.event_handler import Response as HttpResponse
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring
from handlers._http import json_response, problem_response, text_response
from handlers._observe import logger, metrics, observed, seconds_left, uncollected
from settings import config, settings
from tidetable.config import Stream
from tidetable.problems import Problem, ProblemError, unknown_stream
from tidetable.query import (
    describe_periods,
    describe_streams,
    explain_query,
    find_latest,
    format_of,
    get_event,
    parse_query,
    rendered,
    run_query,
)

app = APIGatewayRestResolver()


@app.get("/v1/health")
def health() -> HttpResponse[str]:
    """The function runs, and its configuration can be read."""
    return _ok({"status": "ok", "stage": settings().stage, "streams": len(config().streams)})


@app.get("/v1/streams")
def streams() -> HttpResponse[str]:
    """Every stream."""
    return _ok(describe_streams(config(), wiring.clock().now()))


@app.get("/v1/streams/<stream>/periods")
def periods(stream: str) -> HttpResponse[str]:
    """Every period of a stream."""
    return _ok(describe_periods(_stream(stream), wiring.catalog(), wiring.tables()))


@app.get("/v1/streams/<stream>/events")
def events(stream: str) -> HttpResponse[str]:
    """A page of events."""
    now = wiring.clock().now()
    policy = _stream(stream)
    parameters = app.current_event.raw_event.get("multiValueQueryStringParameters") or {}
    query = parse_query(policy, parameters, now, wiring.reader().seal)
    if "explain" in parameters:
        # Sizes are the control plane's to tell, so this is slower than most of what it explains.
        return _ok(explain_query(query, policy, wiring.reader(), wiring.tables(), now))
    headers = {name.lower(): value for name, value in (app.current_event.raw_event.get("headers") or {}).items()}
    form = format_of(next(iter(parameters.get("format", [])), None), headers.get("accept", ""))
    answer = run_query(query, policy, wiring.reader(), now, seconds_left(app.lambda_context))
    metrics.add_metric("ReadUnits", MetricUnit.Count, answer.units)
    metrics.add_metric("EventsRead", MetricUnit.Count, answer.count)
    told = {
        "Tidetable-Read-Units": f"{answer.units:g}",
        "Tidetable-Requests": str(answer.requests),
        "Tidetable-Gaps": str(len(answer.gaps)),
    }
    if answer.next is not None:
        told["Tidetable-Next"] = answer.next
    content_type, body = rendered(answer, form)
    return _http(text_response(200, content_type, body, told))


@app.get("/v1/streams/<stream>/latest")
def latest(stream: str) -> HttpResponse[str]:
    """The latest event of each of some series."""
    parameters = app.current_event.raw_event.get("multiValueQueryStringParameters") or {}
    now, left = wiring.clock().now(), seconds_left(app.lambda_context)
    found = find_latest(_stream(stream), parameters, wiring.reader(), now, left)
    metrics.add_metric("ReadUnits", MetricUnit.Count, found.units)
    metrics.add_metric("EventsRead", MetricUnit.Count, len(found.found))
    headers = {"Tidetable-Read-Units": f"{found.units:g}", "Tidetable-Requests": str(found.requests)}
    return _ok(found.document(), headers)


@app.get("/v1/streams/<stream>/events/<ref>")
def event(stream: str, ref: str) -> HttpResponse[str]:
    """One event."""
    text = unquote(ref)
    parameters = app.current_event.raw_event.get("multiValueQueryStringParameters") or {}
    return _ok(get_event(_stream(stream), text, wiring.reader(), parameters))


@app.exception_handler(ProblemError)  # type: ignore[untyped-decorator]
def refused(error: ProblemError) -> HttpResponse[str]:
    """What the caller should change."""
    return _http(problem_response(error.problem))


@app.not_found
def no_route(_: NotFoundError) -> HttpResponse[str]:
    """A route that the API does not have."""
    return _http(problem_response(Problem(404, "not_found", "there is no such route; see docs/api.md")))


@app.exception_handler(Exception)  # type: ignore[untyped-decorator]
def failed(_: Exception) -> HttpResponse[str]:
    """Whatever it was, the caller may ask again and learns nothing of the inside."""
    logger.exception("query failed")
    metrics.add_metric("QueryFailures", MetricUnit.Count, 1)
    problem = Problem(
        503, "unavailable", "the query could not be answered now; ask again", headers={"Retry-After": "2"}
    )
    return _http(problem_response(problem))


@uncollected
@observed
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Route one request."""
    return app.resolve(event, context)


def _stream(name: str) -> Stream:
    known = config().streams
    stream = known.get(unquote(name))
    if stream is None:
        raise unknown_stream(unquote(name), known)
    return stream


def _ok(body: Any, headers: dict[str, str] | None = None) -> HttpResponse[str]:
    return _http(json_response(200, body, headers))


def _http(answer: dict[str, Any]) -> HttpResponse[str]:
    headers = dict(answer["headers"])
    content_type = headers.pop("Content-Type")
    return HttpResponse(answer["statusCode"], content_type=content_type, body=answer["body"], headers=headers)
