"""The answers of the three versions' write routes: refused lines, errors in each version's words, and what is counted."""

import gzip
import json
from typing import Any

import pytest
import yaml

from tests.ingest.streams import NOW
from tests.worlds.configs import ROOT
from tests.worlds.doors import Doors
from tests.worlds.influx import OLD, V1, V2, V3, T, write

BAD = f"cpu idle=1 {T}\ncpu idle= {T}\ncpu idle=2 {OLD}\ncpu idle=nan {T}\ncpu,host=b idle=3 {T}\n"


def test_version_2_names_the_first_malformed_line_after_the_others_are_stored(doors: Doors) -> None:
    reply = write(doors, BAD)
    assert (reply.status, reply.headers["content-type"]) == (400, "application/json")
    assert {**reply.document, "message": ""} == {"code": "invalid", "message": "", "line": 2}
    message = reply.document["message"]
    assert "line 2: failed to parse value of field" in message
    assert "line 3: 2026-02-20T00:05:00.000000Z is before" in message
    assert message.endswith("2 of 5 lines are stored")
    assert len(doors.events()) == 2


def test_version_2_answers_422_if_points_are_only_outside_the_window(doors: Doors) -> None:
    reply = write(doors, f"cpu idle=1 {T}\ncpu idle=2 {OLD}\n")
    assert (reply.status, reply.document["code"], reply.document["line"]) == (422, "unprocessable entity", 2)
    assert len(doors.events()) == 1
    assert write(doors, f"cpu idle=2 {OLD}\n").status == 422


def test_version_3_lists_the_refused_lines_after_the_others_are_stored(doors: Doors) -> None:
    reply = write(doors, BAD, V3)
    assert reply.status == 400
    assert reply.document["error"] == "partial write of line protocol occurred"
    assert [(line["line_number"], line["original_line"]) for line in reply.document["data"]] == [
        (2, f"cpu idle= {T}"),
        (3, f"cpu idle=2 {OLD}"),
        (4, f"cpu idle=nan {T}"),
    ]
    assert "is before" in reply.document["data"][1]["error_message"]
    assert len(doors.events()) == 2


def test_version_3_stores_nothing_of_a_request_that_takes_no_part(doors: Doors) -> None:
    reply = write(doors, BAD, V3, "accept_partial=false")
    assert (reply.status, reply.document["error"]) == (400, "parsing failed for write_lp endpoint")
    assert [line["line_number"] for line in reply.document["data"]] == [2, 3, 4]
    assert doors.events() == []
    assert write(doors, f"cpu idle=1 {T}", V3, "accept_partial=false&no_sync=true").status == 204


def test_version_3_lists_a_hundred_lines_at_the_most(doors: Doors) -> None:
    reply = write(doors, "cpu idle=\n" * 120, V3)
    assert (reply.status, reply.document["error"]) == (400, "parsing failed for write_lp endpoint")
    assert len(reply.document["data"]) == 100


def test_version_1_says_how_many_it_dropped(doors: Doors) -> None:
    reply = write(doors, BAD, V1)
    assert reply.status == 400
    assert reply.document["error"].startswith("partial write: line 2: failed to parse value of field")
    assert reply.document["error"].endswith("dropped=3")
    assert reply.headers["x-influxdb-error"].startswith("partial write: line 2")
    assert len(doors.events()) == 2


def test_a_point_of_several_lines_that_is_refused_names_each(doors: Doors) -> None:
    reply = write(doors, f"cpu a=1 {OLD}\ncpu c=1 {T}\ncpu b=1 {OLD}", V3)
    assert [line["line_number"] for line in reply.document["data"]] == [1, 3]


@pytest.mark.parametrize(
    ("route", "document"),
    [
        (V2, {"code": "not found", "message": "there is no stream 'nosuch'; there are: quakes"}),
        (V3, {"error": "there is no stream 'nosuch'; there are: quakes"}),
        (V1, {"error": "there is no stream 'nosuch'; there are: quakes"}),
    ],
)
def test_an_unknown_stream_is_404_in_each_versions_words(doors: Doors, route: str, document: dict[str, str]) -> None:
    name = "bucket" if route == V2 else "db"
    reply = doors.call("POST", route, "cpu v=1", query=f"{name}=nosuch")
    assert (reply.status, reply.document) == (404, document)


@pytest.mark.parametrize(("route", "parameter"), [(V1, "db"), (V2, "bucket"), (V3, "db")])
def test_a_request_without_a_stream_is_told_the_parameter(doors: Doors, route: str, parameter: str) -> None:
    reply = doors.call("POST", route, "cpu v=1")
    assert reply.status == 400
    assert f"{parameter} is missing" in reply.body.decode()


def test_an_unknown_precision_is_400(doors: Doors) -> None:
    reply = write(doors, f"cpu v=1 {T}", query="precision=days")
    assert (reply.status, reply.document["code"]) == (400, "invalid")
    assert "'days'" in reply.document["message"]


def test_another_encoding_is_415(doors: Doors) -> None:
    assert write(doors, b"x", content_encoding="zstd").status == 415


def test_a_bomb_is_413_before_it_grows_and_so_are_too_many_lines(doors: Doors) -> None:
    reply = write(doors, gzip.compress(b"\n" * 10_000_000))
    assert (reply.status, reply.document["code"]) == (413, "request too large")
    assert write(doors, b"a b=1\n" * 501).status == 413
    assert doors.events() == []
    assert write(doors, "".join(f"a,n={n} b=1 {T}\n" for n in range(500))).status == 204


def test_nothing_to_store_is_204(doors: Doors) -> None:
    for body in (b"", b"\n\n", b"# only a comment\n"):
        assert write(doors, body).status == 204


