"""The sender in Python, against the real handlers behind a server that also throttles, fails and falls silent."""

import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from examples.python import send
from tests.api.gateway import NOON, gateway

# The server's answers to the next requests, as status and headers; later requests reach the handlers.
Trouble = tuple[int, dict[str, str]]


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the tests report errors."""


class Server:
    """The gateway behind HTTP."""

    def __init__(self, application: Any) -> None:
        self.troubles: list[Trouble] = []
        self.requests: list[dict[str, Any]] = []
        self._application = application

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        if self.troubles:
            status, headers = self.troubles.pop(0)
            start(f"{status} trouble", list(headers.items()))
            return [b"{}"]
        body = environ["wsgi.input"]
        self.requests.append({"type": environ["CONTENT_TYPE"], "length": int(environ["CONTENT_LENGTH"]), "body": body})
        return self._application(environ, start)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Server, str]]:
    for application in gateway():
        server = Server(application)
        with make_server("127.0.0.1", 0, server, handler_class=Quiet) as http:
            thread = threading.Thread(target=http.serve_forever, daemon=True)
            thread.start()
            yield server, f"http://127.0.0.1:{http.server_port}"
            http.shutdown()


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def events(count: int, name: str) -> list[dict[str, Any]]:
    at = NOON.isoformat()
    return [{"series": "ci", "id": f"{name}{number}", "time": at, "data": {"mag": number}} for number in range(count)]


def test_all_events_arrive_in_compressed_batches(served: tuple[Server, str], pauses: list[float]) -> None:
    server, url = served
    server.requests.clear()
    assert list(send.send_events(url, "key", "quakes", events(1200, "a"))) == []
    assert [request["type"] for request in server.requests] == ["application/x-ndjson"] * 3
    plain = len("\n".join(map(json.dumps, events(1200, "a"))).encode())
    assert sum(request["length"] for request in server.requests) < plain / 5
    assert pauses == []


def test_what_is_refused_is_named_and_the_rest_is_stored(served: tuple[Server, str], pauses: list[float]) -> None:
    _, url = served
    old = {"series": "ci", "id": "old", "time": "2001-01-01T00:00:00Z", "data": {}}
    refused = list(send.send_events(url, "key", "quakes", [*events(2, "b"), old]))
    assert [(refusal["code"], refusal["event"]["id"]) for refusal in refused] == [("too_old", "old")]
    # Also of a batch that is refused as a whole.
    assert [refusal["event"]["id"] for refusal in send.send_events(url, "key", "quakes", [old])] == ["old"]


def test_a_busy_api_is_asked_again_when_it_says(served: tuple[Server, str], pauses: list[float]) -> None:
    server, url = served
    server.requests.clear()
    server.troubles = [(429, {"Retry-After": "7"}), (503, {"Retry-After": "2"}), (502, {})]
    assert list(send.send_events(url, "key", "quakes", events(3, "c"))) == []
    assert pauses == [7.0, 2.0, 4.0]
    assert len(server.requests) == 1


def test_a_request_that_will_never_do_is_not_sent_again(served: tuple[Server, str], pauses: list[float]) -> None:
    _, url = served
    with pytest.raises(RuntimeError, match=r"404.*there is no stream"):
        list(send.send_events(url, "key", "nothing", events(1, "d")))
    assert pauses == []


def test_an_api_that_stays_away_is_an_error_that_says_how_much_is_not_sent(pauses: list[float]) -> None:
    with pytest.raises(OSError, match="8 tries; 3 are not sent"):
        list(send.send_events("http://127.0.0.1:9", "key", "quakes", events(3, "e")))
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 30]


def test_an_event_without_a_time_has_the_same_one_when_it_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []

    def fail(request: Any, timeout: float) -> Any:
        sent.append(gzip.decompress(request.data))
        raise OSError

    monkeypatch.setattr("urllib.request.urlopen", fail)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    with pytest.raises(OSError, match="not sent"):
        list(send.send_events("http://127.0.0.1:9", "key", "quakes", [{"series": "s", "data": {}}]))
    assert len(sent) == 8
    assert len(set(sent)) == 1
    assert json.loads(sent[0])["time"]
