"""The requests that read: their parameters, their length, and answers that are not the API's."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

import httpx
import pytest

from doubles import ManualClock, Server, event
from tidetable_client import ApiError, AsyncClient, Client
from tidetable_client.connection import flatten
from tidetable_client.pages import name_parameters, pair_series


def test_a_list_of_booleans_is_written_as_json_writes_them() -> None:
    parameters = {"where": {"felt:in": [True, False], "mag:in": [4, 4.5], "state:in": ("CA", "NV")}}
    assert name_parameters(parameters) == [
        ("where.felt:in", "true,false"),
        ("where.mag:in", "4,4.5"),
        ("where.state:in", "CA,NV"),
    ]


def test_a_time_without_an_offset_needs_a_zone() -> None:
    local = datetime(2026, 10, 25, 2, 30)  # noqa: DTZ001 - the zone is a parameter
    zone = ZoneInfo("Europe/Berlin")
    assert flatten({"from": local, "tz": zone}) == [("from", "2026-10-25T02:30:00"), ("tz", "Europe/Berlin")]
    with pytest.raises(ValueError, match="or add tz"):
        flatten({"from": local, "tz": None})


def test_an_answer_of_latest_that_is_not_json_is_an_error_of_the_api(clock: ManualClock) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=b"<html>sign in</html>"))
    client = Client("http://tides.test", "key", transport=transport, clock=clock)
    with pytest.raises(ApiError, match="the answer is not JSON"):
        client.latest("quakes", "a")


@pytest.mark.parametrize("character", ["ä", " "])
def test_latest_divides_long_names_so_that_the_gateway_takes_each_request(clock: ManualClock, character: str) -> None:
    """AWS: the request line and the headers have at most 10,240 bytes. A space is three of them: %20."""
    lengths = []

    def serve(request: httpx.Request) -> httpx.Response:
        lengths.append(len(request.url.raw_path))
        names = request.url.params.get_list("series")
        return httpx.Response(200, json={"latest": [{"series": name, "event": None} for name in names]})

    client = Client("http://tides.test", "key", transport=httpx.MockTransport(serve), clock=clock)
    names = [f"{number:03d}{character * 97}" for number in range(100)]
    assert list(client.latest("quakes", names)) == names
    assert max(lengths) < 7_000

    async def read() -> list[str]:
        async with AsyncClient("http://tides.test", "key", transport=httpx.MockTransport(serve), clock=clock) as other:
            return list(await other.latest("quakes", names))

    requests = len(lengths)
    assert asyncio.run(read()) == names
    assert (len(lengths), max(lengths) < 7_000) == (2 * requests, True)


def test_names_fill_a_request_to_its_last_byte() -> None:
    """``series=abc&`` has eleven bytes."""
    assert list(pair_series(["abc", "def", "ghi"], most_bytes=22)) == [["abc", "def"], ["ghi"]]
    assert list(pair_series(["abc", "def", "ghi"], most_bytes=21)) == [["abc"], ["def"], ["ghi"]]
    assert list(pair_series(["abc", "def", "ghi"], size=2)) == [["abc", "def"], ["ghi"]]


def damage(request: httpx.Request) -> httpx.Response:
    """An answer whose compressed body was damaged on its way. It is decompressed where the client can see the error."""
    headers = {"Content-Encoding": "gzip"}
    stream = httpx.ByteStream(b"this is not gzip")
    return httpx.Response(200, headers=headers, stream=stream, request=request)


def test_a_read_whose_answer_was_damaged_is_repeated(clock: ManualClock) -> None:
    latest = {"latest": [{"series": "a", "event": None}, {"series": "b", "event": None}]}

    def serve(answers: Iterator[httpx.Response]) -> httpx.MockTransport:
        return httpx.MockTransport(lambda _: next(answers))

    def make_answers() -> Iterator[httpx.Response]:
        yield damage(httpx.Request("GET", "http://tides.test"))
        yield httpx.Response(200, json=latest)

    async def read() -> dict[str, dict[str, object] | None]:
        async with AsyncClient("http://t.test", "key", transport=serve(make_answers()), clock=clock) as client:
            return await client.latest("quakes", ["a", "b"])

    client = Client("http://t.test", "key", transport=serve(make_answers()), clock=clock)
    assert client.latest("quakes", ["a", "b"]) == {"a": None, "b": None}
    assert asyncio.run(read()) == {"a": None, "b": None}


def test_a_write_whose_answer_was_damaged_is_repeated(server: Server, clock: ManualClock) -> None:
    server.faults = [damage]
    with Client("http://t.test", "key", background=False, transport=server.transport, clock=clock) as client:
        client.write("quakes", event(1))
    assert (len(server.requests), server.values()) == (2, [1])
