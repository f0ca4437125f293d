"""Pages of closed time: the process keeps them for five seconds, they carry an ETag, and 304 answers who has them.

The stage has an event on each of eight days. The days before the 14th are archived, and the last day is the 18th.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

import settings
import wiring
from tests.api.gateway import Context
from tests.fakes.bucket import FakeBucketReader
from tests.fakes.stage import Stage, prepare_once
from tidetable.access import Access, Scope
from tidetable.config import parse
from tidetable.query import past
from tidetable.times import to_text

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
[streams.s]
period = "day"
late = "1h"
retention = 3
key = { partition_by = "time", bucket = "24h", shards = 4 }
[streams.r]
period = "day"
late = "1h"
retention = 3
key = { partition_by = "series" }
[[streams.r.rollup]]
name = "hours"
every = "1h"
by = ["series"]
retention = "30d"
"""
ARCHIVED = {"from": "2026-03-11", "to": "2026-03-13"}
CLOSED = {"from": "2026-03-16", "to": "2026-03-17"}
FREE = ["0", "0", "0"]
EVENTS, AGGREGATE, SERIES = (f"/v1/streams/{{stream}}/{name}" for name in ("events", "aggregate", "series"))
HEADERS = ("Tidetable-Read-Units", "Tidetable-Requests", "Tidetable-Events-Read")


class Answered(NamedTuple):
    """An answer, and the calls to DynamoDB that it took."""

    status: int
    headers: Mapping[str, str]
    body: str
    calls: int

    @property
    def etag(self) -> str:
        return self.headers["ETag"]

    @property
    def costs(self) -> list[str]:
        return [self.headers[name] for name in HEADERS]

    @property
    def ids(self) -> list[str]:
        return [event["id"] for event in json.loads(self.body)["events"]]


class Asked:
    """The query function of a stage. ``begin_process`` forgets what the process knows."""

    def __init__(self, stage: Stage, stack: ExitStack) -> None:
        self.stage, self._stack = stage, stack
        self.begin_process()

    def begin_process(self) -> None:
        self._stack.enter_context(wiring.serve_pipeline(self.stage.pipeline))

    def ask(
        self,
        query: Mapping[str, str],
        known: str = "",
        *,
        route: str = EVENTS,
        stream: str = "s",
        access: Access | None = None,
        headers: Mapping[str, str] = {},
    ) -> Answered:
        from handlers.query import handler

        self.stage.client.calls = 0
        event = {
            "resource": route,
            "httpMethod": "GET",
            "headers": {**headers} | ({"If-None-Match": known} if known else {}),
            "pathParameters": {"stream": stream},
            "multiValueQueryStringParameters": {name: [text] for name, text in query.items()},
            "requestContext": {"authorizer": access.context()} if access else {},
        }
        answer: Any = handler(event, Context())  # type: ignore[arg-type]
        return Answered(answer["statusCode"], answer["headers"], answer["body"], self.stage.client.calls)


@prepare_once
def make_stage() -> Stage:
    stage = Stage(NOON, CONFIG)
    for day in range(8):
        stage.run_lifecycle()
        for stream in ("s", "r"):
            body = [{"series": f"a/{day % 2}", "id": f"e{day}", "data": {"n": day}}]
            assert stage.send(stream, json.dumps(body).encode()).accepted == 1
        stage.clock.sleep(86_400 / 2)
        for _ in range(3):
            stage.run_lifecycle()
            stage.refresh()
            stage.clock.sleep(300)
        stage.clock.sleep(86_400 / 2 - 900)
    stage.run_lifecycle()
    stage.settle()
    return stage


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    monkeypatch.setenv("TIDETABLE_STAGE", "lapse")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    settings.read_settings.cache_clear()
    with ExitStack() as stack:
        yield Asked(make_stage(), stack)
    settings.read_settings.cache_clear()


def send_late(stage: Stage, id: str, time: str) -> None:
    """Store an event in a closed table, as the drain does with an event that waited."""
    stage.config = parse(CONFIG.replace('late = "1h"', 'late = "3d"'))
    assert stage.send("s", json.dumps([{"series": "b", "id": id, "time": time, "data": {}}]).encode()).status in (
        200,
        202,
    )
    stage.drain()
    stage.config = parse(CONFIG)
    stage.settle()


