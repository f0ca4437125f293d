"""Requests and queries of a stream, from the functions' logs by CloudWatch Logs Insights ($0.005 per GB of log)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from cli.account import AccountError
from cli.advising import Use, Writing

# A line of the log has metrics as lists. Logs Insights flattens lists: the first value of NAME is NAME.0
# (docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_AnalyzeLogData-discoverable-fields.html).
_USES = """filter stream = "{stream}" and ispresent(route)
| fields coalesce(conditions, "") as compared, coalesce(code, "answered") as outcome
| stats count(*) as queries, sum(requests) as calls, sum(`ReadUnits.0`) as units, sum(`EventsRead.0`) as events,
  sum(shown) as returned by route, compared, outcome"""
_WRITING = """filter stream = "{stream}" and ispresent(bytes)
| stats count(*) as requests, sum(`EventsAccepted.0`) as events"""
_POLLS, _PAUSE = 120, 1.0


def read_uses(
    client: Any, groups: Sequence[str], stream: str, start: datetime, end: datetime, pause: Callable[[float], None]
) -> tuple[Use, ...]:
    """Read the queries of a stream by their route and conditions; AccountError if they cannot be read."""
    rows = _run_query(client, groups, _USES.format(stream=stream), start, end, pause)
    return tuple(
        Use(
            row.get("route", ""),
            tuple(unquote(condition) for condition in row.get("compared", "").split("&") if condition),
            _read_number(row, "queries"),
            _read_number(row, "calls"),
            float(row.get("units") or 0),
            _read_number(row, "events"),
            _read_number(row, "returned"),
            refused=row.get("outcome") == "needs_index",
        )
        for row in rows
    )


def read_writing(
    client: Any, groups: Sequence[str], stream: str, start: datetime, end: datetime, pause: Callable[[float], None]
) -> Writing | None:
    """Read the requests that sent events to a stream; None if the log has no such requests."""
    rows = _run_query(client, groups, _WRITING.format(stream=stream), start, end, pause)
    requests = sum(_read_number(row, "requests") for row in rows)
    return Writing(requests, sum(_read_number(row, "events") for row in rows)) if requests else None


def _run_query(
    client: Any,
    groups: Sequence[str],
    query: str,
    start: datetime,
    end: datetime,
    pause: Callable[[float], None],
) -> list[dict[str, str]]:
    """Start a query of Logs Insights and wait for its rows; AccountError after two minutes."""
    span = {"startTime": int(start.timestamp()), "endTime": int(end.timestamp())}
    id = client.start_query(logGroupNames=list(groups), queryString=query, limit=10_000, **span)["queryId"]
    for _ in range(_POLLS):
        answer = client.get_query_results(queryId=id)
        if answer["status"] == "Complete":
            return [{cell["field"]: cell.get("value", "") for cell in row} for row in answer["results"]]
        if answer["status"] not in ("Scheduled", "Running"):
            raise AccountError(f"a query of the logs ended as {answer['status']}: try a shorter range with --days")
        pause(_PAUSE)
    client.stop_query(queryId=id)
    raise AccountError("a query of the logs took longer than two minutes: try a shorter range with --days")


def _read_number(row: dict[str, str], name: str) -> int:
    return round(float(row.get(name) or 0))
