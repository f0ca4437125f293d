"""Answers in the form that API Gateway's Lambda proxy integration takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tidetable.problems import CONTENT_TYPE, Problem

Response = dict[str, Any]

# Numbers leave as numbers, with the digits they came with.
_ENCODER = msgspec.json.Encoder(decimal_format="number")


def json_response(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer; Decimals, dataclasses and aware datetimes are encoded as they are."""
    return _response(status, "application/json", body, headers or {})


def text_response(status: int, content_type: str, body: str, headers: Mapping[str, str]) -> Response:
    """An answer whose body is text already."""
    return _with_body(status, content_type, body, headers)


def problem_response(problem: Problem) -> Response:
    """A problem as an answer."""
    return _response(problem.status, CONTENT_TYPE, problem.document(), problem.headers)


def _response(status: int, content_type: str, body: Any, headers: Mapping[str, str]) -> Response:
    return _with_body(status, content_type, _ENCODER.encode(body).decode(), headers)


def _with_body(status: int, content_type: str, body: str, headers: Mapping[str, str]) -> Response:
    return {
        "statusCode": status,
        "headers": {"Content-Type": content_type, "Cache-Control": "no-store", **headers},
        "body": body,
        "isBase64Encoded": False,
    }
