"""Times of answers in a zone, through the handlers: rows, gaps and cursors of each route, in each form."""

import json
from collections.abc import Iterator
from datetime import timedelta
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pytest

from tests.api.gateway import NOON, Gateway, serving
from tests.fakes.stage import Stage
from tidetable.times import to_text

CONFIG = """
[streams.s]
period = "day"
late = "1h"
retention = 4
key = { partition_by = "time", bucket = "6h" }
index = [{ name = "by_n", partition_by = "*", sort_by = "n" }]

[streams.m]
period = "day"
late = "1h"
retention = 4
versions = "keep"
key = { partition_by = "series" }
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    file = tmp_path_factory.mktemp("zones") / "tidetable.toml"
    file.write_text(CONFIG)
    stage = Stage(NOON, CONFIG)
    while stage.run_lifecycle().done:
        pass
    events = [
        {"series": "a", "id": str(number), "time": to_text(NOON), "data": {"n": number, "x": 1.50}}
        for number in range(3)
    ]
    assert stage.send("s", json.dumps(events).encode()).accepted == 3
    for value in (1, 2):
        readings = [{"series": "pump", "id": "r", "time": to_text(NOON), "data": {"time": to_text(NOON), "n": value}}]
        assert stage.send("m", json.dumps(readings).encode()).accepted == 1
    stage.settle()
    yield from serving(stage, file)


def get(app: Gateway, route: str, stream: str = "s", **parameters: str) -> tuple[str, dict[str, str], bytes]:
    found: list[Any] = []
    environ = {
        "PATH_INFO": f"/v1/streams/{stream}/{route}",
        "REQUEST_METHOD": "GET",
        "QUERY_STRING": urlencode(parameters),
        "wsgi.input": BytesIO(b""),
    }
    body = b"".join(app(environ, lambda status, headers: found.extend([status, dict(headers)])))
    return found[0][:3], found[1], body


def shift(hours: int, minutes: int = 0) -> str:
    """Noon of the stage's day, with an offset, written by hand."""
    return f"{NOON:%Y-%m-%d}T{12 + hours:02}:{minutes:02}:00.000000+{hours:02}:{minutes:02}"


def test_events_have_local_times_in_each_form(app: Gateway) -> None:
    span = {"from": f"{NOON:%Y-%m-%d}", "to": "now", "tz": "Asia/Kolkata", "limit": "2"}
    span["to"] = f"{NOON:%Y-%m-%d}T17:30:00.000001"
    status, _, body = get(app, "events", **span)
    page = json.loads(body)
    assert (status, [event["time"] for event in page["events"]]) == ("200", [shift(5, 30)] * 2)
    assert list(page["events"][0]) == ["series", "time", "id", "data", "ref"]
    assert b'"x":1.5}' in body
    # The cursor holds the zone.
    _, _, body = get(app, "events", cursor=page["next"])
    assert [event["time"] for event in json.loads(body)["events"]] == [shift(5, 30)]
    _, _, body = get(app, "events", **span, format="ndjson")
    assert [json.loads(line)["time"] for line in body.splitlines()] == [shift(5, 30)] * 2
    _, _, body = get(app, "events", **span, format="csv")
    assert body.decode().splitlines()[1].split(",")[1] == shift(5, 30)
    _, _, body = get(app, "events", **span, format="json", flat="true")
    assert json.loads(body)["events"][0]["time"] == shift(5, 30)
    _, _, body = get(app, "events", **span, format="arrow")
    table = pa.ipc.open_stream(body).read_all()
    assert table.schema.field("time").type == pa.timestamp("us", "Asia/Kolkata")
    assert table["time"].cast(pa.int64()).to_pylist() == [int(NOON.timestamp()) * 1_000_000] * 2


def test_the_zone_of_a_cursor_is_repeated_or_left_out(app: Gateway) -> None:
    span = {"from": f"{NOON:%Y-%m-%d}", "tz": "Europe/Berlin", "limit": "1"}
    cursor = json.loads(get(app, "events", **span)[2])["next"]
    assert get(app, "events", tz="Europe/Berlin", cursor=cursor)[0] == "200"
    status, _, body = get(app, "events", tz="UTC", cursor=cursor)
    assert (status, "tz" in json.loads(body)["detail"]) == ("400", True)


def test_aggregates_and_rankings_have_local_times(app: Gateway) -> None:
    day = f"{NOON:%Y-%m-%d}"
    span = {"from": day, "to": f"{day}T23:59", "tz": "Asia/Kolkata"}
    (row,) = json.loads(get(app, "aggregate", **span, step="1d")[2])["aggregates"]
    assert row == {"start": f"{day}T00:00:00.000000+05:30", "end": f"{day}T23:59:00.000000+05:30", "count": 3}
    table = pa.ipc.open_stream(get(app, "aggregate", **span, step="1d", format="arrow")[2]).read_all()
    assert table.schema.field("start").type == pa.timestamp("us", "Asia/Kolkata")
    first, *_ = json.loads(get(app, "top", **span, index="by_n")[2])["top"]
    assert (first["time"], first["value"]) == (shift(5, 30), 2)


