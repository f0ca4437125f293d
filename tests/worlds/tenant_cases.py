"""Requests of every route with the key of a tenant, and the two stages that are asked them."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import timedelta
from io import BytesIO
from typing import Any, NamedTuple

import pyarrow as pa

from tests.worlds.tenants import FIRST_DAY, NOON, PREFIX, SECRET, SPAN, STREAMS, Answer, Tenants
from tidetable.access import Access
from tidetable.times import to_text

STREAM = "/v1/streams/{stream}"
EVENTS, LATEST, TOP, AGGREGATE = f"{STREAM}/events", f"{STREAM}/latest", f"{STREAM}/top", f"{STREAM}/aggregate"
SERIES, FIELDS, VALUES, PERIODS = (
    f"{STREAM}/series",
    f"{STREAM}/fields",
    f"{STREAM}/fields/{{field}}/values",
    f"{STREAM}/periods",
)
EVENT = f"{EVENTS}/{{ref}}"
COSTS = ("Tidetable-Read-Units", "Tidetable-Requests", "Tidetable-Events-Read")
TENANT = Access("tenant", None, frozenset({"read"}), PREFIX)
_REF = re.compile(r"WzEs[\w-]+")
FORMS = [
    {"format": "json"},
    {"format": "ndjson"},
    {"format": "csv"},
    {"format": "arrow"},
    {"format": "csv", "escape": "false"},
]
FORMS += [{"format": "json", "flat": "true"}, {"format": "ndjson", "flat": "true"}]
# A second in which only other tenants have an event.
LONELY = FIRST_DAY + timedelta(days=2, hours=6, minutes=19)
# The last hours: pages of one event are many.
_EVENING = {"from": to_text(NOON - timedelta(hours=7))}
INSTANT = {"from": to_text(LONELY + timedelta(seconds=0.9)), "to": to_text(LONELY + timedelta(seconds=1.1))}
Texts = Mapping[str, str | Sequence[str]]
SELECTIONS: list[Texts] = [
    {}, {"order": "asc"}, {"limit": "1", **_EVENING}, {"limit": "2", "order": "asc", **_EVENING}, {"limit": "7"},
    {"series": "a/1"}, {"series": ["a/1", "a/2"], "order": "asc", "limit": "3"}, {"series": "a/none"},
    {"series:prefix": "a/2"}, {"series:prefix": "a"}, {"series:prefix": ""}, {"id": "own-1"}, {"id:prefix": "own"},
    {"id": f"{SECRET}-1"}, {"where.status": "positive"}, {"where.status": "rare"}, {"where.status": SECRET},
    {"where.status": "positive", "series": "a/0"}, {"where.n:ge": "2"}, {"where.n": "50"}, {"where.note:prefix": "f"},
    {"where.site": "site 1"}, {"where.site": "site 1", "where.x": "1"}, {"where.text:prefix": "a"},
    {"fields": "n"}, {"fields": "*"}, {"versions": "all"}, {"consistent": "true"}, {"priority": "low"}, INSTANT,
    {"from": to_text(NOON - timedelta(hours=3))}, {"to": to_text(FIRST_DAY + timedelta(days=1))},
    {"explain": "true"}, {"series": "b/patient-74"}, {"series": ["a/1", "b/patient-74"]}, {"series:prefix": "b/"},
    {"cursor": "rubbish"}, {"unknown": "x"}, {"limit": "0"}, {"fields": ","}, {"where.absent": "1"},
]  # fmt: skip
STATISTICS: list[Texts] = [
    {}, {"step": "1h"}, {"step": "1d", "by": "series"}, {"by": ["series", "status"]}, {"by": "status", "step": "6h"},
    {"field": "n", "stat": ["avg", "p50", "min", "max", "first", "last"], "step": "1d"}, {"by": "series", "top": "2"},
    {"step": "1h", "fill": "zero"}, {"step": "3h", "fill": "previous", "field": "n", "stat": "sum"}, {"by": "note"},
    {"rollups": "false"}, {"rollups": "false", "by": "series", "step": "6h"}, {"where.status": "positive"},
    {"where.status": SECRET}, {"series": "a/1", "step": "1h"}, {"series": "b/patient-74"}, {"series:prefix": "a"},
    {"step": "1h", "by": "series", "limit": "5"}, {"step": "1h", "limit": "3"}, {"explain": "true"}, INSTANT,
    {"by": "series", "limit": "1"}, {"step": "1s"}, {"cursor": "rubbish"},
]  # fmt: skip
LISTINGS: list[Texts] = [
    {}, {"limit": "1"}, {"limit": "2"}, {"prefix": "a/1"}, {"prefix": "a"}, {"prefix": "b"}, SPAN, SPAN | {"limit": "1"},
    {"from": to_text(LONELY - timedelta(hours=2)), "to": to_text(LONELY + timedelta(minutes=31))}, INSTANT,
    {"from": to_text(NOON - timedelta(hours=3, minutes=5))}, {"consistent": "true"}, {"explain": "true"},
]  # fmt: skip


class Case(NamedTuple):
    """A request: a route, the parameters of its path and of its query."""

    route: str
    path: Mapping[str, str]
    query: Texts


def list_cases() -> Iterator[Case]:
    """List requests of every route of the query function and of the operators' function."""
    for stream in STREAMS:
        path = {"stream": stream}
        for route, queries in ((EVENTS, SELECTIONS), (AGGREGATE, STATISTICS)):
            yield from (Case(route, path, {**SPAN, **query}) for query in queries)
        yield from (Case(SERIES, path, query) for query in LISTINGS)
        for query in ({"series": "a/1"}, {"series": ["a/0", "a/none", "a/2"]}, {"series": "b/patient-74"}, {}):
            yield Case(LATEST, path, query)
        yield from (Case(TOP, path, query) for query in (SPAN, SPAN | {"series": "a/1"}, {"index": "best"}))
        yield from (Case(FIELDS, path, query) for query in ({}, SPAN))
        yield from (Case(VALUES, path | {"field": name}, SPAN) for name in ("status", "site"))
        yield from (Case(PERIODS, path, query) for query in ({}, {"limit": "1"}))
    for stream in ("packed-hours", "devices-hours"):
        path = {"stream": stream}
        yield from (
            Case(EVENTS, path, query) for query in (SPAN, {**SPAN, "series": "a/1"}, {"limit": "1", **_EVENING})
        )
        yield from (Case(AGGREGATE, path, {**SPAN, **query}) for query in ({}, {"step": "1h", "by": "series"}))
        yield from (Case(route, path, {}) for route in (SERIES, FIELDS, PERIODS, TOP))
        yield Case(LATEST, path, {"series": "a/1"})
    yield from (Case(f"{stream}", {"stream": "none"}, {}) for stream in (EVENTS, LATEST, AGGREGATE, SERIES))
    for route in ("/v1/health", "/v1/streams", "/v1/plan", "/v1/alarms", "/v1/activity", "/v1/cost"):
        yield Case(route, {}, {})
    yield Case("/v1/cost", {}, {"stream": "plain"})
    yield Case("/v1/cost", {}, {"stream": "plain", "rate": "5"})


