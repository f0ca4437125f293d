"""The GET routes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
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
from tidetable.problems import Problem, ProblemError, refuse, unknown_stream
from tidetable.query import (
    FORMAT,
    Answer,
    Cost,
    describe_periods,
    describe_streams,
    explain_query,
    find_latest,
    fits,
    form_of,
    get_event,
    parse_query,
    refuse_unwritable,
    rendered,
    run_query,
    unavailable,
)

if TYPE_CHECKING:
    from tidetable.query.aggregates import Aggregate
    from tidetable.query.rankings import Top

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
    now, policy, parameters, reader = wiring.clock().now(), _stream(stream), _parameters(), wiring.reader()
    query = parse_query(policy, parameters, now, reader.seal)
    if "explain" in parameters:
        # Sizes are the control plane's to tell, so this is slower than most of what it explains.
        return _ok(explain_query(query, policy, reader, wiring.tables(), now))
    left = seconds_left(app.lambda_context)
    return _page(query.limit, lambda limit: run_query(replace(query, limit=limit), policy, reader, now, left))


@app.get("/v1/streams/<stream>/top")
def top(stream: str) -> HttpResponse[str]:
    """The first events of a ranking."""
    # Those who ask for it wait for its import, and not every cold start.
    from tidetable.query.rankings import explain_top, find_top, parse_ranking

    now, policy, reader = wiring.clock().now(), _stream(stream), wiring.reader()
    ranking = parse_ranking(policy, _parameters(), now, reader.seal)
    if "explain" in _parameters():
        return _ok(explain_top(ranking, policy, reader, wiring.tables(), now))
    left = seconds_left(app.lambda_context)
    return _page(ranking.limit, lambda limit: find_top(replace(ranking, limit=limit), policy, reader, now, left))


@app.get("/v1/streams/<stream>/aggregate")
def aggregate(stream: str) -> HttpResponse[str]:
    """Statistics over steps and groups."""
    from tidetable.query.aggregates import find_aggregate, parse_aggregation

    now, policy, parameters, reader = wiring.clock().now(), _stream(stream), _parameters(), wiring.reader()
    asked = parse_aggregation(policy, parameters, now, reader.seal)
    if "explain" in parameters:
        return _ok(explain_query(asked.query, policy, reader, wiring.tables(), now, whole=True))
    left = seconds_left(app.lambda_context)
    return _page(asked.limit, lambda limit: find_aggregate(replace(asked, limit=limit), policy, reader, now, left))


@app.get("/v1/streams/<stream>/latest")
def latest(stream: str) -> HttpResponse[str]:
    """The latest event of each of some series."""
    now, left = wiring.clock().now(), seconds_left(app.lambda_context)
    found = find_latest(_stream(stream), _parameters(), wiring.reader(), now, left)
    return _ok(found.document(), _told(found.cost))


@app.get("/v1/streams/<stream>/events/<ref>")
def event(stream: str, ref: str) -> HttpResponse[str]:
    """One event."""
    return _ok(get_event(_stream(stream), unquote(ref), wiring.reader(), _parameters()))


@app.exception_handler(ProblemError)  # type: ignore[untyped-decorator]
def refused(error: ProblemError) -> HttpResponse[str]:
    """What the caller should change."""
    return _http(problem_response(error.problem))


@app.not_found
def no_route(_: NotFoundError) -> HttpResponse[str]:
    """A route that the API does not have."""
    return _http(problem_response(Problem(404, "not_found", "there is no such route; see docs/api.md")))


@app.exception_handler(Exception)  # type: ignore[untyped-decorator]
def failed(error: Exception) -> HttpResponse[str]:
    """Whatever it was, the caller may ask again, and learns which part gave no answer and nothing of the inside."""
    return _http(_failure(error))


@uncollected
@observed
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Route one request; nothing leaves as an exception, which the gateway would answer without a word of why."""
    try:
        return app.resolve(event, context)
    except Exception as error:
        return _failure(error)


def _failure(error: Exception) -> dict[str, Any]:
    logger.exception("query failed")
    metrics.add_metric("QueryFailures", MetricUnit.Count, 1)
    return problem_response(unavailable(error))


def _stream(name: str) -> Stream:
    known = config().streams
    stream = known.get(unquote(name))
    if stream is None:
        raise unknown_stream(unquote(name), known)
    return stream


def _parameters() -> dict[str, list[str]]:
    parameters: dict[str, list[str]] = app.current_event.raw_event.get("multiValueQueryStringParameters") or {}
    refuse_unwritable(parameters)
    return parameters


def _told(cost: Cost) -> dict[str, str]:
    """What an answer took, in its headers and in the function's metrics."""
    metrics.add_metric("ReadUnits", MetricUnit.Count, cost.units)
    metrics.add_metric("EventsRead", MetricUnit.Count, cost.read)
    return {
        "Tidetable-Read-Units": f"{cost.units:g}",
        "Tidetable-Requests": str(cost.requests),
        "Tidetable-Events-Read": str(cost.read),
    }


def _page(limit: int, run: Callable[[int], Answer | Top | Aggregate]) -> HttpResponse[str]:
    """A page in the form asked for; one that a function cannot answer in that form is asked for again, half as long."""
    headers = {name.lower(): value for name, value in (app.current_event.raw_event.get("headers") or {}).items()}
    given = {name: values[0] for name, values in _parameters().items() if name in FORMAT}
    form = form_of(given, headers.get("accept", ""))
    rows: int | None = None
    while True:
        answer = run(limit)
        content_type, body = rendered(answer, form)
        if fits(answer, form, body):
            break
        before, rows = rows, len(answer.texts())
        if rows <= 1 or (before is not None and rows >= before):
            raise refuse(
                422, "too_much", "what cannot be parted is more than an answer holds in this form: ask for less of it"
            )
        limit = max(min(limit, rows) // 2, 1)
    told = _told(answer.cost) | {"Tidetable-Gaps": str(len(answer.gaps))}
    if answer.next is not None:
        told["Tidetable-Next"] = answer.next
    return _http(text_response(200, content_type, body, told))


def _ok(body: Any, headers: dict[str, str] | None = None) -> HttpResponse[str]:
    return _http(json_response(200, body, headers))


def _http(answer: dict[str, Any]) -> HttpResponse[str]:
    headers = dict(answer["headers"])
    content_type = headers.pop("Content-Type")
    return HttpResponse(answer["statusCode"], content_type=content_type, body=answer["body"], headers=headers)
