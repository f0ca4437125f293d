"""GET /v1/plan and GET /v1/alarms, for keys that may operate: what the lifecycle is about to do, and which alarms ring."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring
from handlers._http import Response, complete_answers, json_response, problem_response, read_access
from handlers._observe import logger, observed, seconds_left
from tidetable.access import Access
from tidetable.problems import ProblemError, problem_of, refuse

# Kept back for the answer.
_RESERVE_SECONDS = 2.0
# Lists of a report whose rows name their stream, and those of texts that begin with its name.
_ROWS = ("actions", "feeds", "backfills", "removed_streams")
_TEXTS = ("without_next_table", "archives_overdue", "changes")


@observed
@complete_answers
def handler(event: dict[str, Any], context: LambdaContext) -> Response:
    """Answer one of the operators' routes."""
    try:
        access, operations = read_access(event), wiring.pipeline().operations
        if "operate" not in access.can:
            raise refuse(403, "forbidden", "this key may not operate: use a key that may")
        if event["resource"] == "/v1/plan":
            report = operations.plan(seconds_left(context, _RESERVE_SECONDS)())
            return json_response(200, {"plan": confine_report(report, access)})
        return json_response(200, {"alarms": operations.alarms()})
    except ProblemError as error:
        return problem_response(problem_of(error, "query"))
    except Exception as error:
        logger.exception("operations failed")
        return problem_response(problem_of(error, "query"))


def confine_report(report: dict[str, Any], access: Access) -> dict[str, Any]:
    """A report without what it says of streams that the key may not see; troubles may name any stream."""
    if access.streams is None:
        return report
    shown = dict(report)
    for name in _ROWS:
        shown[name] = [row for row in report[name] if access.sees(row["stream"])]
    for name in _TEXTS:
        shown[name] = [text for text in report[name] if access.sees(text.split(" ")[0].rstrip(":"))]
    shown["troubles"] = []
    return shown
