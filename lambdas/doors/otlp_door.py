"""OTLP over HTTP: requests in protobuf or JSON, and answers in the type of the request.

Source: opentelemetry-proto, docs/specification.md, "OTLP/HTTP". If points or records are refused, the answer is 200 and
counts them; a sender must not repeat such a request. Errors are google.rpc.Status.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

from doors import otlp
from doors.door import DoorAnswer, DoorRequest, Intake
from doors.otlp_json import decode_request
from doors.reading import Limits, Reading, describe_refusals
from tidetable.config import Stream
from tidetable.problems import Problem, refuse_request

PROTOBUF, JSON = "application/x-protobuf", "application/json"
# In seconds. Python's exporter tries for ten seconds in all, and drops data that it would have to keep for longer.
RETRY_AFTER = "1"
# google.rpc.Code by the status of HTTP.
_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 413: 8, 415: 3, 422: 3, 429: 8, 500: 13, 503: 14}
_UNKNOWN = 2
_NAMED = 3
# A length below 128 is one byte of ASCII in protobuf. The message is within another message of at most 127 bytes.
_SHORT = 120


class Protobuf(Protocol):
    """The messages in protobuf."""

    def parse_request(self, kind: type, body: bytes) -> Any: ...
    def encode_answer(self, kind: type, rejected: int, message: str) -> bytes: ...
    def encode_status(self, code: int, message: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class OtlpDoor:
    """The routes of metrics and logs; ``default_metrics`` and ``default_logs`` are for paths without a stream."""

    protobuf: Protobuf
    default_metrics: str | None = None
    default_logs: str | None = None

    def find_stream(self, request: DoorRequest) -> str:
        is_metrics = _find_signal(request) is otlp.METRICS
        name = request.stream or (self.default_metrics if is_metrics else self.default_logs)
        if not name:
            key = "otlp_metrics" if is_metrics else "otlp_logs"
            detail = f"this path names no stream: send to /v1/streams/NAME/otlp/..., or set {key} in [doors]"
            raise refuse_request(404, "unknown_stream", detail)
        return name

    def read(self, request: DoorRequest, body: bytes, stream: Stream, limits: Limits) -> Reading:
        if request.kind not in (PROTOBUF, JSON):
            detail = f"Content-Type {request.kind[:64]!r} is not understood: send {PROTOBUF} or {JSON}"
            raise refuse_request(415, "unsupported_media_type", detail)
        signal = _find_signal(request)
        decode = self.protobuf.parse_request if request.kind == PROTOBUF else decode_request
        return signal.read(decode(signal.request, body), stream.otlp, limits)

    def answer(self, intake: Intake) -> DoorAnswer:
        signal, refusals = _find_signal(intake.request), intake.refusals
        message = _shorten(intake.request, describe_refusals(refusals, "number", _NAMED))
        if intake.request.kind == PROTOBUF:
            return DoorAnswer(200, self.protobuf.encode_answer(signal.request, len(refusals), message), PROTOBUF)
        return DoorAnswer.json(200, signal.describe_success(len(refusals), message))

    def refuse(self, request: DoorRequest, problem: Problem) -> DoorAnswer:
        code = _CODES.get(problem.status, _UNKNOWN)
        headers: dict[str, Any] = dict(problem.headers)
        if "Retry-After" in headers:
            headers["Retry-After"] = RETRY_AFTER
        if request.kind == PROTOBUF:
            answer = DoorAnswer(
                problem.status, self.protobuf.encode_status(code, _shorten(request, problem.detail)), PROTOBUF
            )
            return replace(answer, headers=headers)
        return DoorAnswer.json(problem.status, {"code": code, "message": problem.detail}, headers)


def _shorten(request: DoorRequest, message: str) -> str:
    """Shorten a message in protobuf to ASCII of ``_SHORT`` characters, if the request has no Accept header.

    Then the answer's bytes are text, unless more than 127 points are refused, and no gateway needs to decode them. Go's
    exporters send no Accept header.
    """
    if request.kind != PROTOBUF or "accept" in request.headers:
        return message
    return message.encode("ascii", "replace").decode()[:_SHORT]


def _find_signal(request: DoorRequest) -> otlp.Signal:
    return otlp.METRICS if request.route.endswith("/metrics") else otlp.LOGS
