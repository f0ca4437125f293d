"""The API with keys, in this process: calls the authorizer's and then a function's handler, as API Gateway does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import settings
import wiring
from tests.api.gateway import Context
from tests.credentials.records import record
from tests.fakes.stage import Stage
from tidetable.access import Scope

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
CONFIG = """
[streams.quakes]
period = "day"
late = "1d"
retention = 9
key = { partition_by = "time", bucket = "6h" }
[streams.packed]
period = "day"
late = "1d"
retention = 9
key = { partition_by = "time", bucket = "6h" }
pack = { span = "1h" }
[streams.devices]
period = "day"
late = "1d"
retention = 9
key = { partition_by = "series" }
[[streams.devices.index]]
name = "hottest"
partition_by = "*"
sort_by = "t"
"""
EVENTS = "/v1/streams/{stream}/events"
SECRET = "abcdefghijklmnopqrstuvwxyz012345"
# The key of a tenant, for the series whose names begin with a/.
TENANT = f"tt_tenantkey0_{SECRET}"
ROUTE = "arn:aws:execute-api:us-east-1:000000000000:a/api/ANY/any"
_Values = Mapping[str, str | Sequence[str]]


class Answered(NamedTuple):
    """An answer. ``by`` is "gateway" if the authorizer refused the request, otherwise "function"."""

    status: int
    body: Any
    by: str = "function"


class Door:
    """API Gateway with the authorizer. It lets a request through only if it counts for one of the gateway's keys."""

    def __init__(self, stage: Stage) -> None:
        from handlers import authorizer, ingest, operations, query

        self.stage = stage
        self.meters: set[str] = set()
        self.context: dict[str, Any] = {}
        self._authorize: Any = authorizer.handler
        self._handlers: dict[str, Any] = {"POST": ingest.handler, "GET": query.handler}
        self._operations: Any = operations.handler
        self._operated = operations.ROUTES

    def make(self, text: str, *streams: str, can: tuple[Scope, ...] = ("write", "read"), **facts: Any) -> str:
        """Make a key with that text, for these streams; for all streams if none is named."""
        made = record(text, set(streams) or None, can, **facts)
        assert self.stage.keys.add(made)
        self.meters.add(made.meter)
        return text

    def call(
        self,
        method: str,
        resource: str,
        key: str | None = None,
        body: Any = None,
        headers: _Values | None = None,
        query: _Values | None = None,
        **path: str,
    ) -> Answered:
        """Send a request; ``key`` becomes the header x-api-key."""
        self.stage.settle()
        sent = ({} if key is None else {"x-api-key": key}) | dict(headers or {})
        event = {
            "type": "REQUEST",
            "methodArn": ROUTE,
            "httpMethod": method,
            "resource": resource,
            "headers": {name: _listed(value)[-1] for name, value in sent.items()},
            "multiValueHeaders": {name: _listed(value) for name, value in sent.items()},
            "pathParameters": path or None,
            "queryStringParameters": None,
            "multiValueQueryStringParameters": {name: _listed(value) for name, value in (query or {}).items()} or None,
            "requestContext": {"requestId": "test"},
        }
        decision = self._authorize(event, Context())
        self.context = decision["context"]
        (statement,) = decision["policyDocument"]["Statement"]
        assert statement["Resource"] == ROUTE, "an answer is about one route"
        if statement["Effect"] != "Allow":
            return Answered(403, None, "gateway")
        if decision["usageIdentifierKey"] not in self.meters:
            # AWS: the gateway refuses a key that is in none of the stage's usage plans.
            return Answered(403, "unmetered", "gateway")
        text = None if body is None else json.dumps(body)
        context = {"requestId": "test", "authorizer": decision["context"] | {"principalId": decision["principalId"]}}
        handler = self._operations if event["resource"] in self._operated else self._handlers[method]
        answer = handler(event | {"body": text, "requestContext": context}, Context())
        return Answered(answer["statusCode"], json.loads(answer["body"]))


def _listed(value: str | Sequence[str]) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def open_door(folder: Path) -> Iterator[Door]:
    """Yield a door before a stage with CONFIG."""
    file = folder / "tidetable.toml"
    file.write_text(CONFIG)
    stage = Stage(NOON, CONFIG)
    while stage.run_lifecycle().done:
        pass
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIDETABLE_STAGE", "lapse")
        patch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
        patch.setattr(settings, "CONFIG_FILE", file)
        settings.read_settings.cache_clear()
        settings.read_config.cache_clear()
        with wiring.serve_pipeline(stage.pipeline):
            yield Door(stage)
    settings.read_settings.cache_clear()
    settings.read_config.cache_clear()
