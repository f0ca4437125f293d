"""The deployed API, over HTTP: every form of body, every refusal, and the sent events read back."""

import gzip
import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from local import Deployed
from local.http import Api
from tests.e2e.clock import NOW
from tests.e2e.conftest import run_lifecycle


def iso(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def event(number: int, series: str, ago: timedelta = timedelta()) -> dict[str, Any]:
    data = {"n": number, "text": "é#%", "list": [1, 2.5, None, True], "big": 12345678901234567890}
    return {"series": series, "time": iso(NOW - ago), "id": f"{series}-{number}", "data": data}


def ids(api: Api, series: str, stream: str = "quakes", **more: Any) -> list[str]:
    return [event["id"] for event in api.walk_events(stream, start="-7d", series=series, order="asc", **more)]


def lines(events: list[dict[str, Any]]) -> bytes:
    return "\n".join(map(json.dumps, events)).encode()


FORMS = [
    ("single", "application/json", lambda events: json.dumps(events[0]).encode(), 1),
    ("array", "application/json", lambda events: json.dumps(events).encode(), 2),
    ("wrapped", "application/json; charset=utf-8", lambda events: json.dumps({"events": events}).encode(), 2),
    ("ndjson", "application/x-ndjson", lines, 2),
    ("gzip-json", "application/json", lambda events: gzip.compress(json.dumps(events).encode()), 2),
    ("gzip-ndjson", "application/x-ndjson", lambda events: gzip.compress(lines(events)), 2),
    ("gzip", "application/gzip", lambda events: gzip.compress(lines(events)), 2),
    ("bytes", "application/octet-stream", lines, 2),
]


@pytest.mark.parametrize(("form", "content_type", "encode", "count"), FORMS)
def test_every_body_form_is_stored_and_read_back_as_it_was_sent(
    api: Api, form: str, content_type: str, encode: Any, count: int
) -> None:
    sent = [event(0, f"form-{form}"), event(1, f"form-{form}", timedelta(minutes=1))]
    answer = api.send("quakes", encode(sent), content_type)
    assert answer.status == 200, answer
    assert (answer.body["accepted"], answer.body["queued"], answer.body["rejected"]) == (count, 0, 0)
    assert float(answer.headers["tidetable-write-units"]) == count
    events = list(api.walk_events("quakes", start="-1h", series=f"form-{form}"))
    assert [{name: event[name] for name in ("series", "time", "id", "data")} for event in events] == sent[:count]
    assert [event["ref"] for event in events] == answer.body["refs"]


REFUSED = [
    ("no JSON", "quakes", b"{oops", "application/json", {}, 400, "unparseable"),
    ("an unknown stream", "nothing", b'{"series": "a"}', "application/json", {}, 404, "unknown_stream"),
    (
        "too many events",
        "quakes",
        b"[" + b",".join([b"{}"] * 1001) + b"]",
        "application/json",
        {},
        413,
        "too_many_events",
    ),
    ("a bomb", "quakes", gzip.compress(b" " * 9_000_000, mtime=0), "application/json", {}, 413, "too_large"),
    ("a form", "quakes", b"series=a", "application/x-www-form-urlencoded", {}, 415, "unsupported_media_type"),
    ("nothing but bad events", "quakes", b'[{"id": "x"}, 7]', "application/json", {}, 422, "all_refused"),
    (
        "one bad event, strictly",
        "quakes",
        b'[{"series": "strict", "id": "good"}, 7]',
        "application/json",
        {"Prefer": "handling=strict"},
        400,
        "strict",
    ),
]


@pytest.mark.parametrize(("name", "stream", "body", "content_type", "headers", "status", "code"), REFUSED)
def test_a_request_that_is_refused_whole_is_a_problem(
    api: Api, name: str, stream: str, body: bytes, content_type: str, headers: Any, status: int, code: str
) -> None:
    answer = api.send(stream, body, content_type, **headers)
    assert (answer.status, answer.body["status"], answer.body["code"]) == (status, status, code)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.body["detail"]


def test_with_strict_handling_not_even_the_good_ones_are_written(api: Api) -> None:
    assert ids(api, "strict") == []


def test_good_events_are_kept_and_bad_ones_are_told_why(api: Api) -> None:
    bodies = [
        event(0, "mixed"),
        event(1, "mixed", timedelta(days=8)),
        event(2, "mixed", -timedelta(hours=1)),
        {"id": "x"},
        {**event(4, "mixed"), "data": {"text": "x" * 2_600_000}},
    ]
    answer = api.send("quakes", json.dumps(bodies).encode())
    assert answer.status == 200
    assert answer.headers["tidetable-rejected"] == "4"
    codes = [(error["index"], error["code"]) for error in answer.body["errors"]]
    assert codes == [(1, "too_old"), (2, "too_new"), (3, "invalid"), (4, "too_large")]
    assert ids(api, "mixed") == ["mixed-0"]


def test_a_caller_without_a_key_is_refused(api: Api) -> None:
    assert api.call("/v1/streams", key="wrong").status == 403
    assert api.call("/v1/streams/quakes/events", b"{}", {"Content-Type": "application/json"}, key="wrong").status == 403


def test_the_same_batch_twice_leaves_no_duplicates_with_ids_and_without(api: Api) -> None:
    named = [event(number, "twice", timedelta(minutes=number)) for number in range(40)]
    nameless = [{name: row[name] for name in ("series", "time", "data")} for row in named]
    for batch in (named, named, nameless, nameless):
        assert api.send("quakes", json.dumps(batch).encode()).body["accepted"] == 40
    assert len(ids(api, "twice", limit=7)) == 80


def test_a_key_repeated_within_a_request_is_stored_once_as_it_last_was(api: Api) -> None:
    first, last = event(1, "repeated"), {**event(1, "repeated"), "data": {"last": True}}
    answer = api.send("quakes", json.dumps([first, last]).encode())
    assert (answer.status, answer.body["accepted"]) == (200, 2)
    events = list(api.walk_events("quakes", start="-1h", series="repeated"))
    assert [event["data"] for event in events] == [{"last": True}]


def test_a_batch_across_midnights_lands_in_its_own_tables_and_cursors_walk_it_in_order(
    api: Api, deployed: Deployed
) -> None:
    sent = [event(number, "across", timedelta(hours=2 * number)) for number in range(80)]
    assert api.send("quakes", json.dumps(sent[::-1]).encode()).status == 200
    newest_first = [event["id"] for event in sent]
    for limit in (1000, 33, 7):
        walked = [event["id"] for event in api.walk_events("quakes", start="-7d", series="across", limit=limit)]
        assert walked == newest_first
    assert ids(api, "across", limit=19) == newest_first[::-1]
    client = deployed.make_client("dynamodb")
    days = {event["time"][:10] for event in sent}
    for day in days:
        assert client.scan(TableName=f"tidetable-local.quakes.{day}")["Count"] > 0
    assert len(days) >= 7


def test_a_stream_partitioned_by_series_answers_for_a_series_and_says_so_without(api: Api) -> None:
    sent = [event(number, f"net-{number % 2}", timedelta(hours=number)) for number in range(30)]
    assert api.send("stations", json.dumps(sent).encode()).status == 200
    ids = [event["id"] for event in api.walk_events("stations", start="-7d", series="net-1", limit=4)]
    assert ids == [event["id"] for event in sent if event["series"] == "net-1"]
    answer = api.query("stations", start="-1h")
    assert (answer.status, answer.body["code"]) == (400, "needs_series")


def test_a_value_of_an_indexed_field_is_found_across_series(api: Api) -> None:
    sent = [
        {
            **event(number, f"net-{number % 3}", timedelta(hours=number)),
            "id": f"indexed-{number}",
            "data": {"status": status},
        }
        for number, status in enumerate(["new", "old#", "new", None, "new", ["new"]])
    ]
    assert api.send("stations", json.dumps(sent).encode()).status == 200
    for status, expected in (("new", [0, 2, 4]), ("old#", [1])):
        events = list(api.walk_events("stations", start="-7d", limit=2, **{"where.status": status}))
        assert [event["id"] for event in events] == [f"indexed-{number}" for number in expected]
    answer = api.query("stations", start="-1h", **{"where.mag": "2"})
    assert (answer.status, answer.body["code"]) == (400, "needs_index")
    assert "[[streams.stations.index]]" in answer.body["detail"]
    filtered = api.query("quakes", start="-7d", **{"where.n": "2", "series": "form-array"})
    assert (filtered.status, filtered.body["events"]) == (200, [])


def test_rankings_and_aggregates_and_their_cursors_are_answered(api: Api) -> None:
    sent = [
        {
            **event(number, f"net-{number % 3}", timedelta(hours=number)),
            "data": {"mag": number * 7 % 30, "place": "ranked"},
        }
        for number in range(30)
    ]
    assert api.send("stations", json.dumps(sent).encode()).status == 200
    numbers: list[int] = []
    parameters: dict[str, Any] = {"where.place": "ranked", "limit": 12, "fields": "mag", "start": "-7d"}
    while True:
        answer = api.query("stations", "top", **parameters)
        assert answer.status == 200, answer
        numbers += [row["value"] for row in answer.body["top"]]
        if answer.body["next"] is None:
            break
        parameters = {"cursor": answer.body["next"], "limit": 12}
    assert numbers == [*range(29, -1, -1)]
    forged = answer.body["next"] or parameters["cursor"]
    assert api.query("stations", "top", cursor=forged[:-2] + "AA").body["code"] == "invalid_cursor"
    page = api.query(
        "stations",
        "aggregate",
        start="-7d",
        series="net-1",
        field="mag",
        stat="count,sum,p50",
        **{"where.place": "ranked"},
    )
    mine = sorted(event["data"]["mag"] for event in sent if event["series"] == "net-1")
    (row,) = page.body["aggregates"]
    assert (row["count"], row["sum"]) == (10, sum(mine))
    assert mine[4] * 0.98 <= row["p50"] <= mine[5] * 1.02
    assert {source["from"] for source in page.body["sources"]} == {"table"}


def test_conditions_are_applied_where_the_events_are(api: Api) -> None:
    sent = [{**event(number, "sifted"), "data": {"n": number, "even": number % 2 == 0}} for number in range(20)]
    assert api.send("quakes", json.dumps(sent).encode()).status == 200
    parameters: dict[str, Any] = {"start": "-1h", "series": "sifted", "where.n:ge": 5, "where.even": "true", "limit": 3}
    assert [event["data"]["n"] for event in api.walk_events("quakes", **parameters)] == [8, 6, 18, 16, 14, 12, 10]
    few = api.query("quakes", "events", **parameters | {"limit": 100, "flat": "true"})
    assert int(few.headers["tidetable-events-read"]) >= 20
    assert {tuple(sorted(row)) for row in few.body["events"]} == {
        ("data.even", "data.n", "id", "ref", "series", "time")
    }


def test_a_ref_finds_its_event_and_nothing_else_does(api: Api) -> None:
    sent = event(1, "by-ref#%é")
    ref = api.send("quakes", json.dumps(sent).encode()).body["refs"][0]
    answer = api.get("quakes", ref)
    assert (answer.status, answer.body["data"], answer.body["series"]) == (200, sent["data"], "by-ref#%é")
    assert (api.get("stations", ref).status, api.get("quakes", "abc").status) == (400, 400)


def test_a_query_is_told_what_to_change(api: Api) -> None:
    answer = api.query("quakes", limt=3)
    assert (answer.status, answer.body["code"]) == (400, "unknown_parameter")
    assert answer.headers["content-type"] == "application/problem+json"
    assert api.query("nothing").status == 404


def test_streams_periods_and_health_are_there(api: Api) -> None:
    assert api.call("/v1/health").body["status"] == "ok"
    streams = [stream["stream"] for stream in api.call("/v1/streams").body["streams"]]
    assert streams == ["quakes", "stations", "reports", "quakes-hours"]
    periods = api.call("/v1/streams/quakes/periods").body["periods"]
    assert {entry["state"] for entry in periods} == {"open"}
    assert all(period["capacity"]["mode"] == "provisioned" for period in periods)
    assert NOW.strftime("%Y-%m-%d") in [entry["period"] for entry in periods]


def test_health_needs_no_key_and_nothing_else_is_open(api: Api) -> None:
    assert api.call("/v1/health", key="").status == 200
    assert api.call("/v1/streams", key="").status == 403


def test_every_answer_says_which_request_it_answers_and_what_it_is(api: Api) -> None:
    answers = [api.call("/v1/streams"), api.query("nothing"), api.send("quakes", b"{oops")]
    assert [answer.status for answer in answers] == [200, 404, 400]
    assert {answer.headers["x-content-type-options"] for answer in answers} == {"nosniff"}
    assert len({answer.headers["tidetable-request-id"] for answer in answers}) == 3


def test_the_lifecycle_changes_nothing_when_nothing_is_to_change(deployed: Deployed) -> None:
    for payload in ({"dry_run": True}, {}, {}):
        report = run_lifecycle(deployed, **payload)
        assert (report["healthy"], report["actions"]) == (True, [])
