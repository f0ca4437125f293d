"""A key with a series prefix writes, reads and pages through its own series alone."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from tests.worlds.keyed import EVENTS, SECRET, TENANT, Answered, Door
from tidetable.access import Access
from tidetable.conditions import Condition, NameConditions
from tidetable.problems import ProblemError
from tidetable.query import confine_parameters, confine_query


def texts(answer: Answered) -> str:
    return json.dumps(answer.body)


@pytest.mark.parametrize("stream", ["quakes", "packed", "devices"])
def test_a_tenant_writes_its_series_alone(door: Door, stream: str) -> None:
    good, bad = {"series": "a/1", "id": "t"}, {"series": "b/1", "id": "t"}
    answer = door.call("POST", EVENTS, TENANT, [good, bad, {"series": "a"}], stream=stream)
    assert (answer.status, answer.body["accepted"]) == (200, 1)
    detail = "this key is for series that begin with 'a/'"
    errors = answer.body["errors"]
    assert errors[0] == {"index": 1, "id": "t", "code": "forbidden_series", "detail": detail}
    assert [(error["index"], error["code"]) for error in errors] == [(1, "forbidden_series"), (2, "forbidden_series")]
    assert door.call("POST", EVENTS, TENANT, good, stream=stream).status == 200
    alone = door.call("POST", EVENTS, TENANT, bad, stream=stream)
    assert (alone.status, alone.body["code"]) == (422, "all_refused")
    every = door.call("GET", EVENTS, f"tt_everything_{SECRET}", query={"series": "b/1"}, stream=stream)
    assert [event["id"] for event in every.body["events"]] == ["b/1"]


@pytest.mark.parametrize("stream", ["quakes", "packed"])
def test_a_tenant_reads_its_series_alone(door: Door, stream: str) -> None:
    answer = door.call("GET", EVENTS, TENANT, stream=stream)
    assert answer.status == 200
    assert {event["series"] for event in answer.body["events"]} == {"a/1", "a/2"}
    narrow = door.call("GET", EVENTS, TENANT, query={"series:prefix": "a/2"}, stream=stream)
    assert {event["series"] for event in narrow.body["events"]} == {"a/2"}
    wide = door.call("GET", EVENTS, TENANT, query={"series:prefix": "a"}, stream=stream)
    assert {event["series"] for event in wide.body["events"]} == {"a/1", "a/2"}
    assert "OF-b/1" not in texts(answer) + texts(narrow) + texts(wide)


# What a tenant may not ask: route, stream, query.
FORBIDDEN = [
    (EVENTS, "quakes", {"series": "b/1"}),
    (EVENTS, "quakes", {"series": ["a/1", "b/1"]}),
    (EVENTS, "quakes", {"series:prefix": "b/"}),
    (EVENTS, "devices", {"series": "b/1"}),
    (EVENTS, "quakes", {"explain": "true"}),
    ("/v1/streams/{stream}/latest", "devices", {"series": ["a/1", "b/1"]}),
    ("/v1/streams/{stream}/top", "devices", {}),
    ("/v1/streams/{stream}/top", "devices", {"where.of": "OF-a/1"}),
    ("/v1/streams/{stream}/aggregate", "quakes", {"series": "b/1"}),
    ("/v1/streams/{stream}/aggregate", "quakes", {"series:prefix": "b"}),
    ("/v1/streams/{stream}/series", "quakes", {"prefix": "b"}),
    ("/v1/streams/{stream}/fields", "quakes", {}),
    ("/v1/streams/{stream}/fields/{field}/values", "quakes", {}),
]


@pytest.mark.parametrize(("route", "stream", "query"), FORBIDDEN, ids=str)
def test_a_tenant_is_refused_what_is_of_other_series(
    door: Door, route: str, stream: str, query: dict[str, Any]
) -> None:
    path = {"stream": stream} | ({"field": "of"} if "{field}" in route else {})
    answer = door.call("GET", route, TENANT, None, None, query, **path)
    assert (answer.status, answer.by, answer.body["code"]) == (403, "function", "forbidden_series")
    assert "begin with 'a/'" in answer.body["detail"]


def test_a_tenant_sees_no_periods(door: Door) -> None:
    assert door.call("GET", "/v1/streams/{stream}/periods", TENANT, stream="quakes").by == "gateway"
    assert door.context["refusal"] == "needs operate"


def test_a_tenant_aggregates_its_series_alone(door: Door) -> None:
    query = {"by": "series", "stat": "count"}
    answer = door.call("GET", "/v1/streams/{stream}/aggregate", TENANT, query=query, stream="quakes")
    assert answer.status == 200
    assert {row["group"]["series"] for row in answer.body["aggregates"]} == {"a/1", "a/2"}


def test_a_tenant_finds_the_latest_of_its_series(door: Door) -> None:
    answer = door.call("GET", "/v1/streams/{stream}/latest", TENANT, query={"series": "a/2"}, stream="devices")
    assert [entry["event"]["data"]["of"] for entry in answer.body["latest"]] == ["OF-a/2"]


@pytest.mark.parametrize("stream", ["quakes", "packed", "devices"])
def test_a_ref_of_another_series_is_refused(door: Door, stream: str) -> None:
    for series, status in (("a/2", 200), ("b/1", 403)):
        found = door.call("GET", EVENTS, f"tt_everything_{SECRET}", query={"series": series}, stream=stream)
        (ref,) = [event["ref"] for event in found.body["events"]]
        answer = door.call("GET", f"{EVENTS}/{{ref}}", TENANT, stream=stream, ref=ref)
        assert answer.status == status
        assert "OF-b/1" not in texts(answer)


@pytest.mark.parametrize("query", [{"series": "b/1"}, {"series:prefix": "b"}, {}], ids=str)
def test_a_cursor_of_another_key_opens_nothing(door: Door, query: dict[str, str]) -> None:
    """A cursor is sealed, but not for one key: its query is looked at again."""
    for route in (EVENTS, "/v1/streams/{stream}/aggregate"):
        step = {"step": "1s", "fill": "zero"} if route.endswith("aggregate") else {}
        key = f"tt_everything_{SECRET}"
        more = {"series": "b/2", "id": "2"}
        door.call("POST", EVENTS, key, [{"series": "b/1", "id": "second"}, more], stream="quakes")
        first = door.call("GET", route, key, query={**query, **step, "limit": "1"}, stream="quakes")
        cursor = first.body["next"]
        assert cursor is not None
        answer = door.call("GET", route, TENANT, query={"cursor": cursor}, stream="quakes")
        assert (answer.status, answer.body["code"]) == (403, "forbidden_series")


def test_a_tenant_follows_its_own_cursor(door: Door) -> None:
    seen, query = [], {"limit": "1"}
    while True:
        answer = door.call("GET", EVENTS, TENANT, query=query, stream="packed")
        assert answer.status == 200
        seen += [event["series"] for event in answer.body["events"]]
        if answer.body["next"] is None:
            break
        query = {"limit": "1", "cursor": answer.body["next"]}
    assert set(seen) == {"a/1", "a/2"}


def test_a_listing_of_series_begins_with_the_prefix() -> None:
    tenant = Access("x", None, frozenset({"read"}), "a/")
    route = "/v1/streams/{stream}/series"
    assert confine_parameters(route, {"limit": ["5"]}, tenant) == {"limit": ["5"], "prefix": ["a/"]}
    assert confine_parameters(route, {"prefix": ["a/1"]}, tenant) == {"prefix": ["a/1"]}
    assert confine_parameters(route, {"prefix": [""]}, tenant) == {"prefix": ["a/"]}
    assert confine_parameters(route, {"cursor": ["c"]}, tenant) == {"cursor": ["c"]}


class _Selected(NamedTuple):
    names: NameConditions
    conditions: tuple[Condition, ...] = ()
    consistent: bool = False
    tz: str = ""
    stream: str = "s"
    start: datetime = datetime(2026, 3, 1, tzinfo=UTC)
    end: datetime = datetime(2026, 3, 2, tzinfo=UTC)


def test_a_tenant_asks_its_own_series_alone_whatever_the_form_of_the_query() -> None:
    tenant = Access("x", None, frozenset({"read"}), "a/")
    confine_query(_Selected(NameConditions(series=("a/1",))), tenant)
    for names in (NameConditions(), NameConditions(series=("a/1", "b")), NameConditions(series_prefix="a"), None):
        with pytest.raises(ProblemError, match="other series"):
            confine_query(_Selected(names), tenant)  # type: ignore[arg-type]