def test_a_page_of_closed_time_is_kept_for_five_seconds_and_costs_nothing(asked: Asked) -> None:
    first = asked.ask(CLOSED)
    assert (first.status, first.ids, first.costs) == (200, ["e6"], ["2", "4", "1"])
    assert first.headers["Cache-Control"] == "private, no-cache"
    assert "Age" not in first.headers
    asked.stage.clock.sleep(4.999)
    again = asked.ask(CLOSED)
    assert (again.status, again.body, again.etag, again.costs) == (200, first.body, first.etag, FREE)
    assert (again.headers["Age"], again.calls) == ("4", 0)
    asked.stage.clock.sleep(0.001)
    later = asked.ask(CLOSED)
    assert (later.etag, later.costs, "Age" in later.headers) == (first.etag, ["2", "4", "1"], False)


def test_an_answer_may_be_of_the_past_or_not(asked: Asked) -> None:
    """The window of the stream ends an hour ago."""
    edge = asked.stage.clock.now() - timedelta(hours=1)
    for query in (
        {"from": "2026-03-16", "to": to_text(edge)},
        {"from": "2026-03-18", "to": "2026-03-19"},
        CLOSED | {"consistent": "true"},
        CLOSED | {"explain": "true"},
    ):
        first = asked.ask(query)
        assert (first.status, first.headers["Cache-Control"], "ETag" in first.headers) == (200, "no-store", False)
        assert asked.ask(query).calls > 0
    closed = {"from": "2026-03-16", "to": to_text(edge - timedelta(milliseconds=1))}
    assert (asked.ask(closed).ids, asked.ask(closed).calls) == (["e7", "e6"], 0)