def test_gaps_have_local_times(app: Gateway) -> None:
    page = json.loads(get(app, "events", **{"from": "2019-01-01", "to": "2019-01-02", "tz": "Asia/Kolkata"})[2])
    assert page["gaps"]
    assert all(gap[edge].endswith("+05:30") for gap in page["gaps"] for edge in ("from", "to"))


@pytest.mark.parametrize("route", ["events", "aggregate", "top"])
def test_an_unknown_zone_is_refused_with_a_hint(app: Gateway, route: str) -> None:
    status, _, body = get(app, route, tz="Europe/Berlim")
    assert status == "400"
    assert "did you mean Europe/Berlin?" in json.loads(body)["detail"]


def test_the_times_of_first_and_last_events_have_the_zone_in_each_form(app: Gateway) -> None:
    span = {"from": f"{NOON:%Y-%m-%d}", "to": "now", "tz": "Asia/Kolkata", "by": "series", "stat": "last_at,count"}
    wanted = shift(5, 30)
    (row,) = json.loads(get(app, "aggregate", **span)[2])["aggregates"]
    assert (row["group"], row["last_at"], row["count"]) == ({"series": "a"}, wanted, 3)
    columns = json.loads(get(app, "aggregate", **span, format="columns")[2])["columns"]
    assert columns["last_at"] == [wanted]
    header, line, *_ = get(app, "aggregate", **span, format="csv")[2].decode().split("\r\n")
    assert dict(zip(header.split(","), line.split(","), strict=True))["last_at"] == wanted
    table = pa.ipc.open_stream(get(app, "aggregate", **span, format="arrow")[2]).read_all()
    assert table.schema.field("last_at").type == pa.timestamp("us", "Asia/Kolkata")
    assert table["last_at"].to_pylist() == [NOON]


def test_latest_reads_and_shows_local_times(app: Gateway) -> None:
    zoned = {"series": "pump", "tz": "Asia/Kolkata"}
    answer = json.loads(get(app, "latest", "m", **zoned)[2])
    event = answer["latest"][0]["event"]
    # The data has a time, too, which stays as it was sent.
    assert (event["time"], event["data"]) == (shift(5, 30), {"time": to_text(NOON), "n": 2})
    assert answer["searched_back_to"] == f"{NOON:%Y-%m-%d}T05:30:00.000000+05:30"
    # At 17:30 in Kolkata it was noon of UTC: the search ends before it, and takes the time that an answer showed.
    for before in (f"{NOON:%Y-%m-%d}T17:30", shift(5, 30)):
        assert json.loads(get(app, "latest", "m", **zoned, before=before)[2])["latest"][0]["event"] is None
    later = json.loads(get(app, "latest", "m", **zoned, before=f"{NOON:%Y-%m-%d}T17:31")[2])
    assert later["latest"][0]["event"]["time"] == shift(5, 30)


def test_an_event_and_its_versions_have_local_times(app: Gateway) -> None:
    ref = json.loads(get(app, "latest", "m", series="pump")[2])["latest"][0]["event"]["ref"]
    event = json.loads(get(app, f"events/{ref}", "m", tz="Asia/Kolkata", versions="all")[2])
    assert [each["time"] for each in (event, *event["versions"])] == [shift(5, 30)] * 2
    assert event["accepted"][-6:] == "+05:30"
    assert event["data"]["time"] == to_text(NOON)


def test_periods_have_local_edges_and_pages_keep_the_zone(app: Gateway) -> None:
    status, _, body = get(app, "periods", tz="Asia/Kolkata", limit="1")
    assert status == "200"
    page = json.loads(body)
    while page["periods"] and page["periods"][0]["period"] != f"{NOON:%Y-%m-%d}":
        page = json.loads(get(app, "periods", cursor=page["next"], limit="1")[2])
    (period,) = page["periods"]
    assert period["start"] == f"{NOON:%Y-%m-%d}T05:30:00.000000+05:30"
    assert period["end"] == f"{NOON + timedelta(days=1):%Y-%m-%d}T05:30:00.000000+05:30"
    # From 18:30 to midnight in UTC.
    tomorrow = f"{NOON + timedelta(days=1):%Y-%m-%d}"
    found = get(app, "periods", tz="Asia/Kolkata", **{"from": tomorrow, "to": f"{tomorrow}T05:30"})[2]
    assert [period["period"] for period in json.loads(found)["periods"]] == [f"{NOON:%Y-%m-%d}"]


def test_a_local_time_without_a_zone_is_refused_with_the_ways_to_say_it(app: Gateway) -> None:
    status, _, body = get(app, "events", **{"from": "2026-03-15T10:00"})
    assert status == "400"
    assert "with an offset, such as 2026-01-31T12:00:00Z" in json.loads(body)["detail"]
    assert "with tz= a time needs no offset" in json.loads(body)["detail"]


@pytest.mark.parametrize("route", ["latest", "periods"])
def test_an_unknown_zone_is_refused_by_every_route(app: Gateway, route: str) -> None:
    status, _, body = get(app, route, "m", **({"series": "pump"} if route == "latest" else {}), tz="Berlin")
    assert status == "400"
    assert "did you mean Europe/Berlin?" in json.loads(body)["detail"]
