"""Problem details (RFC 9457): the form of every error in an answer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Any, Literal

import msgspec

from tidetable.errors import ArchiveBusy, ArchiveFailed, Outage, StoreUnavailable, TidetableError
from tidetable.similar import find_similar

CONTENT_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True):
    """The error of a request: ``code`` is for programs and never changes, ``detail`` says what to change."""

    status: int
    code: str
    detail: str
    more: Mapping[str, Any] = msgspec.field(default_factory=dict)
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the problem as RFC 9457's JSON object."""
        return {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **self.more,
        }


class ProblemError(TidetableError):
    """A request that must be answered with a problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(f"{problem.status} {problem.code}: {problem.detail}")


def refuse_request(status: int, code: str, detail: str, **more: Any) -> ProblemError:
    """Make the error to raise if the whole request is refused."""
    return ProblemError(Problem(status, code, detail, more))


def refuse_parameter(detail: str) -> ProblemError:
    """Make the error to raise for a parameter that cannot be served; ``detail`` names it and says what to change."""
    return refuse_request(400, "bad_parameter", detail)


def refuse_unknown_stream(stream: str, known: Mapping[str, object]) -> ProblemError:
    """Make the error 404 for a stream that the configuration does not have."""
    return refuse_request(404, "unknown_stream", describe_unknown_stream(stream, known))


def describe_unknown_stream(stream: str, known: Collection[str]) -> str:
    """Say that there is no such stream, and which streams there are."""
    meant = find_similar(stream[:64], known)
    suggestion = f"; did you mean {meant}?" if meant else ""
    return f"there is no stream {stream[:64]!r}; there are: {', '.join(sorted(known))}{suggestion}"


def make_problem(error: Exception, task: Literal["ingest", "query"]) -> Problem:
    """Make the answer to a request whose ``task`` raised an error: the error's own problem, or 503.

    The detail of a 503 never quotes the error, because an error may name tables and hold data.
    """
    if isinstance(error, ProblemError):
        return error.problem
    if task == "query":
        return Problem(503, "unavailable", _explain_read(error), headers={"Retry-After": "2"})
    detail = "the events may not be stored; send the whole request again, which is harmless"
    return Problem(503, "unavailable", detail, headers={"Retry-After": "5"})


def _explain_read(error: Exception) -> str:
    match error:
        case ArchiveBusy():
            return (
                "an archived period of the range did not answer in time: ask again, as its reader may just have started;"
                " if that does not help, narrow from and to"
            )
        case ArchiveFailed():
            return (
                "an archived period of the range could not be read: ask again; if that does not help, query the range"
                " before and after it, which explain=true shows, and tell the operator"
            )
        case StoreUnavailable(cause=Outage.NO_SECRET):
            return "the stage is new, and its first run has not made the secret of cursors: ask again in some minutes"
        case StoreUnavailable(cause=Outage.NO_ANSWER):
            return (
                "DynamoDB did not answer in time: ask again; if that does not help, narrow from and to, or lower limit"
            )
        case StoreUnavailable(cause=Outage.THROTTLED):
            return (
                "DynamoDB throttled the reads of this query: ask again in some seconds; a shorter range, a lower limit or"
                " an index reads less, and a table that is often throttled needs more read units"
            )
        case StoreUnavailable(cause=Outage.NEWER):
            return (
                "a newer version of Tidetable wrote the catalog: the operator must deploy that version or a later one"
            )
    return "the query could not be answered now; ask again"
