"""The GET routes. API Gateway chooses the route, and the event's ``resource`` names it.

Path parameters are decoded here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, unquote

from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring
from handlers._http import (
    QueryRequest,
    Response,
    complete_answers,
    make_json_response,
    make_problem_response,
    make_text_response,
    read_access,
    read_headers,
)
from handlers._observe import count, logger, make_countdown, observe, pause_collector, report_losses, report_query
from tidetable.access import FULL, find_scopes
from tidetable.conditions import ANY
from tidetable.config import Stream
from tidetable.ports import Tables
from tidetable.problems import Problem, ProblemError, make_problem
from tidetable.query import (
    FORMAT,
    Answer,
    AnswerForm,
    Reader,
    Seal,
    Selection,
    choose_form,
    confine_parameters,
    confine_query,
    describe_periods,
    describe_streams,
    explain_query,
    find_latest,
    get_event,
    parse_periods,
    parse_query,
    refuse_unwritable,
    render_answer,
    run_query,
)
from tidetable.version import VERSION
from tidetable.where import name_conditions, name_parameters

if TYPE_CHECKING:
    from handlers._past import Past

# A query of a route that answers in pages.
_Query = TypeVar("_Query", bound=Selection)


def get_health(_: QueryRequest) -> Response:
    """Answer that the function runs and that its configuration can be read, and its version."""
    pipeline = wiring.get_pipeline()
    document = {"status": "ok", "version": VERSION, "stage": pipeline.stage, "streams": len(pipeline.config.streams)}
    return make_json_response(200, document)


def list_streams(request: QueryRequest) -> Response:
    """Answer the streams that the caller may see, and the caller's rights."""
    pipeline = wiring.get_pipeline()
    document = describe_streams(pipeline.config, pipeline.clock.now(), request.access.sees)
    rights: dict[str, Any] = {"can": sorted(request.access.can)}
    if request.access.series_prefix:
        # The routes of operators show the whole stage, so they refuse this key.
        rights = {"can": sorted(request.access.can - {"operate"}), "series_prefix": request.access.series_prefix}
    if pipeline.copies is not None:
        document = pipeline.copies.show_streams(document, pipeline.config)
        rights["can"] = [scope for scope in rights["can"] if scope == "read"]
    return make_json_response(200, document | rights)


def list_periods(request: QueryRequest) -> Response:
    """Answer a page of a stream's periods."""
    pipeline, policy = wiring.get_pipeline(), request.stream
    now, seal = pipeline.clock.now(), pipeline.reader.seal
    query = parse_periods(policy, request.parameters, now, seal)
    page = describe_periods(
        query,
        policy,
        catalog=pipeline.catalog_reader,
        tables=pipeline.table_reader,
        now=now,
        seal=seal,
        pools=pipeline.pools,
    )
    return make_json_response(200, page)


def _answer_page(
    request: QueryRequest,
    parse: Callable[[Stream, Mapping[str, Sequence[str]], datetime, Seal], _Query],
    explain: Callable[[_Query, Stream, Reader, Tables, datetime], dict[str, Any]],
    run: Callable[[_Query, Stream, Reader, datetime, Callable[[], float]], Answer],
) -> Response:
    """Answer a page in the form that the request names. With ``explain``, describe what the query would read."""
    pipeline, policy, parameters = wiring.get_pipeline(), request.stream, request.parameters
    now, reader = pipeline.clock.now(), request.reader
    query = parse(policy, parameters, now, reader.seal)
    if request.access.series_prefix:
        confine_query(query, request.access)
    if pipeline.copies is not None:
        # The cursor may come from a query in the Region of the stage, which may have been consistent.
        pipeline.copies.refuse_consistent(query.consistent)
    if "explain" in parameters:
        # The sizes come from the control plane, so an explanation takes longer than most queries.
        return make_json_response(200, explain(query, policy, reader, pipeline.table_reader, now))
    chosen = {name: values[0] for name, values in parameters.items() if name in FORMAT}
    form = choose_form(chosen, request.accept) if chosen or request.accept else AnswerForm()
    compared = name_conditions(query.conditions, query.names) if query.conditions or query.names != ANY else ""
    past: Past | None = None
    if query.end < now - policy.late and not query.consistent:
        # Imported here, because most requests ask for the present.
        from handlers._past import begin_past

        past = begin_past(request, query, form, now, compared)
        if (known := past.find_known()) is not None:
            return known
        reader = past.question.reader
    page = run(query, policy, reader, now, request.remaining)
    # The sources depend on the events of all series, too.
    page = replace(page, tz=query.tz, shows_sources=not request.access.series_prefix)
    # The lambda looks the encoder up when it is called, so that only an answer in Arrow waits for the import.
    rendered = render_answer(page, form, lambda columns: pipeline.encode_table(columns))
    answer = rendered.answer
    report_query(request.route, policy.name, answer.cost, shown=answer.count, conditions=compared, losses=answer.losses)
    headers = request.show_cost(answer.cost) | {"Tidetable-Gaps": str(len(answer.gaps))}
    if answer.next is not None:
        headers["Tidetable-Next"] = answer.next
    if rendered.untyped:
        # The names of fields may have any characters, but a header is ASCII.
        names = [f"{quote(name, safe='.')}={count}" for name, count in rendered.untyped.items()]
        headers["Tidetable-Untyped"] = str(sum(rendered.untyped.values()))
        headers["Tidetable-Untyped-Columns"] = ",".join(names)
    response = make_text_response(200, rendered.content_type, rendered.body, headers, encoded=rendered.encoded)
    return response if past is None else past.keep(response, answer)


