"""Problem details (RFC 9457): the form of every error in an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from tidetable.errors import TidetableError

CONTENT_TYPE = "application/problem+json"


@dataclass(frozen=True, slots=True)
class Problem:
    """The error of a request: ``code`` is stable and for programs, ``detail`` says what to change."""

    status: int
    code: str
    detail: str
    more: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """The problem as RFC 9457's JSON object."""
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


def refuse(status: int, code: str, detail: str, **more: Any) -> ProblemError:
    """The error to raise for a request that is refused whole."""
    return ProblemError(Problem(status, code, detail, more))


def unknown_stream(stream: str, known: Mapping[str, object]) -> ProblemError:
    """404 for a stream that the configuration does not have."""
    return refuse(404, "unknown_stream", f"there is no stream {stream[:64]!r}; there are: {', '.join(known)}")
