"""The requests that read: their parameters, their length, and answers that are not the API's."""

from __future__ import annotations

import httpx
import pytest

from doubles import ManualClock
from tidetable_client import ApiError, Client
from tidetable_client.pages import name_parameters


def test_a_list_of_booleans_is_written_as_json_writes_them() -> None:
    parameters = {"where": {"felt:in": [True, False], "mag:in": [4, 4.5], "state:in": ("CA", "NV")}}
    assert name_parameters(parameters) == [
        ("where.felt:in", "true,false"),
        ("where.mag:in", "4,4.5"),
        ("where.state:in", "CA,NV"),
    ]


def test_an_answer_of_latest_that_is_not_json_is_an_error_of_the_api(clock: ManualClock) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=b"<html>sign in</html>"))
    client = Client("http://tides.test", "key", transport=transport, clock=clock)
    with pytest.raises(ApiError, match="the answer is not JSON"):
        client.latest("quakes", "a")


def test_latest_divides_long_names_so_that_the_gateway_takes_each_request(clock: ManualClock) -> None:
    """AWS: the request line and the headers have at most 10,240 bytes."""
    lengths = []

    def serve(request: httpx.Request) -> httpx.Response:
        lengths.append(len(request.url.raw_path))
        names = request.url.params.get_list("series")
        return httpx.Response(200, json={"latest": [{"series": name, "event": None} for name in names]})

    client = Client("http://tides.test", "key", transport=httpx.MockTransport(serve), clock=clock)
    names = [f"{number:03d}{'ä' * 97}" for number in range(100)]
    assert list(client.latest("quakes", names)) == names
    assert max(lengths) < 7_000
