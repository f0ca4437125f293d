"""Requests as API Gateway sends them to the functions, and the functions' answers."""

from __future__ import annotations

import json
from typing import Any

from tests.api.gateway import Context

QUAKES = {"stream": "quakes"}


def event(
    resource: str,
    parameters: dict[str, str] | None,
    *,
    base: str = "",
    body: str | None = None,
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    """A proxy event of a REST API; ``base`` stands before the path if the API has a custom domain."""
    path = resource
    for name, value in (parameters or {}).items():
        path = path.replace(f"{{{name}}}", value)
    method = "GET" if body is None else "POST"
    sent = {"Accept": "*/*", "Content-Type": "application/json", **(headers or {})}
    return {
        "resource": resource,
        "path": f"{base}{path}",
        "httpMethod": method,
        "headers": sent,
        "multiValueHeaders": {name: [value] for name, value in sent.items()},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "pathParameters": parameters,
        "stageVariables": None,
        "requestContext": {
            "requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
            "stage": "api",
            "path": f"{base}{path}" if base else f"/api{path}",
            "resourcePath": resource,
            "httpMethod": method,
        },
        "body": body,
        "isBase64Encoded": False,
    }


def ask(sent: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
    """Status, headers and document of the function's answer."""
    from handlers import ingest, query

    handler: Any = query.handler if sent["httpMethod"] == "GET" else ingest.handler
    answer = handler(sent, Context())
    headers = answer.get("headers") or {name: values[0] for name, values in answer["multiValueHeaders"].items()}
    return answer["statusCode"], headers, json.loads(answer["body"])
