"""GET /v1/plan, /v1/alarms, /v1/activity and /v1/cost, for keys that may operate: the next actions of the lifecycle, the
stage's alarms, the events of the last minutes, and the price of the present tables or of a load with other settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_upkeep
from handlers._http import Response, complete_answers, make_json_response, make_problem_response, read_access
from handlers._observe import logger, make_countdown, observe
from settings import read_settings
from tidetable.access import Access, forbid_series, forbid_stream
from tidetable.errors import InvalidTime
from tidetable.problems import ProblemError, make_problem, refuse_parameter, refuse_request
from tidetable.times import parse_instant

# Reserved for the answer.
_RESERVE_SECONDS = 2.0
# Lists of a report. The rows of the first lists have a field ``stream``; the texts of the second lists begin with a
# stream's name.
_ROWS = ("actions", "backfills", "removed_streams")
_TEXTS = ("without_next_table", "archives_overdue", "changes")


class OperationsRequest(NamedTuple):
    """A request: its query string, the caller's rights, and a function that returns the seconds left for it."""

    parameters: Mapping[str, Sequence[str]]
    access: Access
    remaining: Callable[[], float]


def show_plan(request: OperationsRequest) -> dict[str, Any]:
    """Show the report of a dry run."""
    _refuse_parameters(request)
    report = wiring_upkeep.pipeline().operations.plan(request.remaining())
    return {"plan": confine_report(report, request.access)}


def list_alarms(request: OperationsRequest) -> dict[str, Any]:
    """List the stage's alarms."""
    _refuse_parameters(request)
    return {"alarms": wiring_upkeep.pipeline().operations.alarms()}


def show_activity(request: OperationsRequest) -> dict[str, Any]:
    """Show what the streams take in the present minutes. A process keeps an answer for a minute."""
    # Imported here, so that only this route waits for the import.
    from tidetable.activity import ActivitySources, describe_activity

    _refuse_parameters(request)
    pipeline, access = wiring_upkeep.pipeline(), request.access
    sources = pipeline.build(ActivitySources, rollups=lambda: pipeline.rollups, work=lambda: pipeline.work)
    now = pipeline.clock.now()
    # The stage's figures are of all streams.
    whole = access.streams is None
    return pipeline.activities.find_or_compute(
        access.streams, now, lambda: describe_activity(pipeline.config, sources, now, access.sees, whole=whole)
    )


def show_cost(request: OperationsRequest) -> dict[str, Any]:
    """Show the bill of the present tables, a page of it or, if the request describes a load, the bill of that load.

    A process keeps a bill of the present tables for a minute.
    """
    if request.parameters.keys() - {"stream", "before"}:
        return _compare_settings(request)
    # Imported here, so that only this route waits for the import.
    from bill.accounts import BillSources
    from bill.current_bill import present_bill

    only, before = _read_stream(request), _read_before(request)
    pipeline = wiring_upkeep.pipeline()
    tables, region = pipeline.table_reader, read_settings().region
    sources = pipeline.build(BillSources, tables=tables, region=region, remaining=request.remaining)
    now, sees = pipeline.clock.now(), request.access.sees
    key = request.access.streams, only, before

    def price() -> dict[str, Any]:
        return present_bill(pipeline.config, sources, now, sees, only, before)

    return pipeline.bills.find_or_compute(key, now, price)


def _compare_settings(request: OperationsRequest) -> dict[str, Any]:
    """Compute the bill of a load with the present settings of a stream, and with proposed settings."""
    from bill.compare import compare_change, parse_proposal

    pipeline = wiring_upkeep.pipeline()
    proposal = parse_proposal(pipeline.config, request.parameters, request.access.sees)
    return compare_change(pipeline.config, proposal, pipeline.clock.now(), read_settings().region)


ROUTES: Mapping[str, Callable[[OperationsRequest], dict[str, Any]]] = {
    "/v1/plan": show_plan,
    "/v1/alarms": list_alarms,
    "/v1/activity": show_activity,
    "/v1/cost": show_cost,
}


@observe
@complete_answers
def handler(event: dict[str, Any], context: LambdaContext) -> Response:
    """Answer one of the operators' routes."""
    try:
        access = read_access(event)
        if "operate" not in access.can:
            raise refuse_request(403, "forbidden", "this key may not operate: use a key that may")
        if access.series_prefix:
            raise forbid_series(access, "this route shows figures of all series")
        parameters = event.get("multiValueQueryStringParameters") or {}
        request = OperationsRequest(parameters, access, make_countdown(context, _RESERVE_SECONDS))
        return make_json_response(200, ROUTES[event["resource"]](request))
    except Exception as error:
        if not isinstance(error, ProblemError):
            logger.exception("operations failed")
        return make_problem_response(make_problem(error, "query"))


def _refuse_parameters(request: OperationsRequest) -> None:
    """Raise ProblemError for a request with parameters: an ignored stream= would look as if it had an effect."""
    for name in request.parameters:
        raise refuse_parameter(f"{name[:64]}: this route has no parameters")


def _read_stream(request: OperationsRequest) -> str | None:
    """Read the stream that the request names, or None; ProblemError if the key may not see it."""
    stream = _read_once(request, "stream")
    if stream is not None and not request.access.sees(stream):
        raise forbid_stream(stream, "operate")
    return stream


def _read_before(request: OperationsRequest) -> datetime | None:
    """Read the instant before which the periods of a page begin, or None."""
    text = _read_once(request, "before")
    if text is None:
        return None
    if "stream" not in request.parameters:
        raise refuse_parameter("before chooses a page of one stream: add stream=")
    try:
        return parse_instant(text)
    except InvalidTime as error:
        raise refuse_parameter(f"before: {error}") from error


def _read_once(request: OperationsRequest, name: str) -> str | None:
    values = request.parameters.get(name, [])
    if len(values) > 1:
        raise refuse_parameter(f"{name} must be there once")
    return values[0] if values else None


def confine_report(report: dict[str, Any], access: Access) -> dict[str, Any]:
    """Return a report without the streams that the key may not see.

    Troubles may name any stream, and the number of tables counts all streams: both are left out. The health follows
    from the actions that are shown.
    """
    if access.streams is None:
        return report
    shown = dict(report)
    for name in _ROWS:
        shown[name] = [row for row in report[name] if access.sees(row["stream"])]
    for name in _TEXTS:
        shown[name] = [text for text in report[name] if access.sees(text.split(" ")[0].rstrip(":"))]
    shown["feeds"] = [row for row in report["feeds"] if access.sees(_parse_stream(row["table"]))]
    shown["troubles"] = []
    # The catalog has the periods of all streams.
    for name in ("tables", "catalog_copies"):
        shown.pop(name, None)
    if shown.get("healthy") is not None:
        steps = (*shown["actions"], *shown["feeds"])
        shown["healthy"] = not any(step["outcome"] in ("failed", "lost") for step in steps)
    return shown


def _parse_stream(table: str) -> str:
    """Parse the stream in the name of a period table; empty for the name of another table."""
    _, _, name = table.partition(".")
    return name.rpartition(".")[0]
