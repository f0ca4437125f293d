"""Arrow through the handlers: bytes that the gateway decodes, and headers for what a table has no place for."""

import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pytest

from tests.api.gateway import Gateway, gateway


@pytest.fixture(scope="module")
def app() -> Iterator[Gateway]:
    for app in gateway():
        events = [{"series": "a", "id": str(number), "data": {"mag": number}} for number in range(3)]
        events.append({"series": "b", "id": "odd", "data": {"mag": "strong", "place": "here", "depth": 5}})
        assert app.stage.send("quakes", json.dumps(events).encode()).status == 200
        yield app


def get(app: Gateway, accept: str = "", **parameters: str) -> tuple[dict[str, str], bytes]:
    found: list[Any] = []
    environ = {
        "PATH_INFO": "/v1/streams/quakes/events",
        "REQUEST_METHOD": "GET",
        "QUERY_STRING": urlencode(parameters),
        "HTTP_ACCEPT": accept,
        "wsgi.input": BytesIO(b""),
    }
    body = b"".join(app(environ, lambda status, headers: found.extend([status, dict(headers)])))
    assert found[0].startswith("200")
    return found[1], body


def test_a_page_is_arrows_stream_and_its_cursor_is_a_header(app: Gateway) -> None:
    headers, body = get(app, format="arrow", limit="3")
    assert headers["Content-Type"] == "application/vnd.apache.arrow.stream"
    assert (headers["Tidetable-Gaps"], "Tidetable-Untyped" in headers) == ("0", True)
    first = pa.ipc.open_stream(body).read_all()
    headers, body = get(app, "application/vnd.apache.arrow.stream", cursor=headers["Tidetable-Next"])
    assert "Tidetable-Next" not in headers
    second = pa.ipc.open_stream(body).read_all()
    both = pa.concat_tables([first, second])
    assert both.column_names == ["series", "time", "id", "mag", "place", "data", "ref", "incomplete"]
    assert sorted(both["id"].to_pylist()) == ["0", "1", "2", "odd"]
    assert {row["id"]: row["mag"] for row in both.to_pylist()} == {"0": 0.0, "1": 1.0, "2": 2.0, "odd": None}


def test_the_number_of_values_that_do_not_fit_their_columns_is_a_header(app: Gateway) -> None:
    headers, body = get(app, format="arrow", series="b")
    assert (headers["Tidetable-Untyped"], headers["Tidetable-Untyped-Columns"]) == ("1", "mag=1")
    (row,) = pa.ipc.open_stream(body).read_all().to_pylist()
    assert (row["mag"], row["place"], json.loads(row["data"])) == (None, "here", {"mag": "strong", "depth": 5})
    assert "Tidetable-Untyped" not in get(app, format="arrow", series="a")[0]


def test_a_plan_is_json_whatever_the_form(app: Gateway) -> None:
    headers, body = get(app, format="arrow", explain="true")
    assert headers["Content-Type"] == "application/json"
    assert "stages" in json.loads(body)
