"""Answers in the form that API Gateway's Lambda proxy integration takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidetable.exact import encode_json
from tidetable.problems import CONTENT_TYPE, Problem

Response = dict[str, Any]


def json_response(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer; Decimals, dataclasses and aware datetimes are encoded as they are."""
    return text_response(status, "application/json", encode_json(body).decode(), headers or {})


def problem_response(problem: Problem) -> Response:
    """A problem as an answer."""
    return text_response(problem.status, CONTENT_TYPE, encode_json(problem.document()).decode(), problem.headers)


def text_response(status: int, content_type: str, body: str, headers: Mapping[str, str]) -> Response:
    """An answer whose body is text already."""
    return {
        "statusCode": status,
        "headers": {"Content-Type": content_type, "Cache-Control": "no-store", **headers},
        "body": body,
        "isBase64Encoded": False,
    }
