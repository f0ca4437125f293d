"""No answer to a key with a series prefix depends on events of other series.

Every route is asked on two stages that differ only in these events. Statuses, headers and bodies must be equal, byte by
byte, but for the refs of events in packs.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from handlers import operations
from tests.worlds.tenant_cases import (
    AGGREGATE,
    COSTS,
    EVENT,
    EVENTS,
    FORMS,
    LATEST,
    LONELY,
    PERIODS,
    SERIES,
    STREAM,
    Both,
    Case,
    compare,
    list_cases,
    make_requests,
    read_text,
)
from tests.worlds.tenants import NOON, PREFIX, SECRET, SPAN, STREAMS
from tidetable.access import FULL, SCOPES, Access, Scope
from tidetable.times import to_text


def test_the_shared_stage_differs_in_all_that_a_tenant_must_not_see(both: Both) -> None:
    """Otherwise the other tests of this module would prove nothing."""
    requests = make_requests(
        [Case(EVENTS, {"stream": stream}, SPAN | {"limit": "10000"}) for stream in STREAMS[:3]], FULL
    )
    alone, together = both.ask(requests)
    for mine, theirs in zip(alone, together, strict=True):
        assert {page.status for page in (*mine, *theirs)} == {200}
        counts = [sum(len(page.document["events"]) for page in pages) for pages in (mine, theirs)]
        assert counts[1] > 2 * counts[0] > 200
        for name in COSTS:
            costs = [sum(float(page.headers[name]) for page in pages) for pages in (mine, theirs)]
            assert costs[1] >= costs[0] > 0
        assert {source["from"] for page in mine for source in page.document["sources"]} == {"table", "archive"}
    damaged = [{gap["reason"] for page in pages[1] for gap in page.document["gaps"]} for pages in (alone, together)]
    assert damaged[1] - damaged[0] == {"damaged pack"}
    for number in (0, 2):
        assert any(event.get("incomplete") for page in together[number] for event in page.document["events"])
    for stream in ("packed", "devices"):
        states = [stage.stage.rollups.read_state(stream) for stage in both.stages]
        assert [bool(state.marks) for state in states] == [False, True]
        assert [bool(state.over) for state in states] == [False, True]


def test_no_answer_depends_on_other_series(both: Both) -> None:
    compare(both, make_requests(list_cases()), 200)


@pytest.mark.parametrize("number", range(len(FORMS)), ids=str)
def test_no_form_of_an_answer_depends_on_other_series(both: Both, number: int) -> None:
    """Each request in some of the forms, so that each form meets requests of every kind."""
    cases = [case for case in list_cases() if case.route in (EVENTS, AGGREGATE, SERIES)]
    some = [case._replace(query={**case.query, **FORMS[number]}) for case in cases[number :: len(FORMS)]]
    compare(both, make_requests(some), 30)
    accept = ("application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream", "*/*")[number % 4]
    compare(both, make_requests(cases[number :: 5 * len(FORMS)], accept=accept), 3)


@pytest.mark.parametrize("prefix", ["a/", "a/1", "none/"])
@pytest.mark.parametrize("rights", ["write", "operate", "read operate", "write read operate"])
def test_no_right_makes_an_answer_depend_on_other_series(both: Both, prefix: str, rights: str) -> None:
    """The routes of operators show figures of all series, so they refuse a key with a prefix."""
    can: frozenset[Scope] = frozenset(scope for scope in SCOPES if scope in rights)
    access = Access("k", frozenset({*STREAMS, "packed-hours", "devices-hours"}), can, prefix)
    number = len(can) + len(prefix)
    cases = list(list_cases())
    compare(both, make_requests(cases[number::7], access), 0)
    compare(both, make_requests(cases[number::23], access, method="HEAD"), 0)
    operated = [case for case in cases if case.route in (PERIODS, *operations.ROUTES)]
    for stage in both.ask(make_requests(operated, access)):
        codes = {answer.document["code"] for (answer,) in stage}
        assert codes == ({"forbidden_series"} if "operate" in can else {"forbidden"})
    ((streams,),) = both.ask(make_requests([Case("/v1/streams", {}, {})], access))[1]
    assert streams.document["can"] == sorted(can - {"operate"})


WRITES: list[tuple[str, dict[str, str], Any]] = [
    (EVENTS, {}, [{"series": "a/new", "id": "1", "data": {"n": 1}}]),
    (EVENTS, {}, [{"series": "a/1", "id": "late", "time": to_text(NOON - timedelta(hours=3)), "data": {"n": 1}}]),
    (
        EVENTS,
        {},
        [{"series": "b/patient-74", "id": f"{SECRET}-0", "time": to_text(LONELY)}, {"series": "a/2", "id": "x"}],
    ),
    (EVENTS, {}, [{"series": "b/patient-74", "id": "x"}]),
    (EVENTS, {}, [{"series": "a/1", "time": "1999-01-01T00:00:00Z"}, {"series": "a/1", "data": 5}]),
    (f"{STREAM}/cloudevents", {}, {"specversion": "1.0", "id": "1", "source": "a/src", "type": "t", "data": {}}),
    (f"{STREAM}/cloudevents", {}, {"specversion": "1.0", "id": "1", "source": "b/src", "type": "t", "data": {}}),
    ("/api/v2/write", {"bucket": "plain"}, "a/cpu,host=h n=1"),
    ("/api/v2/write", {"bucket": "plain"}, "b/cpu,host=h n=1"),
]


@pytest.mark.parametrize("stream", ["plain", "packed", "kept", "devices"])
def test_no_answer_to_a_writer_depends_on_other_series(both: Both, stream: str) -> None:
    """Write units are those of the tenant's own events, so their header stays."""
    access = Access("writer", None, frozenset({"write"}), PREFIX)
    requests = [
        {
            "access": access, "resource": route, "path": {"stream": stream} if "{stream}" in route else {}, "query": query,
            "method": "POST", "body": body if isinstance(body, str) else json.dumps(body),
            "content_type": "application/cloudevents+json" if route.endswith("cloudevents") else "application/json",
        }
        for route, query, body in WRITES
    ]  # fmt: skip
    alone, shared = both.ask(requests)
    for request, first, second in zip(requests, alone, shared, strict=True):
        assert [(page.status, page.headers) for page in first] == [(page.status, page.headers) for page in second], (
            request
        )
        assert [read_text(page) for page in first] == [read_text(page) for page in second], request
    statuses = [page.status for (page,) in shared]
    assert statuses[:4] == [200, 200, 200, 422]
    assert "Tidetable-Write-Units" in shared[0][0].headers


def test_the_stream_of_a_rollup_is_refused_with_the_stream_to_ask(both: Both) -> None:
    cases = [Case(route, {"stream": "packed-hours"}, {}) for route in (EVENTS, AGGREGATE, SERIES)]
    cases.append(Case(LATEST, {"stream": "packed-hours"}, {"series": "a/1"}))
    cases.append(Case(EVENT, {"stream": "packed-hours", "ref": "WzEs"}, {}))
    for stage in both.ask(make_requests(cases)):
        for (answer,) in stage:
            assert (answer.status, answer.document["code"]) == (403, "forbidden_series")
            assert answer.document["detail"].startswith(
                "the cells of a rollup depend on all series, so aggregate the stream packed: this key is for series"
            )
    for (pages,) in both.ask(make_requests(cases[:1], FULL)):
        assert pages[0].status == 200