class Both:
    """The two stages, which are asked the same."""

    def __init__(self, stages: tuple[Tenants, ...], folder: Any) -> None:
        self.stages, self.folder = stages, folder

    def ask(self, requests: Sequence[dict[str, Any]]) -> list[list[list[Answer]]]:
        """Ask each stage; for each stage and each request, return the answers of all pages."""
        found = []
        # Both stages are asked at the same instants.
        self.stages[0].now = self.stages[-1].now = max(stage.now for stage in self.stages)
        for stage in self.stages:
            with ExitStack() as served:
                served.enter_context(stage.serve(self.folder))
                found.append([list(walk(stage, **request)) for request in requests])
        return found


def walk(stage: Tenants, **request: Any) -> Iterator[Answer]:
    """Ask for a page, and for the following pages."""
    query = dict(request.pop("query", {}))
    for _ in range(400):
        answer = stage.ask(**request, query=query)
        yield answer
        following = answer.headers.get("Tidetable-Next")
        if following is None:
            return
        free = {name: value for name, value in query.items() if name in ("format", "flat", "escape", "limit")}
        query = free | {"cursor": following}


def read_text(answer: Answer) -> str:
    """Return the body of an answer without refs. A table of Arrow becomes text."""
    if answer.encoded:
        with pa.ipc.open_stream(BytesIO(b64decode(answer.body))) as reader:
            table = reader.read_all()
        return _REF.sub("REF", f"{table.schema} {table.to_pylist()}")
    return _REF.sub("REF", answer.body)


def make_requests(cases: Iterable[Case], access: Access = TENANT, **more: Any) -> list[dict[str, Any]]:
    return [
        {"access": access, "resource": case.route, "path": case.path, "query": case.query, **more} for case in cases
    ]


def compare(both: Both, requests: Sequence[dict[str, Any]], least: int) -> None:
    """Check that both stages give the same answers, and that at least some pages hold events or rows of the tenant."""
    alone, shared = both.ask(requests)
    shown = 0
    for request, first, second in zip(requests, alone, shared, strict=True):
        described = str({name: value for name, value in request.items() if name != "access"})
        assert len(first) == len(second), described
        for mine, theirs in zip(first, second, strict=True):
            assert (theirs.status, theirs.headers) == (mine.status, mine.headers), described
            assert read_text(theirs) == read_text(mine), described
            assert SECRET not in read_text(theirs), described
            if request["access"].series_prefix:
                assert not {*COSTS} & theirs.headers.keys(), described
                assert '"sources"' not in theirs.body, described
            shown += bool(re.search(r"own-|a/\d", read_text(theirs)))
    assert shown >= least, shown
