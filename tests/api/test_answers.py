"""What the query function answers and logs besides its rows: health, rights, costs, lost data, and its own faults."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

import wiring
from tests.api.gateway import NOON, Context, Gateway, serving
from tests.fakes.stage import Stage
from tidetable.access import Access
from tidetable.query import Cost
from tidetable.query.latest import Latest

CONFIG = """
[streams.s]
period = "day"
late = "1h"
retention = 4
key = { partition_by = "series" }
[streams.t]
period = "day"
late = "1h"
retention = 4
key = { partition_by = "time", bucket = "6h" }
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    file = tmp_path_factory.mktemp("answers") / "tidetable.toml"
    file.write_text(CONFIG)
    stage = Stage(NOON, CONFIG)
    while stage.run_lifecycle().done:
        pass
    events = [{"series": "a", "id": str(number), "data": {"n": number}} for number in range(3)]
    assert stage.send("s", json.dumps(events).encode()).accepted == 3
    stage.settle()
    yield from serving(stage, file)


def ask(route: str, access: Access | None = None, **parameters: str) -> Any:
    from handlers import query

    event = {
        "resource": route,
        "httpMethod": "GET",
        "pathParameters": {"stream": "s", "ref": "r"} if "{stream}" in route else None,
        "multiValueQueryStringParameters": {name: [value] for name, value in parameters.items()},
        "requestContext": {"requestId": "r"} | ({} if access is None else {"authorizer": access.context()}),
    }
    context: Any = Context()
    answer = query.handler(event, context)
    return answer | {"document": json.loads(answer["body"])}


@pytest.mark.usefixtures("app")
def test_the_health_names_the_stage_and_counts_its_streams() -> None:
    answer = ask("/v1/health")
    expected = {"status": "ok", "version": "0.1.0.dev0", "stage": "lapse", "streams": 2}
    assert (answer["statusCode"], answer["document"]) == (200, expected)


@pytest.mark.usefixtures("app")
def test_a_caller_learns_its_rights_with_its_streams() -> None:
    everything = ask("/v1/streams")["document"]
    assert everything["can"] == ["operate", "read", "write"]
    assert [stream["stream"] for stream in everything["streams"]] == ["s", "t"]
    assert "series_prefix" not in everything
    tenant = ask("/v1/streams", Access("x", frozenset({"t"}), frozenset({"write", "read"}), "a/"))["document"]
    assert (tenant["can"], tenant["series_prefix"]) == (["read", "write"], "a/")
    assert [stream["stream"] for stream in tenant["streams"]] == ["t"]


COST = Cost(units=2.5, requests=3, read=4)
HEADERS = {"Tidetable-Read-Units": "2.5", "Tidetable-Requests": "3", "Tidetable-Events-Read": "4"}
LATEST = "/v1/streams/{stream}/latest"


@pytest.fixture
def counted(app: Gateway, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The metrics that the function counts from now on."""
    from handlers import _observe

    metrics: dict[str, float] = {}
    monkeypatch.setattr(_observe.metrics, "add_metric", lambda name, _, value: metrics.update({name: value}))
    return metrics


def test_an_answer_says_what_it_took_in_headers_and_metrics(
    counted: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handlers.query.find_latest", lambda *_: Latest(["a"], cost=COST))
    headers = ask(LATEST, series="a")["headers"]
    assert {name: headers[name] for name in HEADERS} == HEADERS
    assert counted == {"ReadUnits": 2.5, "EventsRead": 4}


def test_of_many_losses_the_first_twenty_are_logged(
    counted: dict[str, float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A line of a log has at most 256 KB."""
    losses = [f"loss {number}" for number in range(25)]
    monkeypatch.setattr("handlers.query.find_latest", lambda *_: Latest(["a"], losses=losses))
    ask(LATEST, series="a")
    (line,) = [record for record in caplog.records if record.message == "incomplete answer"]
    assert vars(line)["losses"] == [f"loss {number}" for number in range(20)]
    assert counted["IncompleteAnswers"] == 1


@pytest.mark.parametrize(
    ("event", "incomplete"),
    [
        ({}, False),
        ({"incomplete": True}, True),
        ({"versions": [{}, {"incomplete": True}]}, True),
        ({"versions": [{}]}, False),
    ],
)
def test_an_event_with_a_version_whose_data_is_gone_is_counted(
    counted: dict[str, float], monkeypatch: pytest.MonkeyPatch, event: dict[str, Any], incomplete: bool
) -> None:
    monkeypatch.setattr("handlers.query.get_event", lambda *_: {"series": "a"} | event)
    assert ask("/v1/streams/{stream}/events/{ref}")["document"] == {"series": "a"} | event
    assert ("IncompleteAnswers" in counted) is incomplete


@pytest.mark.usefixtures("app")
def test_a_query_has_the_time_that_the_function_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[float] = []

    def note(*given: Any) -> Latest:
        left.append(given[-1]())
        return Latest(["a"])

    monkeypatch.setattr("handlers.query.find_latest", note)
    ask(LATEST, series="a")
    assert left == [30.0]


def test_a_fault_of_the_code_is_logged_with_its_trace_and_a_refusal_is_not(
    counted: dict[str, float], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("a mistake of the code")

    monkeypatch.setattr("handlers.query.find_latest", fail)
    with caplog.at_level(logging.ERROR):
        answer = ask(LATEST, series="a")
        assert (answer["statusCode"], answer["headers"]["Retry-After"]) == (503, "2")
        assert ask("/v1/streams/{stream}/events/{ref}")["statusCode"] == 400
    (line,) = caplog.records
    assert (line.message, line.exc_info is not None) == ("query failed", True)
    assert counted == {"QueryFailures": 1}


def test_a_fault_of_the_operators_routes_is_logged_with_its_trace(
    app: Gateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from handlers import operations

    def fail(_: Any) -> Any:
        raise RuntimeError("a mistake of the code")

    monkeypatch.setattr(operations, "ROUTES", {"/v1/plan": fail})
    context: Any = Context()
    with caplog.at_level(logging.ERROR), wiring.serve_pipeline(app.stage.pipeline):
        answer = operations.handler({"resource": "/v1/plan"}, context)
    assert (answer["statusCode"], answer["headers"]["Retry-After"]) == (503, "2")
    (line,) = caplog.records
    assert (line.message, line.exc_info is not None) == ("operations failed", True)


@pytest.mark.usefixtures("app")
def test_what_one_request_adds_to_the_log_is_not_in_the_lines_of_the_next() -> None:
    """A process answers many requests, one after another."""
    from handlers import _observe

    seen: list[Any] = []

    def note(event: str, _: Any) -> None:
        seen.append(_observe.logger.get_current_keys().get("added"))
        _observe.logger.append_keys(added=event)

    context: Any = Context()
    entry = _observe.observe(note)
    entry("first", context)
    entry("second", context)
    assert seen == [None, None]
