"""Requests and answers in the form of API Gateway's Lambda proxy integration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

import msgspec
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring
from handlers._observe import logger
from tidetable.access import FULL, Access
from tidetable.exact_json import encode_json
from tidetable.problems import CONTENT_TYPE, Problem

if TYPE_CHECKING:
    from tidetable.config import Stream
    from tidetable.query import Cost, Reader

Response = dict[str, Any]
Handler = Callable[[dict[str, Any], LambdaContext], Response]


class QueryRequest(NamedTuple):
    """A request: the parameters of its path and its query, its headers Accept and If-None-Match (``known``), the caller's
    rights and the gateway's resource. ``remaining`` returns the seconds that are left.
    """

    path: Mapping[str, str]
    parameters: Mapping[str, Sequence[str]]
    accept: str
    remaining: Callable[[], float]
    access: Access = FULL
    route: str = ""
    known: str = ""

    @property
    def stream(self) -> Stream:
        """The stream of the path; 404 if it is unknown, or if this is a reader and the stream has no copies here."""
        pipeline = wiring.get_pipeline()
        name, known, copies = unquote(self.path["stream"]), pipeline.config.streams, pipeline.copies
        if name not in known:
            self.access.require_known(name, known)
        if copies is not None:
            copies.refuse_unknown(known[name])
        return known[name]

    @property
    def reader(self) -> Reader:
        """The services of this caller's queries. With a series prefix, they hide what depends on other series."""
        reader = wiring.get_pipeline().reader
        return msgspec.structs.replace(reader, access=self.access) if self.access.series_prefix else reader

    def show_cost(self, cost: Cost) -> dict[str, str]:
        """Show a cost in headers. It depends on the events of all series: with a series prefix, there are no headers."""
        if self.access.series_prefix:
            return {}
        return {
            "Tidetable-Read-Units": f"{cost.units:g}",
            "Tidetable-Requests": str(cost.requests),
            "Tidetable-Events-Read": str(cost.read),
        }


def complete_answers(handler: Handler) -> Handler:
    """Add the headers that all answers have, and write the request's id into the function's log lines."""

    def entry(event: dict[str, Any], context: LambdaContext) -> Response:
        request_id = (event.get("requestContext") or {}).get("requestId") if isinstance(event, dict) else None
        logger.append_keys(api_request_id=request_id)
        answer = handler(event, context)
        headers = {"X-Content-Type-Options": "nosniff"}
        if request_id:
            # The gateway's id, which its access log has, too.
            headers["Tidetable-Request-Id"] = request_id
        sent = (event.get("headers") if isinstance(event, dict) else None) or {}
        if origins := wiring.get_pipeline().config.api.cors:
            headers |= _make_cors_headers(sent, origins)
        answer["headers"] |= headers
        return answer

    return entry


def _make_cors_headers(headers: Mapping[str, str], origins: Sequence[str]) -> dict[str, str]:
    """Make the headers that let a page in a browser read the answer (CORS)."""
    if "*" in origins:
        return {"Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "*"}
    origin = headers.get("origin") or headers.get("Origin")
    # The answer depends on the page's origin, so a cache must keep the answers of different origins apart.
    headers = {"Vary": "Origin"}
    if origin is not None and origin in origins:
        headers |= {"Access-Control-Allow-Origin": origin, "Access-Control-Expose-Headers": "*"}
    return headers


def read_headers(event: Mapping[str, Any]) -> dict[str, str]:
    """The request's headers, with names in lower case."""
    return {name.lower(): value for name, value in (event.get("headers") or {}).items()}


def read_access(event: Mapping[str, Any]) -> Access:
    """Read the caller's rights from the authorizer's context of the request; all rights if IAM has authorized the
    request.
    """
    context = (event.get("requestContext") or {}).get("authorizer")
    return Access.of(context) if context else FULL


def make_json_response(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Response:
    """Make a JSON answer. The body may have Decimals, dataclasses and aware datetimes."""
    return make_text_response(status, "application/json", encode_json(body).decode(), headers or {})


def make_problem_response(problem: Problem) -> Response:
    """Make an answer of a problem."""
    return make_text_response(problem.status, CONTENT_TYPE, encode_json(problem.document()).decode(), problem.headers)


def make_text_response(
    status: int, content_type: str, body: str, headers: Mapping[str, str], *, encoded: bool = False
) -> Response:
    """Make an answer whose body is text already or, if ``encoded``, bytes in Base64, which the gateway decodes."""
    return {
        "statusCode": status,
        "headers": {"Content-Type": content_type, "Cache-Control": "no-store", **headers},
        "body": body,
        "isBase64Encoded": encoded,
    }
