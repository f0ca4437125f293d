"""Line protocol: what becomes of each point, and the answers of the three versions' routes."""

import gzip
import json
from decimal import Decimal
from typing import Any

import pytest
import yaml

from tests.infra.synth import ROOT
from tests.ingest.streams import NOW
from tests.worlds.doors import Doors, Reply, config, nanos
from tidetable.config.model import InfluxPolicy

V1, V2, V3 = "/write", "/api/v2/write", "/api/v3/write_lp"
T = nanos(60)
OLD = nanos(9 * 86_400)


def write(doors: Doors, body: bytes | str, route: str = V2, query: str = "", **more: Any) -> Reply:
    name = "bucket" if route == V2 else "db"
    return doors.call("POST", route, body, query=f"{name}=quakes&{query}", **more)


def test_a_point_becomes_an_event_with_its_tags_and_fields(doors: Doors) -> None:
    reply = write(doors, f'cpu,host=a,region=eu idle=0.5,n=3i,u=18446744073709551615u,up=true,why="x \\"y\\"" {T}')
    assert (reply.status, reply.body) == (204, b"")
    (event,) = doors.events()
    assert (event["series"], event["time"]) == ("cpu,host=a,region=eu", "2026-03-01T00:04:00.000000Z")
    assert event["data"] == {
        "measurement": "cpu",
        "host": "a",
        "region": "eu",
        "idle": Decimal("0.5"),
        "n": 3,
        "u": 18446744073709551615,
        "up": True,
        "why": 'x "y"',
    }


def test_the_same_lines_again_change_nothing_and_other_fields_of_the_point_are_kept_beside(doors: Doors) -> None:
    for _ in range(2):
        assert write(doors, f"cpu,host=a idle=1 {T}").status == 204
    write(doors, f"cpu,host=a user=2 {T}")
    write(doors, f"cpu,host=a idle=3 {T}")
    assert [event["data"].get("idle", event["data"].get("user")) for event in doors.events()] in ([3, 2], [2, 3])


def test_lines_of_one_point_in_one_request_are_one_event(doors: Doors) -> None:
    write(doors, f"cpu,host=a idle=1 {T}\ncpu,host=b idle=5 {T}\ncpu,host=a user=2 {T}\ncpu,host=a idle=4 {T}\n")
    first, second = doors.events()
    assert first["data"] == {"measurement": "cpu", "host": "a", "idle": 4, "user": 2}
    assert second["data"] == {"measurement": "cpu", "host": "b", "idle": 5}


def test_points_of_one_microsecond_are_kept_apart_by_their_nanoseconds(doors: Doors) -> None:
    write(doors, f"cpu idle=1 {T + 1}\ncpu idle=2 {T + 999}\ncpu idle=3 {T}")
    ids = [event["id"] for event in doors.events()]
    assert sorted(id.partition("-")[2] for id in ids) == ["", "001", "999"]
    assert len({id.partition("-")[0] for id in ids}) == 1


def test_order_of_tags_and_fields_does_not_matter(doors: Doors) -> None:
    write(doors, f"cpu,a=1,b=2 x=1,y=2 {T}")
    write(doors, f"cpu,b=2,a=1 y=3,x=4 {T}")
    (event,) = doors.events()
    assert (event["data"]["x"], event["data"]["y"]) == (4, 3)


