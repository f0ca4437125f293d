"""Answers that lack something: they are logged and counted, since a caller may not look."""

from typing import Any

import pytest

import wiring
from tests.api.gateway import Context
from tests.fakes.stage import Stage
from tests.worlds.functions import environment
from tests.worlds.large import DAY, SENT, built, send

__all__ = ["environment"]


class Watched:
    """The query function's routes on a stage, with the metrics and the losses that each call left behind."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        from handlers import _observe, query

        self._query, self._stage = query, stage
        self.counted: list[str] = []
        self.losses: list[str] = []
        monkeypatch.setattr(_observe.metrics, "add_metric", lambda *metric: self.counted.append(metric[0]))
        monkeypatch.setattr(
            _observe.logger, "warning", lambda text, extra: self.losses.extend([text, *extra["losses"]])
        )

    def call(self, route: str, *, ref: str = "", **parameters: str) -> int:
        """How many incomplete answers the function counts for a request."""
        self._stage.settle()
        self.counted.clear()
        self.losses.clear()
        parameters_read = {name: [value] for name, value in parameters.items()}
        from handlers._http import QueryRequest

        request = QueryRequest({"stream": "chunked", "ref": ref}, parameters_read, "", lambda: 100.0)
        with wiring.serve_pipeline(self._stage.pipeline):
            assert self._query.ROUTES[f"/v1/streams/{{stream}}/{route}"](request)["statusCode"] == 200
        return self.counted.count("IncompleteAnswers")


def test_an_answer_whose_data_is_damaged_is_counted_and_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = built()
    refs = send(stage, "chunked", SENT[0], SENT[1]).refs
    watched = Watched(stage, monkeypatch)
    span = {"from": f"{DAY}T00:00:00Z", "to": f"{DAY}T23:59:59Z"}
    assert watched.call("events", **span) == 0
    (table,) = (name for name in stage.dynamo.account.tables if name.endswith(f"chunked.{DAY}"))
    items = stage.dynamo.account.engine.call("Scan", {"TableName": table, "ConsistentRead": True})["Items"]
    (packed,) = (item for item in items if "z" in item)
    stage.dynamo.call("PutItem", {"TableName": table, "Item": {**packed, "z": {"B": b"\x00"}}})
    assert watched.call("events", **span) == 1
    text, loss = watched.losses
    assert text == "incomplete answer"
    assert loss.startswith("the data of ")
    assert loss.endswith(" is damaged")
    assert watched.call("events/{ref}", ref=refs[1] or "") == 1
    assert watched.losses == ["incomplete answer", f"the data of {refs[1]} is damaged or gone"]
    assert watched.call("events/{ref}", ref=refs[0] or "") == 0


def test_an_answer_without_a_table_that_should_be_there_is_counted_with_the_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = built()
    send(stage, "chunked", SENT[0])
    watched = Watched(stage, monkeypatch)
    span = {"from": f"{DAY}T00:00:00Z", "to": f"{DAY}T23:59:59Z"}
    stage.dynamo.account.tables.pop(
        next(name for name in stage.dynamo.account.tables if name.endswith(f"chunked.{DAY}"))
    )
    for route in ("events", "aggregate"):
        assert watched.call(route, **span) == 1
        assert watched.losses == [
            "incomplete answer",
            f"table missing from {DAY} 00:00:00+00:00 to {DAY} 23:59:59+00:00",
        ]
    # A range that the configuration has no tables for lacks nothing.
    assert watched.call("events", **{"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}) == 0


def test_the_units_of_an_answer_are_counted_and_not_its_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS: the same requests take twice the units if they are read consistently."""
    from handlers import _observe

    stage = built()
    send(stage, "chunked", SENT[0])
    watched = Watched(stage, monkeypatch)
    counted: dict[str, float] = {}
    monkeypatch.setattr(_observe.metrics, "add_metric", lambda name, _, value: counted.update({name: value}))
    units = []
    for consistent in ("false", "true"):
        span = {"from": f"{DAY}T00:00:00Z", "to": f"{DAY}T23:59:59Z", "consistent": consistent}
        assert watched.call("events", **span) == 0
        assert counted["EventsRead"] == 1
        units.append(counted["ReadUnits"])
    assert units[0] > 0
    assert units[1] == 2 * units[0]


def test_each_failure_is_counted_and_a_refusal_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from handlers import _observe, query

    def fail(_: object) -> None:
        raise RuntimeError("a mistake of the code")

    counted: list[str] = []
    monkeypatch.setattr(_observe.metrics, "add_metric", lambda *metric: counted.append(metric[0]))
    monkeypatch.setattr(query, "ROUTES", {"/v1/health": fail})
    context: Any = Context()
    assert query.handler({"resource": "/v1/health", "httpMethod": "GET"}, context)["statusCode"] == 503
    assert counted.count("QueryFailures") == 1
    assert query.handler({"resource": "/v1/nowhere", "httpMethod": "GET"}, context)["statusCode"] == 404
    assert counted.count("QueryFailures") == 1
