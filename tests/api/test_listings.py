"""Listings over the API: a stream with a rollup on the strict service, through the ingest, refresher and query functions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pytest

from tests.api.gateway import NOON, Gateway, serving
from tests.worlds.rolled_stage import Rolled

CONFIG = """
[streams.quakes]
period = "day"
late = "1d"
retention = 9
key = { partition_by = "time", bucket = "6h" }
[[streams.quakes.rollup]]
name = "series"
every = "1h"
by = ["series", "place.state"]
retention = "30d"
[streams.plain]
period = "day"
late = "1d"
retention = 9
key = { partition_by = "time", bucket = "6h" }
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    file = tmp_path_factory.mktemp("listings") / "tidetable.toml"
    file.write_text(CONFIG)
    stage = Rolled(NOON, CONFIG)
    while stage.run_lifecycle().done:
        pass
    stage.refresh()
    stage.clock.sleep(7_200)
    now = int(stage.clock.now().timestamp() * 1000)
    sent = [("b", "CA", 1), ("a", "NV", 2), ("a é/=", "CA", "x"), ("=c", 7, None)]
    events = [
        {"series": series, "time": now - n, "id": "1", "data": {"mag": mag, "place": {"state": state}}}
        for n, (series, state, mag) in enumerate(sent)
    ]
    assert stage.send("quakes", json.dumps(events).encode()).status == 200
    stage.clock.sleep(2 * 3_600)
    stage.refresh()
    yield from serving(stage, file)


def get(app: Gateway, path: str, **parameters: str) -> tuple[int, dict[str, str], str]:
    status, headers, body = get_bytes(app, path, **parameters)
    return status, headers, body.decode()


def get_bytes(app: Gateway, path: str, **parameters: str) -> tuple[int, dict[str, str], bytes]:
    found: list[Any] = []
    environ = {
        "PATH_INFO": f"/v1/streams/{path}",
        "REQUEST_METHOD": "GET",
        "QUERY_STRING": urlencode(parameters),
        "wsgi.input": BytesIO(b""),
    }
    body = b"".join(app(environ, lambda status, headers: found.extend([int(status.split()[0]), dict(headers)])))
    return found[0], found[1], body


def test_series_come_in_pages_with_their_cost_in_headers(app: Gateway) -> None:
    status, headers, body = get(app, "quakes/series", limit="3")
    page = json.loads(body)
    assert status == 200
    assert list(page) == ["series", "next", "from", "to", "gaps", "sources"]
    assert [row["series"] for row in page["series"]] == ["=c", "a", "a é/="]
    hour = {"first": "2026-03-15T14:00:00.000000Z", "first_within": "1h", "last": "2026-03-15T15:00:00.000000Z"}
    assert page["series"][1].items() >= hour.items()
    assert {"period": "2026-03", "from": "table", "rollup": "quakes-series"} in page["sources"]
    assert float(headers["Tidetable-Read-Units"]) > 0
    assert headers["Tidetable-Next"] == page["next"]
    rest = json.loads(get(app, "quakes/series", cursor=page["next"])[2])
    assert [row["series"] for row in rest["series"]] == ["b"]
    assert rest["next"] is None


def test_fields_and_values_are_listed(app: Gateway) -> None:
    fields = json.loads(get(app, "quakes/fields")[2])["fields"]
    assert [(row["field"], row["types"]) for row in fields] == [
        ("mag", ["null", "number", "string"]),
        ("place", ["object"]),
    ]
    values = json.loads(get(app, "quakes/fields/place.state/values")[2])["values"]
    assert [(row["value"], row["type"]) for row in values] == [(7, "number"), ("CA", "string"), ("NV", "string")]


def test_a_listing_may_be_a_table(app: Gateway) -> None:
    """A series that a spreadsheet would execute gets an apostrophe."""
    _, headers, body = get(app, "quakes/series", format="csv")
    assert headers["Content-Type"].startswith("text/csv")
    lines = body.splitlines()
    assert lines[0] == "series,first,first_within,last,last_within"
    assert [line.partition(",")[0] for line in lines[1:]] == ["'=c", "a", "a é/=", "b"]


def test_a_listing_may_be_a_table_of_arrow(app: Gateway) -> None:
    _, headers, body = get_bytes(app, "quakes/series", format="arrow", limit="2")
    assert headers["Content-Type"] == "application/vnd.apache.arrow.stream"
    table = pa.ipc.open_stream(body).read_all()
    assert table.column_names == ["series", "first", "first_within", "last", "last_within"]
    assert table["series"].to_pylist() == ["=c", "a"]
    assert table["last"][1].as_py() == datetime(2026, 3, 15, 15, tzinfo=UTC)
    _, _, body = get_bytes(app, "quakes/series", format="arrow", cursor=headers["Tidetable-Next"])
    assert pa.ipc.open_stream(body).read_all()["series"].to_pylist() == ["a é/=", "b"]
    _, _, body = get_bytes(app, "quakes/fields", format="arrow")
    assert pa.ipc.open_stream(body).read_all()["types"].to_pylist() == ['["null","number","string"]', '["object"]']
    _, _, body = get_bytes(app, "quakes/fields/place.state/values", format="arrow")
    values = pa.ipc.open_stream(body).read_all()
    assert (values["value"].to_pylist(), values["type"].to_pylist()) == (
        ["7", "CA", "NV"],
        ["number", "string", "string"],
    )


def test_a_plan_is_shown_instead(app: Gateway) -> None:
    plan = json.loads(get(app, "quakes/fields", explain="true")[2])
    assert plan["rollups"] == [{"rollup": "quakes-series", "used": True, "reason": None}]
    assert {stage["source"] for stage in plan["stages"]} == {"table"}


@pytest.mark.parametrize(
    ("path", "key"),
    [("plain/series", 'by = ["series"]'), ("plain/fields", "by = []"), ("quakes/fields/mag/values", 'by = ["mag"]')],
)
def test_a_stream_without_the_rollup_is_refused_with_what_to_add(app: Gateway, path: str, key: str) -> None:
    status, _, body = get(app, path)
    problem = json.loads(body)
    assert (status, problem["code"]) == (400, "needs_rollup")
    assert key in problem["detail"]
