"""The writing routes of InfluxDB 1, 2 and 3: where each route names its stream, and how it answers.

Sources: docs.influxdata.com, the API references of v2 (`/api/v2/write`), v3 (`/api/v3/write_lp`) and v1 (`/write`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from doors.door import DoorAnswer, DoorRequest, Intake
from doors.influx import ParseLine, quote_lines, read_lines, read_precision
from doors.reading import Limits, Reading, Refusal, describe_refusals
from tidetable.config import Stream
from tidetable.problems import Problem, refuse_request
from tidetable.times import to_micros

WRITE_1, WRITE_2, WRITE_3 = "/write", "/api/v2/write", "/api/v3/write_lp"
# A partial write lists at most this many lines, as InfluxDB 3 does.
LISTED = 100
_LONGEST_LINE = 1000
_STREAM_PARAMETER = {WRITE_1: "db", WRITE_2: "bucket", WRITE_3: "db"}
_PRECISION = {WRITE_1: "ns", WRITE_2: "ns", WRITE_3: "auto"}
_PARTIAL_3, _NOTHING_3 = "partial write of line protocol occurred", "parsing failed for write_lp endpoint"
_CODES_2 = {
    401: "unauthorized",
    403: "forbidden",
    404: "not found",
    413: "request too large",
    422: "unprocessable entity",
    429: "too many requests",
    500: "internal error",
    503: "unavailable",
}
# A message has at most this many reasons.
_NAMED = 3
HEALTH: Mapping[str, Any] = {
    "name": "influxdb",
    "message": "ready for writes",
    "status": "pass",
    "checks": [],
    "version": "tidetable",
}


@dataclass(frozen=True, slots=True)
class InfluxDoor:
    """The three writing routes; ``parse_line`` parses a line."""

    parse_line: ParseLine

    def find_stream(self, request: DoorRequest) -> str:
        """Return the bucket or database. Older clients write a retention policy after the bucket."""
        parameter = _STREAM_PARAMETER[request.route]
        name = request.query.get(parameter, "").partition("/")[0]
        if not name:
            raise refuse_request(400, "bad_parameter", f"{parameter} is missing: name the stream in it")
        return name

    def read(self, request: DoorRequest, body: bytes, stream: Stream, limits: Limits) -> Reading:
        unit = read_precision(request.query.get("precision") or _PRECISION[request.route])
        now = to_micros(request.now) * 1000
        reading = read_lines(body, self.parse_line, unit=unit, policy=stream.influx, now=now, limits=limits)
        reading.strict = request.route == WRITE_3 and request.query.get("accept_partial", "true").lower() == "false"
        return reading

    def answer(self, intake: Intake) -> DoorAnswer:
        """Return 204, or an error with the refused lines. All other lines are stored, unless the request was strict."""
        request, refusals = intake.request, intake.refusals
        if not refusals:
            return DoorAnswer(204)
        total, written = sum(map(len, intake.reading.places)), intake.outcome.accepted + intake.outcome.queued
        reasons = describe_refusals(refusals, "line", _NAMED, "more lines")
        message = f"{reasons}; {total - len(refusals)} of {total} lines are stored"
        if request.route == WRITE_2:
            malformed = next((refusal for refusal in refusals if refusal.malformed), None)
            status, code = (400, "invalid") if malformed else (422, "unprocessable entity")
            line = (malformed or refusals[0]).place
            return DoorAnswer.json(status, {"code": code, "message": message, "line": line})
        if request.route == WRITE_3:
            error = _PARTIAL_3 if written else _NOTHING_3
            return DoorAnswer.json(400, {"error": error, "data": _list_lines(intake.body, refusals)})
        return _make_v1_error(400, f"partial write: {message} dropped={len(refusals)}")

    def refuse(self, request: DoorRequest, problem: Problem) -> DoorAnswer:
        if request.route == WRITE_2:
            code = _CODES_2.get(problem.status, "invalid" if problem.status < 500 else "internal error")
            return DoorAnswer.json(problem.status, {"code": code, "message": problem.detail}, problem.headers)
        if request.route == WRITE_3:
            return DoorAnswer.json(problem.status, {"error": problem.detail}, problem.headers)
        return _make_v1_error(problem.status, problem.detail, problem.headers)


def _list_lines(body: bytes, refusals: Sequence[Refusal]) -> list[dict[str, Any]]:
    lines = quote_lines(body, [refusal.place for refusal in refusals[:LISTED]], _LONGEST_LINE)
    return [
        {"original_line": lines[refusal.place], "line_number": refusal.place, "error_message": refusal.detail}
        for refusal in refusals[:LISTED]
    ]


def _make_v1_error(status: int, message: str, headers: Mapping[str, str] | None = None) -> DoorAnswer:
    # A header is one line of ASCII.
    text = " ".join(message.encode("ascii", "replace").decode().split())
    return DoorAnswer.json(status, {"error": message}, {"X-Influxdb-Error": text[:500], **(headers or {})})
