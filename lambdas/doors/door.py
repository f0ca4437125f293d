"""The parts that all dialects share: a request, an answer, and the steps from the request to the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from doors.reading import BATCHES, MOST_POINTS, Limits, Reading, Refusal
from tidetable.access import Access
from tidetable.config import Stream
from tidetable.exact_json import encode_json
from tidetable.ingest import Outcome, ingest_batch
from tidetable.ingest.bodies import inflate_body
from tidetable.ingest.request import Ingest
from tidetable.problems import Problem
from tidetable.remaining import Remaining


@dataclass(frozen=True, slots=True)
class DoorRequest:
    """A request: its route's path, the stream in the path (or empty), headers with names in lower case, and the query.

    ``body`` is the body as it was sent, and ``now`` the time of its arrival.
    """

    route: str
    now: datetime
    stream: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def content_type(self) -> str:
        """The type of the body as it was sent."""
        return self.headers.get("content-type", "")

    @property
    def kind(self) -> str:
        """The type of the body without parameters, in lower case."""
        return self.content_type.partition(";")[0].strip().lower()


@dataclass(frozen=True, slots=True)
class DoorAnswer:
    """An answer in a dialect's own form."""

    status: int
    body: bytes = b""
    content_type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, status: int, document: object, headers: Mapping[str, str] | None = None) -> DoorAnswer:
        """Return an answer in JSON."""
        return cls(status, encode_json(document), "application/json", headers or {})


@dataclass(frozen=True, slots=True)
class Intake:
    """A request whose accepted events are durable: its body after decompression, its candidates, and their outcome."""

    request: DoorRequest
    body: bytes
    reading: Reading
    outcome: Outcome

    @property
    def refusals(self) -> list[Refusal]:
        """The refusals, ordered by their places in the body."""
        return self.reading.list_refusals(self.outcome.rejections)


class Door(Protocol):
    """A dialect: it finds a request's stream, reads its events, and makes the answers."""

    def find_stream(self, request: DoorRequest, /) -> str:
        """Return the stream's name, here that in the path; ProblemError if the request does not name a stream."""
        return request.stream

    def read(self, request: DoorRequest, body: bytes, stream: Stream, limits: Limits, /) -> Reading:
        """Read the candidates in a decompressed body; ProblemError if the whole body is refused."""
        ...

    def answer(self, intake: Intake, /) -> DoorAnswer:
        """Make the answer to a request whose accepted events are durable."""
        ...

    def refuse(self, request: DoorRequest, problem: Problem, /) -> DoorAnswer:
        """Make the answer to a request that failed, or that is refused as a whole."""
        ...


def ingest_request(
    door: Door, request: DoorRequest, access: Access, ports: Ingest, remaining: Remaining
) -> tuple[DoorAnswer, Outcome]:
    """Make a request's events durable; ProblemError if the whole request is refused, and no event is acknowledged."""
    name = door.find_stream(request)
    access.require(name, "write")
    access.require_known(name, ports.config.streams)
    api, stream = ports.config.api, ports.config.streams[name]
    body = inflate_body(request.body, api.max_body, request.headers.get("content-encoding", ""))
    reading = door.read(request, body, stream, Limits(min(BATCHES * api.max_events, MOST_POINTS), api.max_body))
    outcome = ingest_batch(name, reading.batch, ports, remaining, strict=reading.strict, access=access)
    return door.answer(Intake(request, body, reading, outcome)), outcome
