"""What the functions log about a query and a request: fields without values, from which advice is made."""

import json
from typing import Any

import pytest

import wiring
from tests.api.gateway import Context
from tests.fakes.stage import Stage
from tests.worlds.commands import NOW
from tests.worlds.functions import environment
from tidetable.where import name_parameters

__all__ = ["environment"]

CONFIG = """
[streams.s]
period = "day"
late = "1h"
retention = 4
[streams.s.key]
partition_by = "series"
[[streams.s.index]]
name = "by_kind"
partition_by = "kind"
"""
EVENTS = [{"series": "a", "id": str(number), "data": {"kind": "x", "size": number}} for number in range(3)]


@pytest.fixture
def stage() -> Stage:
    stage = Stage(NOW, CONFIG)
    stage.run_lifecycle()
    stage.settle()
    return stage


def send(stage: Stage) -> None:
    from handlers import ingest

    sent = {"pathParameters": {"stream": "s"}, "body": json.dumps(EVENTS)}
    with wiring.serve_pipeline(stage.pipeline):
        assert ingest.handler(sent, Context())["statusCode"] == 200  # type: ignore[arg-type]
    stage.settle()


def ask(stage: Stage, route: str, **parameters: str) -> int:
    from handlers import query

    sent = {
        "resource": f"/v1/streams/{{stream}}/{route}",
        "httpMethod": "GET",
        "pathParameters": {"stream": "s"},
        "multiValueQueryStringParameters": {name: [value] for name, value in parameters.items()},
    }
    with wiring.serve_pipeline(stage.pipeline):
        return int(query.handler(sent, Context())["statusCode"])  # type: ignore[arg-type]


def lines(captured: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in captured.readouterr().out.splitlines() if line.startswith("{")]


def test_a_requests_line_has_its_stream_and_its_bytes_as_no_metrics(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    send(stage)
    (line,) = (line for line in lines(capsys) if "EventsAccepted" in line)
    assert (line["stream"], line["EventsAccepted"]) == ("s", [3.0])
    assert line["bytes"] == len(json.dumps(EVENTS))
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    # Each dimension and each metric has a price; the log's line has none of its own.
    assert not {"stream", "bytes"} & {metric["Name"] for metric in directive["Metrics"]}
    assert "stream" not in json.dumps(directive["Dimensions"])


@pytest.mark.parametrize(
    ("route", "parameters", "conditions", "shown"),
    [
        ("events", {"series": "a"}, "series:eq", 3),
        ("events", {"where.kind": "x", "where.size:ge": "1"}, "kind:eq&size:ge", 2),
        ("events", {"series": "a", "where.secret": "hush"}, "secret:eq&series:eq", 0),
        ("aggregate", {"series": "a", "where.kind": "x"}, "kind:eq&series:eq", 1),
        ("latest", {"series": "a"}, "", 1),
    ],
)
def test_a_querys_line_has_the_fields_that_it_compares_and_no_value(
    stage: Stage,
    capsys: pytest.CaptureFixture[str],
    route: str,
    parameters: dict[str, str],
    conditions: str,
    shown: int,
) -> None:
    send(stage)
    capsys.readouterr()
    assert ask(stage, route, **parameters) == 200
    (line,) = (line for line in lines(capsys) if "EventsRead" in line)
    assert (line["stream"], line["route"], line["conditions"], line["shown"]) == ("s", route, conditions, shown)
    assert line["requests"] >= 1
    assert "hush" not in json.dumps(line)
    assert [metric["Name"] for metric in line["_aws"]["CloudWatchMetrics"][0]["Metrics"]] == ["ReadUnits", "EventsRead"]


def test_a_query_that_needs_an_index_is_logged_with_its_fields(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    assert ask(stage, "events", **{"where.customer": "hush", "where.size:ge": "1"}) == 400
    (refused,) = (record for record in caplog.records if record.message == "query refused")
    noted = {name: getattr(refused, name) for name in ("stream", "route", "code", "conditions")}
    assert noted == {"stream": "s", "route": "events", "code": "needs_index", "conditions": "customer:eq&size:ge"}
    caplog.clear()
    assert ask(stage, "events") == 400
    assert [record for record in caplog.records if record.message == "query refused"] == []


def test_fields_with_signs_of_a_query_string_are_escaped() -> None:
    assert name_parameters(["where.a&b:eq", "where.c:d", "where.e.f:in", "limit"]) == "a%26b:eq&c%3Ad:eq&e.f:in"