def test_a_clock_that_was_set_back_keeps_no_page(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    asked.ask(CLOSED)
    before = asked.stage.clock.now() - timedelta(seconds=1)
    monkeypatch.setattr(asked.stage.clock, "now", lambda: before)
    assert asked.ask(CLOSED).calls > 0


def test_an_event_that_comes_late_is_shown_after_five_seconds_and_changes_the_etag(asked: Asked) -> None:
    first = asked.ask(CLOSED)
    send_late(asked.stage, "late", "2026-03-16T13:00:00Z")
    asked.stage.clock.sleep(2.9)
    assert (asked.ask(CLOSED).ids, asked.ask(CLOSED, first.etag).status) == (["e6"], 304)
    asked.stage.clock.sleep(0.1)
    changed = asked.ask(CLOSED, first.etag)
    assert (changed.status, changed.ids, changed.etag != first.etag) == (200, ["late", "e6"], True)


def test_an_etag_is_of_what_is_shown_and_not_of_what_was_read(asked: Asked) -> None:
    filtered = CLOSED | {"series:prefix": "a/"}
    cut = CLOSED | {"limit": "1", "order": "asc", "format": "csv"}
    first, page = asked.ask(filtered), asked.ask(cut)
    send_late(asked.stage, "late", "2026-03-16T13:00:00Z")
    asked.begin_process()
    valid = asked.ask(filtered, first.etag)
    assert (first.costs[2], valid.status, valid.costs[2]) == ("1", 304, "2")
    # The rows of CSV are the same, but now there is a next page.
    longer = asked.ask(cut, page.etag)
    assert (longer.status, longer.body == page.body) == (200, True)
    assert ["Tidetable-Next" in answer.headers for answer in (page, longer)] == [False, True]


def test_a_table_that_still_answers_is_read_for_a_304_which_saves_the_body(asked: Asked) -> None:
    first = asked.ask(CLOSED)
    asked.begin_process()
    valid = asked.ask(CLOSED, first.etag)
    assert (valid.status, valid.body, valid.costs) == (304, "", ["2", "4", "1"])
    assert {name: valid.headers.get(name) for name in ("ETag", "Cache-Control", "Content-Type")} == {
        "ETag": first.etag,
        "Cache-Control": "private, no-cache",
        "Content-Type": None,
    }
    kept = asked.ask(CLOSED, f'"other", {first.etag}')
    assert (kept.status, kept.costs, kept.calls) == (304, FREE, 0)


@pytest.mark.parametrize(("route", "extra"), [(EVENTS, {"limit": "1"}), (EVENTS, {"order": "asc"}), (AGGREGATE, {})])
def test_an_archive_is_not_read_for_a_304(
    asked: Asked, route: str, extra: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asked.ask(ARCHIVED | extra, route=route)
    assert (first.status, first.etag[:3], first.etag[4:6]) == (200, 'W/"', "+-" if "limit" in extra else ".-")
    asked.begin_process()
    monkeypatch.setattr(FakeBucketReader, "read", None)
    monkeypatch.setattr(FakeBucketReader, "read_whole", None)
    valid = asked.ask(ARCHIVED | extra, first.etag, route=route)
    # A Query of the catalog; in ascending order, and for an aggregate, a second for the period before the range.
    assert (valid.status, valid.body, valid.costs, valid.calls) == (304, "", FREE, 1 if "limit" in extra else 2)
    assert (valid.etag, valid.headers["Cache-Control"]) == (first.etag, "private, no-cache")


@pytest.mark.parametrize(("route", "extra"), [(EVENTS, {}), (AGGREGATE, {"step": "1d"})])
def test_the_second_page_of_an_archive_has_an_etag_of_its_own(asked: Asked, route: str, extra: dict[str, str]) -> None:
    first = asked.ask(ARCHIVED | {"limit": "1"} | extra, route=route)
    cursor = {"cursor": json.loads(first.body)["next"]}
    second = asked.ask(cursor, route=route)
    asked.begin_process()
    assert [asked.ask(cursor, known, route=route).status for known in (second.etag, first.etag)] == [304, 200]
    asked.begin_process()
    valid = asked.ask(cursor, second.etag, route=route)
    assert (valid.status, valid.costs) == (304, FREE)


def test_a_restored_period_has_another_etag_and_again_when_it_is_archived_anew(asked: Asked) -> None:
    stage, first = asked.stage, asked.ask(ARCHIVED)
    stage.restore("s", "2026-03-12")
    stage.settle()
    asked.begin_process()
    restored = asked.ask(ARCHIVED, first.etag)
    # The content says which period was read from a table.
    assert (restored.status, restored.ids, restored.etag[3:].count("-")) == (200, ["e2", "e1"], 0)
    stage.clock.sleep(8 * 86_400)
    for _ in range(3):
        stage.run_lifecycle()
        stage.clock.sleep(600)
    again = asked.ask(ARCHIVED, first.etag)
    assert (again.status, again.body == first.body, again.etag[3:6], again.etag != first.etag) == (
        200,
        True,
        "2.-",
        True,
    )


@pytest.mark.parametrize("query", [ARCHIVED, CLOSED], ids=["archived", "closed"])
def test_a_deployed_change_of_the_stream_or_of_the_code_ends_all_etags(
    asked: Asked, query: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asked.ask(query)
    asked.begin_process()
    assert asked.ask(query, first.etag).status == 304
    asked.stage.config = parse(CONFIG.replace("[streams.s]", '[streams.s]\nahead = "6m"'))
    asked.begin_process()
    assert asked.ask(query, first.etag).status == 200
    asked.stage.config = parse(CONFIG)
    asked.begin_process()
    monkeypatch.setattr(past, "VERSION", "0.2.0")
    assert asked.ask(query, first.etag).status == 200


@pytest.mark.parametrize("query", [ARCHIVED, CLOSED], ids=["archived", "closed"])
def test_no_page_and_no_etag_passes_to_a_key_with_other_rights(asked: Asked, query: dict[str, str]) -> None:
    reading: frozenset[Scope] = frozenset({"read"})
    first = asked.ask(query, access=Access("one", can=reading))
    assert asked.ask(query, first.etag, access=Access("another", can=reading)).status == 304
    rights = [
        Access("one", frozenset({"s"}), reading),
        Access("one", frozenset({"s", "r"}), reading),
        Access("one", can=frozenset({"read", "operate"})),
        Access("one", can=reading, series_prefix="a"),
        Access("one", can=reading, series_prefix="a/"),
        None,
    ]
    for access in rights:
        assert (answer := asked.ask(query, first.etag, access=access)).status == 200
        assert ("sources" in json.loads(answer.body)) == (not (access and access.series_prefix))
    assert asked.ask(query, first.etag, access=Access("one", frozenset({"r"}), reading)).status == 403


def test_a_key_with_a_prefix_learns_nothing_of_the_catalog(asked: Asked) -> None:
    """The entries of the catalog depend on the events of other series, so the tag is one of the content."""
    first = asked.ask(ARCHIVED, access=Access("one", series_prefix="a/1"))
    assert (first.ids, len(first.etag)) == (["e1"], 36)
    assert not set(HEADERS) & first.headers.keys()
    assert asked.ask(ARCHIVED, first.etag, access=Access("one", series_prefix="a/1")).status == 304
    assert asked.ask(ARCHIVED, access=Access("one", series_prefix="a/")).ids == ["e2", "e1"]


def test_each_form_of_a_page_has_an_etag_of_its_own(asked: Asked) -> None:
    pages = [
        asked.ask(CLOSED),
        asked.ask(CLOSED, headers={"Accept": "text/csv"}),
        asked.ask(CLOSED | {"refs": "false"}),
        asked.ask(CLOSED | {"limit": "7"}),
        asked.ask(CLOSED | {"order": "asc"}),
        asked.ask(CLOSED, route=AGGREGATE),
    ]
    assert len({page.etag for page in pages}) == 6
    assert asked.ask(CLOSED, headers={"Accept": "text/csv"}).headers["Content-Type"] == "text/csv; charset=utf-8"
    # The gateway compresses: the function's page is the same, and the ETag is weak.
    zipped = asked.ask(CLOSED, headers={"Accept-Encoding": "gzip"})
    assert (zipped.etag, zipped.calls) == (pages[0].etag, 0)
    assert zipped.etag.startswith('W/"')


@pytest.mark.parametrize("known", ["*", "", "W/", '"', "x" * 5_000, '"1.-"', f'"999.-{"0" * 32}"', f'"0.-{"0" * 32}"'])
def test_an_unknown_etag_is_answered_with_the_page(asked: Asked, known: str) -> None:
    answer = asked.ask(ARCHIVED, known)
    assert (answer.status, answer.ids) == (200, ["e2", "e1"])


def test_neither_an_error_nor_an_incomplete_page_is_kept(asked: Asked) -> None:
    assert asked.ask(CLOSED | {"limit": "0"}).status == 400
    asked.stage.dynamo.account.tables.pop("tidetable-lapse.s.2026-03-16")
    for _ in range(2):
        lost = asked.ask(CLOSED)
        assert (lost.status, lost.headers["Cache-Control"], "ETag" in lost.headers) == (200, "no-store", False)
        assert json.loads(lost.body)["gaps"][0]["reason"] == "table missing"
        assert lost.calls > 0


def test_answers_of_rollups_have_etags_of_their_content(asked: Asked) -> None:
    """Their cells may be computed anew, without a change of any entry."""
    for route in (AGGREGATE, SERIES):
        first = asked.ask(ARCHIVED, route=route, stream="r")
        assert (first.status, len(first.etag), asked.ask(ARCHIVED, route=route, stream="r").calls) == (200, 36, 0)
        asked.begin_process()
        valid = asked.ask(ARCHIVED, first.etag, route=route, stream="r")
        assert (valid.status, valid.costs) == (304, first.costs)
    alone = asked.ask(ARCHIVED | {"rollups": "false", "series": "a/1"}, route=AGGREGATE, stream="r")
    assert (alone.status, len(alone.etag)) == (200, 36)


def test_the_log_says_that_a_kept_page_cost_nothing(asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        asked.ask(CLOSED | {"id": "e6"})
    etag = asked.ask(ARCHIVED | {"id": "e1"}).etag
    asked.begin_process()
    asked.ask(ARCHIVED | {"id": "e1"}, etag)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"ReadUnits"' in line]
    told = [(line["ReadUnits"], line["requests"], line["shown"], line["conditions"]) for line in lines]
    assert told == [
        ([0.5], 1, 1, "id:eq"),
        ([0.0], 0, 1, "id:eq"),
        ([0.0], 2, 1, "id:eq"),
        ([0.0], 0, 0, "id:eq"),
    ]