@pytest.mark.parametrize(
    ("route", "precision", "stamp"),
    [
        (V2, "", T),
        (V2, "ns", T),
        (V2, "us", T // 10**3),
        (V2, "ms", T // 10**6),
        (V2, "s", T // 10**9),
        (V1, "", T),
        (V1, "n", T),
        (V1, "u", T // 10**3),
        (V1, "ms", T // 10**6),
        (V1, "s", T // 10**9),
        (V1, "m", T // (60 * 10**9)),
        (V3, "", T),
        (V3, "", T // 10**3),
        (V3, "", T // 10**6),
        (V3, "", T // 10**9),
        (V3, "auto", T // 10**6),
        (V3, "nanosecond", T),
        (V3, "microsecond", T // 10**3),
        (V3, "millisecond", T // 10**6),
        (V3, "second", T // 10**9),
    ],
)
def test_each_version_knows_its_precisions(doors: Doors, route: str, precision: str, stamp: int) -> None:
    reply = write(doors, f"cpu idle=1 {stamp}", route, f"precision={precision}" if precision else "")
    assert (reply.status, [event["time"] for event in doors.events()]) == (204, ["2026-03-01T00:04:00.000000Z"])


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        (4_999_999_999, "2128-06-11T08:53:19.000000Z"),
        (5_000_000_000, "1970-02-27T20:53:20.000000Z"),
        (4_999_999_999_999, "2128-06-11T08:53:19.999000Z"),
        (5_000_000_000_000, "1970-02-27T20:53:20.000000Z"),
        (4_999_999_999_999_999, "2128-06-11T08:53:19.999999Z"),
        (5_000_000_000_000_000, "1970-02-27T20:53:20.000000Z"),
    ],
)
def test_version_3_guesses_the_unit_of_a_time_by_its_size(doors: Doors, stamp: int, time: str) -> None:
    """Such times are outside of the window, so the refusal says how each was read."""
    reply = write(doors, f"cpu idle=1 {stamp}", V3)
    assert reply.status == 400
    assert reply.document["data"][0]["error_message"].startswith(f"{time} is ")


def test_hours_are_a_precision_of_version_1(doors: Doors) -> None:
    assert write(doors, f"cpu idle=1 {T // (3600 * 10**9)}", V1, "precision=h").status == 204
    assert doors.events()[0]["time"] == "2026-03-01T00:00:00.000000Z"


def test_a_line_without_a_time_has_the_time_of_its_arrival(doors: Doors) -> None:
    write(doors, "cpu idle=1\ncpu idle=2")
    assert [(event["time"], event["data"]["idle"]) for event in doors.events()] == [("2026-03-01T00:05:00.000000Z", 2)]


def test_texts_may_hold_ends_of_lines_and_any_quotes(doors: Doors) -> None:
    body = f'log msg="first\nsecond, \\"third\\"\n\n# no comment" {T}\nlog,host=a"b n=1 {T}\r\n'
    body += f'# a comment\n\nother m="x",o="y\nz" {T}\n'
    assert write(doors, body).status == 204
    datas = [event["data"] for event in doors.events()]
    assert {"measurement": "log", "msg": 'first\nsecond, "third"\n\n# no comment'} in datas
    assert {"measurement": "log", "host": 'a"b', "n": 1} in datas
    assert {"measurement": "other", "m": "x", "o": "y\nz"} in datas


def test_a_line_with_a_lone_quote_does_not_take_its_neighbours_along(doors: Doors) -> None:
    reply = write(doors, f'log m="open {T}\nlog,a=1 n=1 {T}\nlog,a=2 n=2 {T}\nlog p="also open {T}')
    assert reply.status == 400
    assert [event["data"]["n"] for event in doors.events()] == [1, 2]
    assert reply.document["line"] == 1


def test_a_field_and_a_tag_of_one_name_are_both_kept(doors: Doors) -> None:
    write(doors, f"cpu,load=high,measurement=m load=0.5 {T}")
    assert doors.events()[0]["data"] == {"load": Decimal("0.5"), "load_tag": "high", "measurement": "m"}


def test_numbers_that_dynamodb_cannot_hold_are_kept_as_text(doors: Doors) -> None:
    write(doors, f"cpu big=1e200,small=1e-200,edge=9.9e125,zero=0 {T}")
    assert doors.events()[0]["data"] == {
        "measurement": "cpu", "big_text": "1e+200", "small_text": "1e-200", "edge": Decimal("9.9E+125"), "zero": 0,
    }  # fmt: skip


def test_a_template_makes_the_series_and_the_id_still_tells_the_points_apart() -> None:
    doors = Doors(config(influx=InfluxPolicy(series="{measurement}/{host}")))
    reply = write(doors, f"cpu,host=a,core=1 v=1 {T}\ncpu,host=a,core=2 v=2 {T}\ncpu,core=3 v=3 {T}")
    assert (reply.status, reply.document["line"]) == (400, 3)
    assert "'host'" in reply.document["message"]
    assert [event["series"] for event in doors.events()] == ["cpu/a", "cpu/a"]


def test_a_long_series_is_cut_and_stays_a_name_of_its_own(doors: Doors) -> None:
    tags = ",".join(f"tag{n}={'x' * 30}" for n in range(20))
    assert write(doors, f"cpu,{tags},z=1 v=1 {T}\ncpu,{tags},z=2 v=2 {T}").status == 204
    names = {event["series"] for event in doors.events()}
    assert len(names) == 2
    assert all(name.startswith("cpu,tag0=xxxx") and len(name) < 130 for name in names)


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


def test_a_bucket_may_be_followed_by_a_retention_policy(doors: Doors) -> None:
    assert doors.call("POST", V2, f"cpu v=1 {T}", query="bucket=quakes/autogen").status == 204


@pytest.mark.parametrize(("route", "parameter"), [(V1, "db"), (V2, "bucket"), (V3, "db")])
def test_a_request_without_a_stream_is_told_the_parameter(doors: Doors, route: str, parameter: str) -> None:
    reply = doors.call("POST", route, "cpu v=1")
    assert reply.status == 400
    assert f"{parameter} is missing" in reply.body.decode()


def test_an_unknown_precision_is_400(doors: Doors) -> None:
    reply = write(doors, f"cpu v=1 {T}", query="precision=days")
    assert (reply.status, reply.document["code"]) == (400, "invalid")
    assert "'days'" in reply.document["message"]


def test_bodies_are_plain_or_gzip_of_several_members(doors: Doors) -> None:
    body = gzip.compress(f"cpu a=1 {T}\n".encode()) + gzip.compress(f"mem b=2 {T}\n".encode())
    assert write(doors, body, content_encoding="gzip").status == 204
    assert len(doors.events()) == 2


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
    monkeypatch.setattr("handlers.doors.metrics.add_metric", lambda name, _, value: measured.update({name: value}))
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


@pytest.mark.parametrize("broken", ["measure", "_respond", "read_access", "_read_request"])
def test_no_exception_leaves_the_function(doors: Doors, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ValueError(broken)

    monkeypatch.setattr(f"handlers.doors.{broken}", fail)
    reply = write(doors, f"cpu v=1 {T}")
    assert (reply.status, reply.headers["retry-after"]) == (503, "5")


def test_a_refused_request_is_counted_and_no_answer_is_kept(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: dict[str, Any] = {}
    monkeypatch.setattr("handlers.doors.metrics.add_metric", lambda name, _, value: measured.update({name: value}))
    assert write(doors, f"cpu v=1 {T}").headers["cache-control"] == "no-store"
    measured.clear()
    doors.caller = {"key_id": "k1", "streams": "devices", "can": "write", "series_prefix": ""}
    refused = write(doors, f"cpu v=1 {T}")
    assert (refused.status, refused.headers["cache-control"]) == (403, "no-store")
    assert measured == {"RequestsRefused": 1}
