"""Refs of other tenants' events: one answer, whether the event exists. And pages that end early.

Whoever holds a cursor learns nothing of the events that its key may not read.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from typing import Any

import pytest

from tests.worlds.tenant_cases import (
    AGGREGATE,
    EVENT,
    EVENTS,
    SERIES,
    Both,
    Case,
    Texts,
    compare,
    list_cases,
    make_requests,
    read_text,
)
from tests.worlds.tenants import OTHERS, PREFIX, SECRET, SPAN, STREAMS, Answer
from tidetable.access import FULL
from tidetable.layout import Key, Ref, escape
from tidetable.layout.pack import is_address
from tidetable.query.model import Query


def list_refs(both: Both, stream: str) -> tuple[list[str], list[str]]:
    """List refs of other tenants' events, and refs of events of the tenant that do not exist, at the same times."""
    requests = make_requests([Case(EVENTS, {"stream": stream}, SPAN | {"limit": "10000"})], FULL)
    if stream in ("devices", "meters", "ranked"):
        requests[0]["query"] = requests[0]["query"] | {"series": list(OTHERS)}
    ((page, *_),) = both.ask(requests)[1]
    events = [event for event in page.document["events"] if not event["series"].startswith(PREFIX)]
    theirs = [event["ref"] for event in events]
    invented = []
    for event in events:
        ref, names = Ref.decode(event["ref"]), {escape(event["series"]): "a/9", "": ""}
        if is_address(ref.key.pk):
            # Nobody can guess the hash of a pack.
            continue
        pk, sk = ref.key
        for name, other in names.items():
            pk, sk = (
                pk.replace(f"{name}#", f"{other}#", 1) if name else pk,
                sk.replace(f"#{name}#", f"#{other}#") if name else sk,
            )
        invented.append(Ref(ref.stream, ref.period, Key(pk, sk)).encode())
    return theirs, invented


@pytest.mark.parametrize("stream", STREAMS)
def test_a_ref_of_another_series_has_one_answer_whether_the_event_exists(both: Both, stream: str) -> None:
    theirs, invented = list_refs(both, stream)
    assert len(theirs) > 20
    queries: list[Texts] = [{}, {"consistent": "true"}, {"fields": "n"}]
    queries += [{"versions": "all"}, {"version": "1"}, {"version": "9"}] if stream == "kept" else []
    for refs, status, code in ((theirs, 403, "forbidden_series"), (invented, 404, "unknown_event")):
        cases = [Case(EVENT, {"stream": stream, "ref": ref}, query) for ref in refs[::3] for query in queries]
        compare(both, make_requests(cases), 0)
        for stage in both.ask(make_requests(cases)):
            assert {(answer.status, answer.document["code"]) for (answer,) in stage} == (
                {(status, code)} if cases else set()
            )


@pytest.mark.parametrize("stream", STREAMS)
def test_a_tenants_own_refs_find_the_same_events_on_both_stages(both: Both, stream: str) -> None:
    """Refs of packed events differ, because a pack may hold events of several tenants. The events are the same."""
    more: Texts = {"series": ["a/0", "a/1", "a/2"]} if stream in ("devices", "meters", "ranked") else {}
    query: Texts = {**SPAN, "limit": "10000", "fields": "*", **more}
    found = []
    for (pages,), stage in zip(
        both.ask(make_requests([Case(EVENTS, {"stream": stream}, query)])), both.stages, strict=True
    ):
        refs = [event["ref"] for event in pages[0].document["events"]]
        requests = make_requests([Case(EVENT, {"stream": stream, "ref": ref}, {"fields": "*"}) for ref in refs])
        answers = [answers[0] for answers in Both((stage,), both.folder).ask(requests)[0]]
        assert {answer.status for answer in answers} == {200}
        found.append([read_text(answer) for answer in answers])
    assert found[0] == found[1]
    assert len(found[0]) > 30


TIMES = [(0.0,), (30.0, 30.0, 2.0), (30.0, 30.0, 30.0, 30.0, 30.0, 2.0)]
_HURRIED = [Case(EVENTS, {"stream": stream}, SPAN | query) for stream in STREAMS[:3] for query in (
    {}, {"order": "asc"}, {"series": "a/1"}, {"series:prefix": "a/2", "order": "asc"}, {"id:prefix": "own"},
)] + [Case(EVENTS, {"stream": "plain"}, SPAN | query) for query in (
    {"where.status": "positive"}, {"where.status": "rare"}, {"where.site": "site 1"}, {"where.note": "own"},
)] + [Case(EVENTS, {"stream": "devices"}, SPAN | {"series": ["a/0", "a/1"]})]  # fmt: skip


@pytest.mark.parametrize("seconds", TIMES, ids=str)
def test_a_page_that_ends_early_tells_nothing_by_its_cursor(both: Both, seconds: tuple[float, ...]) -> None:
    """Only where the pages end may differ: together they hold the same events."""
    requests = make_requests([case._replace(query={**case.query, "limit": "10"}) for case in _HURRIED], seconds=seconds)
    alone, shared = both.ask(requests)
    early = 0
    for request, first, second in zip(requests, alone, shared, strict=True):
        described = str(request["query"])
        if request["query"].get("where.site"):
            # A part of a hierarchy is put in order at once, or not at all.
            assert {page.document.get("code") for page in (*first, *second) if page.status != 200} <= {"too_much"}
            continue
        assert {page.status for page in (*first, *second)} == {200}, described
        events = [[show(event) for page in pages for event in page.document["events"]] for pages in (first, second)]
        assert events[0] == events[1], described
        for page in second:
            early += len(page.document["events"]) < 10 and page.document["next"] is not None
            check_cursor(page, both)
    assert early > 20


def show(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if name != "ref"}


def check_cursor(page: Answer, both: Both) -> None:
    """Check that neither the cursor of a page nor its content names another tenant."""
    text = page.document["next"]
    if text is None:
        return
    raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert raw[0] == 5
    assert (len(raw) - 17) % 256 == 0
    assert not any(name.encode() in raw for name in ("patient", "plain", "packed", SECRET))
    position = both.stages[1].stage.seal.open(text, Query).after
    assert position is not None
    if page.document["events"]:
        # A page without events may have had no time to leave an instant. Then its cursor has to hold the place itself.
        assert position.series.startswith(PREFIX) or (position.series, position.time.microsecond) == ("", 0)


@pytest.mark.parametrize("seconds", TIMES, ids=str)
def test_an_aggregate_or_listing_without_time_says_so_and_else_answers_the_same(
    both: Both, seconds: tuple[float, ...]
) -> None:
    cases = [case for case in list_cases() if case.route in (AGGREGATE, SERIES)]
    requests = make_requests(cases[::2], seconds=seconds)
    alone, shared = both.ask(requests)
    slow = 0
    for request, first, second in zip(requests, alone, shared, strict=True):
        pages = (*first, *second)
        if any(page.status == 422 and page.document["code"] == "too_much" for page in pages):
            slow += 1
            assert all(SECRET not in page.body for page in pages)
            continue
        name = "series" if request["resource"] == SERIES else "aggregates"
        rows = [[row for page in some for row in page.document.get(name, [page.document])] for some in (first, second)]
        assert rows[0] == rows[1], str(request["query"])
    assert slow > 0
