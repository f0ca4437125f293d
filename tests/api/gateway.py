"""The handlers behind a gateway in this process: WSGI requests become Lambda's proxy events, on the strict service."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import pytest
import yaml

import settings
import wiring
from tests.fakes.stage import Stage
from tests.worlds.configs import CONFIG, ROOT

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
DESCRIPTION: dict[str, Any] = yaml.safe_load((ROOT / "docs" / "use" / "openapi.yaml").read_text())
ROUTES = {path: re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)) for path in DESCRIPTION["paths"]}


NO_ROUTE = {"type": "about:blank", "title": "Forbidden", "status": 403, "code": "forbidden", "detail": "no such route"}


class Context:
    """The context that Lambda passes to a handler."""

    function_name = "test"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:test"
    aws_request_id = "test"

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


class Gateway:
    """A WSGI application. Like the gateway, it answers requests without a route itself."""

    def __init__(self, stage: Stage) -> None:
        from handlers import ingest, operations, query

        self._handlers: dict[str, Any] = {"POST": ingest.handler, "GET": query.handler}
        self._operations: Any = operations.handler
        self._operated = operations.ROUTES
        self.stage = stage

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        path, method = (
            environ.get("PATH_INFO", "/").encode("latin-1").decode(errors="replace"),
            environ["REQUEST_METHOD"],
        )
        if path == "/openapi.json":
            return self._answer(
                start, 200, {"Content-Type": "application/json"}, json.dumps(DESCRIPTION | {"servers": [{"url": "/"}]})
            )
        matches = ((resource, route.fullmatch(path)) for resource, route in ROUTES.items())
        resource, found = next(((resource, match) for resource, match in matches if match), ("", None))
        known = found is not None and (method == "GET" or (method == "POST" and path.endswith("/events")))
        if not known or found is None:
            return self._answer(start, 403, {"Content-Type": "application/problem+json"}, json.dumps(NO_ROUTE))
        if method == "GET":
            # A client that sends and then reads finds its events a moment later.
            self.stage.settle()
        handler = self._operations if resource in self._operated else self._handlers[method]
        answer = handler(self._event(environ, method, path, resource, found.groupdict()), Context())
        body = base64.b64decode(answer["body"], validate=True) if answer["isBase64Encoded"] else answer["body"]
        return self._answer(start, answer["statusCode"], answer.get("headers") or _single(answer), body)

    @staticmethod
    def _event(
        environ: dict[str, Any], method: str, path: str, resource: str, parameters: dict[str, str]
    ) -> dict[str, Any]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        headers = {
            name.removeprefix("HTTP_").replace("_", "-").title(): value
            for name, value in environ.items()
            if name.startswith("HTTP_") or name == "CONTENT_TYPE"
        }
        return {
            "httpMethod": method,
            "path": quote(path),
            "resource": resource,
            "headers": headers,
            "multiValueHeaders": {name: [value] for name, value in headers.items()},
            "pathParameters": {name: quote(value, safe="") for name, value in parameters.items()},
            "queryStringParameters": None,
            "multiValueQueryStringParameters": parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
            or None,
            "requestContext": {"requestId": "test", "stage": "v1", "path": path, "httpMethod": method}
            | ({"authorizer": environ["tidetable.access"]} if "tidetable.access" in environ else {}),
            "body": base64.b64encode(body).decode(),
            "isBase64Encoded": True,
        }

    @staticmethod
    def _answer(start: Any, status: int, headers: dict[str, str], body: str | bytes) -> Iterable[bytes]:
        start(f"{status} answer", list(headers.items()))
        return [body.encode() if isinstance(body, str) else body]


def _single(answer: dict[str, Any]) -> dict[str, str]:
    return {name: values[0] for name, values in answer.get("multiValueHeaders", {}).items()}


def gateway() -> Iterator[Gateway]:
    """The example pipeline behind a gateway, as long as a test module runs."""
    stage = Stage(NOON, CONFIG.read_text())
    while stage.run_lifecycle().done:
        pass
    yield from serving(stage, CONFIG)


def serving(stage: Stage, config: Path) -> Iterator[Gateway]:
    """A pipeline of that configuration behind a gateway."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDETABLE_STAGE", "lapse")
        patch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
        patch.setattr(settings, "CONFIG_FILE", config)
        settings.read_settings.cache_clear()
        settings.read_config.cache_clear()
        with wiring.serve_pipeline(stage.pipeline):
            yield Gateway(stage)
    settings.read_settings.cache_clear()
    settings.read_config.cache_clear()
