"""POST /v1/streams/{stream}/events"""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from typing import Any
from urllib.parse import unquote

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring
from handlers._http import (
    Response,
    complete_answers,
    make_json_response,
    make_problem_response,
    read_access,
    read_headers,
)
from handlers._observe import count, logger, make_countdown, measure, metrics, observe, pause_collector
from tidetable.ingest import IngestRequest, Outcome, ingest_body
from tidetable.problems import Problem, ProblemError, make_problem, refuse_parameter, refuse_request

# Reserved at the end of the function's time, to queue the events that could not be written, and to answer.
RESERVE_SECONDS = 10.0
# At most this many different reasons of DynamoDB are logged per request.
_LOGGED = 10


@pause_collector
@observe
@complete_answers
def handler(event: dict[str, Any], context: LambdaContext) -> Response:
    """Take the events of one request."""
    try:
        try:
            request = _read_request(event)
            outcome = ingest_body(request, wiring.get_pipeline().ingest, make_countdown(context, RESERVE_SECONDS))
            publish_metrics(outcome, request.stream, len(request.body))
            headers = {"Tidetable-Write-Units": f"{outcome.write_units:g}"}
            if outcome.rejections:
                headers["Tidetable-Rejected"] = str(len(outcome.rejections))
            return make_json_response(outcome.status, outcome.document(refs=request.refs), headers)
        except ProblemError as error:
            return make_problem_response(report_failure(error))
    except Exception as error:  # the caller must learn that nothing was acknowledged, also if only the answer failed
        return make_problem_response(report_failure(error))


def _read_request(event: dict[str, Any]) -> IngestRequest:
    headers = read_headers(event)
    body = event.get("body") or ""
    try:
        content = b64decode(body) if event.get("isBase64Encoded") else body.encode()
    except ValueError as error:
        raise refuse_request(400, "unparseable", "the body is not complete UTF-8 text: send JSON or NDJSON") from error
    stream, access = unquote(event["pathParameters"]["stream"]), read_access(event)
    # The authorizer has decided by its own decoding of the path. So the name that is used here is checked again.
    access.require(stream, "write")
    preferences = headers.get("prefer", "").replace(" ", "").lower().split(",")
    chosen = (event.get("multiValueQueryStringParameters") or {}).get("refs", ["true"])
    if chosen not in (["true"], ["false"]):
        raise refuse_parameter("refs must be true or false, once")
    return IngestRequest(
        stream=stream,
        body=content,
        content_type=headers.get("content-type", ""),
        encoding=headers.get("content-encoding", ""),
        strict="handling=strict" in preferences,
        refs=chosen == ["true"] and "return=minimal" not in preferences,
        access=access,
    )


def report_failure(error: Exception, what: str = "ingest failed") -> Problem:
    """Log and count a request that was refused, or that failed; return the problem to answer."""
    if isinstance(error, ProblemError):
        logger.info("request refused", code=error.problem.code, status=error.problem.status)
        count(RequestsRefused=1)
    else:
        logger.exception(what)
        count(IngestFailures=1)
    return make_problem(error, "ingest")


def publish_metrics(outcome: Outcome, stream: str, size: int) -> None:
    """Publish the metrics of a request whose events are durable; its body has ``size`` bytes.

    ``stream`` and ``size`` are not dimensions, because a dimension makes additional metrics. ``tidetable advise`` reads
    them in the log.
    """
    metrics.add_metadata("stream", stream)
    metrics.add_metadata("bytes", size)
    codes = Counter(rejection.code for rejection in outcome.rejections)
    rare = {
        "PacksWritten": outcome.packs,
        "RollupMarksFailed": outcome.unmarked,
        "ThrottledLateWrites": outcome.throttled_late,
        "FullCollectionWrites": outcome.full,
        # Either one key is hot or the whole table is too small. DynamoDB says which, if it throttles a whole batch.
        **{f"Throttled_{reason}": number for reason, number in outcome.reasons.items()},
        **{f"EventsRejected_{code}": number for code, number in codes.items()},
    }
    count(
        EventsAccepted=outcome.accepted,
        EventsQueued=outcome.queued,
        WriteUnits=outcome.write_units,
        ThrottledWrites=outcome.throttled,
        # A stage in which they are always 0 has no such metrics, and does not pay for them.
        **{name: number for name, number in rare.items() if number},
    )
    if outcome.refused:
        # Events are measured and checked before they are written, so this is a fault of this project.
        logger.warning("refused by DynamoDB", reasons=sorted(set(outcome.refused.values()))[:_LOGGED])
    if outcome.reasons:
        throttled = outcome.throttled + outcome.throttled_late
        logger.warning("throttled", reasons=dict(outcome.reasons), writes=throttled, queued=outcome.queued)
    if outcome.newest is not None:
        lag = (wiring.get_pipeline().clock.now() - outcome.newest).total_seconds()
        measure(MetricUnit.Seconds, NewestEventLag=max(lag, 0.0))
