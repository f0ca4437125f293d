"""The commands of the command line, run on a stage in memory."""

import json
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from typer import testing
from typer.main import get_command
from typer.testing import CliRunner, Result

import wiring
from cli import clock, common
from cli.account import Account
from cli.app import app
from tests.fakes.gateway import FakeGateway
from tests.fakes.stage import Stage, prepare_once
from tests.worlds.hours import CONFIG

ROOT = Path(__file__).parents[2]
# Typer reads the signatures of all commands anew for each call of its runner. Without this cache, that took a third of
# the time of tests/cli.
testing._get_command = cache(get_command)  # type: ignore[attr-defined]
# A fixed time, as no test reads the real clock. At this minute no step of the ladder is due.
NOW = datetime(2026, 3, 15, 12, 20, tzinfo=UTC)
# The outputs with which commands find the functions of a stage.
OUTPUTS = {"LifecycleFunction": "lifecycle", "ArchiverFunction": "archiver", "RestorerFunction": "restorer"}


class FakeFunctions:
    """The deployed functions, run in this process."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.fails = False
        self.rest = False
        self.archiver_calls = 0
        self.payloads: list[Any] = []

    def invoke(self, FunctionName: str, Payload: bytes) -> Any:  # noqa: N803 - boto3's names
        payload = json.loads(Payload)
        if self.fails:
            return self._answer({"errorMessage": "out of memory"}) | {"FunctionError": "Unhandled"}
        if FunctionName == "archiver":
            # The archive takes two runs, as that of a large table.
            self.archiver_calls += 1
            if self.archiver_calls == 1:
                return self._answer({**payload, "state": "archiving", "events": 1})
            self.stage.archive(payload["stream"], payload["period"], within=100)
            return self._answer({**payload, "state": "archived", "events": 3})
        if FunctionName == "restorer":
            return self._answer(self._call_restorer(payload))
        self.payloads.append(payload)
        return self._answer(self.stage.run_lifecycle(dry_run=payload.get("dry_run", False)).document())

    def _call_restorer(self, payload: Any) -> Any:
        """Call the function; then its workers do all that can be done, unless they ``rest``."""
        # Here, as most tests of commands call no function.
        from handlers.restorer import handler

        names = dict.fromkeys(("function_name", "memory_limit_in_mb", "invoked_function_arn", "aws_request_id"), "call")
        context: Any = SimpleNamespace(get_remaining_time_in_millis=lambda: 290_000, **names)
        with wiring.serve_pipeline(self.stage.pipeline):
            answer = handler(payload, context)
        if not self.rest:
            self.stage.work_on_restores()
        return answer

    @staticmethod
    def _answer(document: Any) -> Any:
        class Body:
            def read(self) -> bytes:
                return json.dumps(document).encode()

        return {"Payload": Body()}


class FakeMetrics:
    """CloudWatch. It answers the consumed units of tables and indexes in two pages."""

    def __init__(self, taken: dict[tuple[str, str, str], float]) -> None:
        self.taken = taken
        self.requests: list[Any] = []
        self.fails = False

    def get_paginator(self, name: str) -> Any:
        assert name == "get_metric_data"
        return self

    def paginate(self, *, MetricDataQueries: Any, StartTime: Any, EndTime: Any) -> Any:  # noqa: N803 - boto3's names
        if self.fails:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetMetricData")
        assert len(MetricDataQueries) <= 500
        assert EndTime - StartTime == timedelta(days=30)
        self.requests.append(MetricDataQueries)
        results = []
        for metric_query in MetricDataQueries:
            metric = metric_query["MetricStat"]["Metric"]
            places = {place["Name"]: place["Value"] for place in metric["Dimensions"]}
            kind = "write" if metric["MetricName"] == "ConsumedWriteCapacityUnits" else "read"
            units = self.taken.get((places["TableName"], places.get("GlobalSecondaryIndexName", ""), kind), 0.0)
            results.append({"Id": metric_query["Id"], "Values": [units / 4, units / 4]})
        return iter([{"MetricDataResults": results}, {"MetricDataResults": results}])


@prepare_once
def _run_for_hours() -> Stage:
    """A stage whose lifecycle has run each hour for eight hours until now."""
    stage = Stage(NOW - timedelta(hours=8, minutes=10), CONFIG)
    for hours in range(8, -1, -1):
        # A run takes time by this clock. Each run begins at a fixed time: if it began at the end of the previous run,
        # the last run would fall into another hour. The clock never moves back: a table of the last run would become
        # invisible again.
        stage.clock.time = NOW - timedelta(hours=hours, minutes=5)
        stage.run_lifecycle()
        assert stage.clock.now() < NOW - timedelta(hours=hours)
    stage.clock.time = NOW
    return stage


@pytest.fixture
def functions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeFunctions:
    (tmp_path / "tidetable.toml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    stage = _run_for_hours()
    functions = FakeFunctions(stage)
    monkeypatch.setattr(clock, "read_clock", stage.clock.now)
    outputs = OUTPUTS | {"ApiId": "api0", "ApiUsagePlan": "plan0"}
    account = Account(stage.pipeline, outputs, functions, metrics=FakeMetrics({}), gateway=FakeGateway())
    monkeypatch.setattr(common, "connect", lambda *_, **__: account)
    return functions


@pytest.fixture
def stage(functions: FakeFunctions) -> Stage:
    return functions.stage


def run(*arguments: str, input: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=input, env={"COLUMNS": "200"})
