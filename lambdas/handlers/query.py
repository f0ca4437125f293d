"""The GET routes. API Gateway has found the route already: its resource says which, and its path parameters are decoded here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring
from handlers._http import Response, complete_answers, json_response, problem_response, text_response
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
    parse_periods,
    parse_query,
    refuse_unwritable,
    rendered,
    run_query,
    unavailable,
)

if TYPE_CHECKING:
    from tidetable.query.aggregates import Aggregate
    from tidetable.query.rankings import Top


class Request(NamedTuple):
    """A request: the parameters of its path and of its query, its Accept header, and the seconds that are left for it."""

    path: Mapping[str, str]
    parameters: dict[str, list[str]]
    accept: str
    remaining: Callable[[], float]

    @property
    def stream(self) -> Stream:
        """The stream of the path; 404 if there is none of that name."""
        name, known = unquote(self.path["stream"]), config().streams
        if name not in known:
            raise unknown_stream(name, known)
        return known[name]


def get_health(_: Request) -> Response:
    """The function runs, and its configuration can be read."""
    return json_response(200, {"status": "ok", "stage": settings().stage, "streams": len(config().streams)})


def list_streams(_: Request) -> Response:
    """Every stream."""
    return json_response(200, describe_streams(config(), wiring.clock().now()))


def list_periods(request: Request) -> Response:
    """A page of a stream's periods."""
    now, policy, seal = wiring.clock().now(), request.stream, wiring.reader().seal
    query = parse_periods(policy, request.parameters, now, seal)
    return json_response(
        200, describe_periods(query, policy, wiring.catalog(), wiring.tables(), now, seal, wiring.pools)
    )


def list_events(request: Request) -> Response:
    """A page of events."""
    now, policy, reader = wiring.clock().now(), request.stream, wiring.reader()
    query = parse_query(policy, request.parameters, now, reader.seal)
    if "explain" in request.parameters:
        # Sizes are the control plane's to tell, so this is slower than most of what it explains.
        return json_response(200, explain_query(query, policy, reader, wiring.tables(), now))

    def run(limit: int) -> Answer:
        return run_query(replace(query, limit=limit), policy, reader, now, request.remaining)

    return _render_page(request, query.limit, run)


def rank_events(request: Request) -> Response:
    """The first events of a ranking."""
    # Only the callers of this route wait for its import, and not every cold start.
    from tidetable.query.rankings import explain_top, find_top, parse_ranking

    now, policy, reader = wiring.clock().now(), request.stream, wiring.reader()
    ranking = parse_ranking(policy, request.parameters, now, reader.seal)
    if "explain" in request.parameters:
        return json_response(200, explain_top(ranking, policy, reader, wiring.tables(), now))

    def run(limit: int) -> Top:
        return find_top(replace(ranking, limit=limit), policy, reader, now, request.remaining)

    return _render_page(request, ranking.limit, run)


def aggregate_events(request: Request) -> Response:
    """Statistics over steps and groups."""
    from tidetable.query.aggregates import find_aggregate, parse_aggregation

    now, policy, reader = wiring.clock().now(), request.stream, wiring.reader()
    aggregation = parse_aggregation(policy, request.parameters, now, reader.seal)
    if "explain" in request.parameters:
        return json_response(200, explain_query(aggregation.query, policy, reader, wiring.tables(), now, whole=True))

    def run(limit: int) -> Aggregate:
        return find_aggregate(replace(aggregation, limit=limit), policy, reader, now, request.remaining)

    return _render_page(request, aggregation.limit, run)


def list_latest(request: Request) -> Response:
    """The latest event of each of some series."""
    now = wiring.clock().now()
    found = find_latest(request.stream, request.parameters, wiring.reader(), now, request.remaining)
    return json_response(200, found.document(), _count_cost(found.cost))


def show_event(request: Request) -> Response:
    """One event."""
    ref = unquote(request.path["ref"])
    return json_response(200, get_event(request.stream, ref, wiring.reader(), request.parameters))


ROUTES: Mapping[str, Callable[[Request], Response]] = {
    "/v1/health": get_health,
    "/v1/streams": list_streams,
    "/v1/streams/{stream}/periods": list_periods,
    "/v1/streams/{stream}/events": list_events,
    "/v1/streams/{stream}/events/{ref}": show_event,
    "/v1/streams/{stream}/latest": list_latest,
    "/v1/streams/{stream}/top": rank_events,
    "/v1/streams/{stream}/aggregate": aggregate_events,
}


@uncollected
@observed
@complete_answers
def handler(event: dict[str, Any], context: LambdaContext) -> Response:
    """Route one request; nothing leaves as an exception, which the gateway would answer without a word of why."""
    try:
        return _route(event, context)
    except ProblemError as error:
        return problem_response(error.problem)
    except Exception as error:
        logger.exception("query failed")
        metrics.add_metric("QueryFailures", MetricUnit.Count, 1)
        return problem_response(unavailable(error))


def _route(event: dict[str, Any], context: LambdaContext) -> Response:
    route = ROUTES.get(event["resource"])
    if route is None:
        return problem_response(Problem(404, "not_found", "there is no such route; see docs/use/api.md"))
    parameters: dict[str, list[str]] = event.get("multiValueQueryStringParameters") or {}
    refuse_unwritable(parameters)
    headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    path = event.get("pathParameters") or {}
    return route(Request(path, parameters, headers.get("accept", ""), seconds_left(context)))


def _count_cost(cost: Cost) -> dict[str, str]:
    """What an answer took, in its headers and in the function's metrics."""
    metrics.add_metric("ReadUnits", MetricUnit.Count, cost.units)
    metrics.add_metric("EventsRead", MetricUnit.Count, cost.read)
    return {
        "Tidetable-Read-Units": f"{cost.units:g}",
        "Tidetable-Requests": str(cost.requests),
        "Tidetable-Events-Read": str(cost.read),
    }


def _render_page(request: Request, limit: int, run: Callable[[int], Answer | Top | Aggregate]) -> Response:
    """A page in the form asked for; one that a function cannot answer in that form is asked for again, half as long."""
    form = form_of({name: values[0] for name, values in request.parameters.items() if name in FORMAT}, request.accept)
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
    headers = _count_cost(answer.cost) | {"Tidetable-Gaps": str(len(answer.gaps))}
    if answer.next is not None:
        headers["Tidetable-Next"] = answer.next
    return text_response(200, content_type, body, headers)
