"""The doors of CloudEvents and of Amazon Data Firehose, with the answers that these protocols want."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

from tidetable.config import Stream
from tidetable.dialects import cloudevents, firehose
from tidetable.dialects.door import Answer, Intake, Request
from tidetable.dialects.reading import Limits, Reading, describe_refusals
from tidetable.exact import encode_json
from tidetable.ingest.outcome import LISTED, list_errors
from tidetable.problems import CONTENT_TYPE, Problem
from tidetable.times import to_micros

# A message to Firehose has at most this many reasons.
_NAMED = 5


class CloudEventsDoor:
    """The door of CloudEvents.

    It answers 204 if all events are stored, 202 if some wait in the queue, otherwise with a problem that lists the
    refused events.
    """

    def stream(self, request: Request) -> str:
        return request.stream

    def read(self, request: Request, body: bytes, stream: Stream, limits: Limits) -> Reading:
        return cloudevents.read_events(
            body, request.content_type, request.headers, policy=stream.cloudevents, most=limits.most
        )

    def answer(self, intake: Intake) -> Answer:
        outcome = intake.outcome
        if not outcome.rejections:
            return Answer(202 if outcome.queued else 204)
        refused, all_refused = len(outcome.rejections), len(outcome.rejections) == len(intake.reading.values)
        counts = {"accepted": outcome.accepted, "queued": outcome.queued, "rejected": refused}
        more = counts | {"errors": list_errors(outcome.rejections[:LISTED])}
        if all_refused:
            problem = Problem(422, "all_refused", "every event was refused; nothing was written", more)
        else:
            problem = Problem(422, "some_refused", f"{refused} events are refused; the others are stored", more)
        return self.refuse(intake.request, problem)

    def refuse(self, _request: Request, problem: Problem) -> Answer:
        return Answer(problem.status, encode_json(problem.document()), CONTENT_TYPE, problem.headers)


@dataclass(frozen=True, slots=True)
class FirehoseDoor:
    """The door of Firehose, which wants its request's id and a time in each answer."""

    def stream(self, request: Request) -> str:
        return request.stream

    def read(self, _request: Request, body: bytes, stream: Stream, limits: Limits) -> Reading:
        return firehose.read_records(firehose.decode_delivery(body), stream.firehose, most=limits.most)

    def answer(self, intake: Intake) -> Answer:
        refusals = intake.refusals
        if refusals:
            stored = len(intake.reading.values) - len(refusals)
            reasons = describe_refusals(refusals, "record", _NAMED)
            message = f"{len(refusals)} events are refused, {stored} are stored: {reasons}"
            return self._answer(intake.request, 400, message)
        return self._answer(intake.request, 200)

    def refuse(self, request: Request, problem: Problem) -> Answer:
        # After 413 Firehose loses the records; after any other error it keeps them in the delivery stream's bucket.
        status = 400 if problem.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE else problem.status
        return self._answer(request, status, problem.detail)

    def _answer(self, request: Request, status: int, message: str = "") -> Answer:
        id = request.headers.get("x-amz-firehose-request-id", "")
        document = {"requestId": id, "timestamp": to_micros(request.now) // 1000}
        return Answer.json(status, document | ({"errorMessage": message} if message else {}))