# Answers a page of events.
list_events = partial(_answer_page, parse=parse_query, explain=explain_query, run=run_query)


def rank_events(request: QueryRequest) -> Response:
    """Answer the first events of a ranking."""
    # Imported here, so that only this route waits for the import, and not every cold start.
    from tidetable.query.rankings import explain_top, find_top, parse_ranking

    return _answer_page(request, parse_ranking, explain_top, find_top)


def aggregate_events(request: QueryRequest) -> Response:
    """Statistics over steps and groups."""
    from tidetable.query.aggregates import explain_aggregate, find_aggregate, parse_aggregation

    return _answer_page(request, parse_aggregation, explain_aggregate, find_aggregate)


def list_names(request: QueryRequest) -> Response:
    """Answer a page of a stream's series, of the fields of its data, or of the values of a field."""
    from tidetable.query.listings import explain_listing, find_listing, parse_fields, parse_series, parse_values

    parses = {"series": parse_series, "fields": parse_fields}
    name = request.route.rpartition("/")[2]
    parse = parses.get(name) or partial(parse_values, unquote(request.path["field"]))
    return _answer_page(request, parse, explain_listing, find_listing)


def list_latest(request: QueryRequest) -> Response:
    """Answer the latest event of each of some series."""
    now = wiring.get_pipeline().clock.now()
    latest = find_latest(request.stream, request.parameters, request.reader, now, request.remaining)
    report_query(request.route, request.stream.name, latest.cost, shown=len(latest.events), losses=latest.losses)
    return make_json_response(200, latest.document(), request.show_cost(latest.cost))


def show_event(request: QueryRequest) -> Response:
    """One event."""
    ref = unquote(request.path["ref"])
    event = get_event(request.stream, ref, request.reader, request.parameters)
    if any(version.get("incomplete") for version in (event, *event.get("versions", ()))):
        report_losses([f"the data of {ref} is damaged or gone"])
    return make_json_response(200, event)


ROUTES: Mapping[str, Callable[[QueryRequest], Response]] = {
    "/v1/health": get_health,
    "/v1/streams": list_streams,
    "/v1/streams/{stream}/periods": list_periods,
    "/v1/streams/{stream}/events": list_events,
    "/v1/streams/{stream}/events/{ref}": show_event,
    "/v1/streams/{stream}/latest": list_latest,
    "/v1/streams/{stream}/top": rank_events,
    "/v1/streams/{stream}/aggregate": aggregate_events,
    "/v1/streams/{stream}/series": list_names,
    "/v1/streams/{stream}/fields": list_names,
    "/v1/streams/{stream}/fields/{field}/values": list_names,
}


@pause_collector
@observe
@complete_answers
def handler(event: dict[str, Any], context: LambdaContext) -> Response:
    """Route one request. Every exception becomes an answer here, because the gateway's answer would give no reason."""
    try:
        return _route_request(event, context)
    except Exception as error:
        if isinstance(error, ProblemError) and error.problem.code == "needs_index":
            # The fields of a query that was refused because no index has them.
            stream = unquote((event.get("pathParameters") or {}).get("stream", ""))
            conditions = name_parameters(event.get("multiValueQueryStringParameters") or {})
            route = event["resource"].rpartition("/")[2]
            logger.info("query refused", stream=stream, route=route, conditions=conditions, code="needs_index")
        if not isinstance(error, ProblemError):
            logger.exception("query failed")
            count(QueryFailures=1)
        return make_problem_response(make_problem(error, "query"))


def _route_request(event: dict[str, Any], context: LambdaContext) -> Response:
    route = ROUTES.get(event["resource"])
    if route is None:
        return make_problem_response(Problem(404, "not_found", "there is no such route; see docs/use/api.md"))
    parameters: Mapping[str, Sequence[str]] = event.get("multiValueQueryStringParameters") or {}
    refuse_unwritable(parameters)
    headers = read_headers(event)
    path, access = event.get("pathParameters") or {}, read_access(event)
    if "stream" in path and access is not FULL:
        # The authorizer has decided by its own decoding of the path. So the name that is used here is checked again.
        scopes = find_scopes(event.get("httpMethod", "GET"), event["resource"], access)
        access.require(unquote(path["stream"]), *scopes)
    copies = wiring.get_pipeline().copies
    if copies is not None:
        copies.refuse_consistent("true" in parameters.get("consistent", ()))
    if access.series_prefix:
        stream = wiring.get_pipeline().config.streams.get(unquote(path.get("stream", "")))
        parameters = confine_parameters(event["resource"], parameters, access, stream)
    accept, known = headers.get("accept", ""), headers.get("if-none-match", "")
    return route(QueryRequest(path, parameters, accept, make_countdown(context), access, event["resource"], known))