def test_what_is_queued_is_acknowledged(doors: Doors) -> None:
    doors.store.throttles = {"tidetable-t.quakes.2026-03-01"}
    assert write(doors, f"cpu v=1 {T}", seconds=14).status == 204
    assert [event.data["v"] for event in doors.overflow.queued] == [1]


@pytest.mark.parametrize(("route", "key"), [(V2, "message"), (V3, "error"), (V1, "error")])
def test_what_is_neither_stored_nor_queued_is_503_and_comes_again(doors: Doors, route: str, key: str) -> None:
    doors.store.throttles = {"tidetable-t.quakes.2026-03-01"}
    doors.overflow.refuses = True
    reply = write(doors, f"cpu v=1 {T}", route, seconds=14)
    assert (reply.status, reply.headers["retry-after"]) == (503, "5")
    assert "send the whole request again" in reply.document[key]


def test_a_failure_is_503_in_the_dialects_words(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors.store, "write", lambda _: 1 / 0)
    reply = write(doors, f"cpu v=1 {T}")
    assert (reply.status, reply.document["code"]) == (503, "unavailable")


def test_a_line_that_is_not_utf_8_is_refused_alone(doors: Doors) -> None:
    reply = write(doors, b"cpu v=1 " + str(T).encode() + b'\nlog m="\xff"\n')
    assert (reply.status, reply.document["line"]) == (400, 2)
    assert len(doors.events()) == 1


@pytest.mark.parametrize("stamp", [-5, 10**18 * 9, 2**62])
def test_a_time_outside_the_window_is_refused_with_its_line(doors: Doors, stamp: int) -> None:
    reply = write(doors, f"cpu v=1 {stamp}", V3, "precision=nanosecond")
    assert (reply.status, reply.document["data"][0]["line_number"]) == (400, 1)


def test_clients_that_look_for_a_server_find_it(doors: Doors) -> None:
    ping = doors.call("GET", "/ping")
    assert (ping.status, ping.body, ping.headers["x-influxdb-version"]) == (204, b"", "tidetable")
    assert doors.call("HEAD", "/ping").status == 204
    health = doors.call("GET", "/health")
    assert (health.status, health.document["status"], health.document["name"]) == (200, "pass", "influxdb")


def test_a_key_of_another_stream_is_403_in_the_dialects_words(doors: Doors) -> None:
    doors.caller = {"key_id": "k1", "streams": "devices", "can": "write", "series_prefix": ""}
    reply = write(doors, f"cpu v=1 {T}")
    assert (reply.status, reply.document["code"]) == (403, "forbidden")
    doors.caller = {"key_id": "k1", "streams": "quakes", "can": "read", "series_prefix": ""}
    assert write(doors, f"cpu v=1 {T}").status == 403
    assert doors.events() == []
    doors.caller = {"key_id": "k1", "streams": "quakes", "can": "write", "series_prefix": ""}
    assert write(doors, f"cpu v=1 {T}").status == 204


def test_metrics_of_a_request_are_published(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: dict[str, Any] = {}
    monkeypatch.setattr("handlers._observe.metrics.add_metric", lambda name, _, value: measured.update({name: value}))
    write(doors, f"cpu v=1 {T}\ncpu v=2 {OLD}\nbad")
    assert (measured["EventsAccepted"], measured["EventsRejected_too_old"], measured["EventsRejected_invalid"]) == (
        1,
        1,
        1,
    )


def test_answers_are_json_that_any_client_reads(doors: Doors) -> None:
    reply = write(doors, 'cpu v="\x01\n')
    assert json.loads(reply.body)["line"] == 1
    assert NOW.year == 2026


def test_a_key_of_some_series_writes_no_other(doors: Doors) -> None:
    doors.caller = {"key_id": "k1", "streams": "*", "can": "write", "series_prefix": "cpu%2Chost%3Da"}
    reply = write(doors, f"cpu,host=a v=1 {T}\ncpu,host=b v=2 {T}", V3)
    assert (reply.status, [line["line_number"] for line in reply.document["data"]]) == (400, [2])
    assert "begin with 'cpu,host=a'" in reply.document["data"][0]["error_message"]
    assert [event["data"]["v"] for event in doors.events()] == [1]


def test_the_handler_knows_every_route_of_the_description() -> None:
    from handlers.doors import _DOORS

    described = yaml.safe_load((ROOT / "docs" / "use" / "openapi-doors.yaml").read_text())["paths"]
    assert _DOORS.keys() == {path for path, methods in described.items() if "post" in methods}


@pytest.mark.parametrize("broken", ["publish_metrics", "_make_response", "read_access", "_read_request"])
def test_no_exception_leaves_the_function(doors: Doors, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ValueError(broken)

    monkeypatch.setattr(f"handlers.doors.{broken}", fail)
    reply = write(doors, f"cpu v=1 {T}")
    assert (reply.status, reply.headers["retry-after"]) == (503, "5")


def test_a_refused_request_is_counted_and_no_answer_is_kept(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: dict[str, Any] = {}
    monkeypatch.setattr("handlers._observe.metrics.add_metric", lambda name, _, value: measured.update({name: value}))
    assert write(doors, f"cpu v=1 {T}").headers["cache-control"] == "no-store"
    measured.clear()
    doors.caller = {"key_id": "k1", "streams": "devices", "can": "write", "series_prefix": ""}
    refused = write(doors, f"cpu v=1 {T}")
    assert (refused.status, refused.headers["cache-control"]) == (403, "no-store")
    assert measured == {"RequestsRefused": 1}
