"""The server of `tidetable console` serves the browser that opened its address, and passes on what its pages ask alone."""

from __future__ import annotations

import io
import socket
import threading
from typing import Any

import boto3
import httpx
import pytest

from cli.account import Account
from cli.console import Signed, open_server

ADDRESS = "https://tides.example.com/console"
COOKIE = "tidetable-console-8080"


class Signer:
    """The server, and the requests that it passed on to an API whose address has no path."""

    def __init__(self) -> None:
        self.received: list[httpx.Request] = []
        session = boto3.Session("AKIDEXAMPLE", "secret", region_name="eu-central-1")
        account: Any = Account(None, {}, session=session)  # type: ignore[arg-type]
        self.application = Signed(account, ADDRESS, httpx.Client(transport=httpx.MockTransport(self._receive)))
        self.status = ""

    def _receive(self, request: httpx.Request) -> httpx.Response:
        self.received.append(request)
        return httpx.Response(200, content=b"{}")

    def ask(self, path: str, method: str = "GET", **environ: Any) -> dict[str, str]:
        """Send a request with the cookie; return the headers of the answer."""
        headers: dict[str, str] = {}

        def start(status: str, pairs: list[tuple[str, str]]) -> None:
            self.status = status
            headers.update({name.lower(): value for name, value in pairs})

        request = {
            "REQUEST_METHOD": method, "RAW_PATH": path, "PATH_INFO": path, "QUERY_STRING": "", "SERVER_PORT": "8080",
            "HTTP_HOST": "127.0.0.1:8080", "HTTP_COOKIE": f"{COOKIE}={self.application.token}",
            "wsgi.input": io.BytesIO(b""), **environ,
        }  # fmt: skip
        list(self.application(request, start))
        return headers


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        "other=1",
        f"{COOKIE}=",
        f"{COOKIE}=x",
        "tidetable-console-9090={token}",
        "other={token}",
        "{token}",
        "=;=",
        "é=é",
    ],
)
def test_another_program_or_user_of_this_machine_has_no_token(cookie: str) -> None:
    """Such a request has no Origin and no Sec-Fetch-Site, like one of curl, or of an old browser's image."""
    signer = Signer()
    signer.ask("/v1/streams", HTTP_COOKIE=cookie.replace("{token}", signer.application.token))
    assert (signer.status, signer.received) == ("403 Forbidden", [])


def test_the_printed_address_gives_the_cookie_once_for_each_browser() -> None:
    signer = Signer()
    headers = signer.ask(f"/enter/{signer.application.token}", HTTP_COOKIE="")
    assert signer.status == "303 See Other"
    assert headers["location"] == "/console"
    assert headers["set-cookie"] == f"{COOKIE}={signer.application.token}; Path=/; HttpOnly; SameSite=Strict"
    assert len(signer.application.token) == 43
    assert Signer().application.token != signer.application.token


@pytest.mark.parametrize("path", ["/enter/", "/enter/x", "/enter/{token}x", "/enter", "/{token}"])
def test_another_address_gives_no_cookie(path: str) -> None:
    signer = Signer()
    headers = signer.ask(path.replace("{token}", signer.application.token), HTTP_COOKIE="")
    assert (signer.status, "set-cookie" in headers) == ("403 Forbidden", False)


def test_the_printed_address_is_not_for_other_pages() -> None:
    signer = Signer()
    headers = signer.ask(f"/enter/{signer.application.token}", HTTP_COOKIE="", HTTP_SEC_FETCH_SITE="cross-site")
    assert (signer.status, "set-cookie" in headers) == ("403 Forbidden", False)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        # Appended to an address without a path, this would be another host.
        ("GET", "@evil.example/v1/x"),
        ("GET", ".evil.example/v1/x"),
        ("GET", ":80/v1/x"),
        ("GET", "//evil.example/v1/x"),
        ("GET", "http://evil.example/v1/x"),
        ("GET", "/../other/v1/x"),
        ("GET", "/v1/../../other"),
        ("GET", "/v1/./streams"),
        ("GET", "/v1/.."),
        ("GET", "/v1/%2e%2e/x"),
        ("GET", "/v1/%2E./x"),
        ("GET", "/v1/%252e%252e/x"),
        ("GET", "/v1/..%2fx"),
        ("GET", "/v1/..\\x"),
        ("GET", "/v1/%5c..%5cx"),
        ("GET", "/console/../v1"),
        ("GET", "/"),
        ("GET", ""),
        ("GET", "/v1"),
        ("GET", "/v2/streams"),
        ("GET", "/consoles"),
        ("GET", "/api/v2/write"),
        ("POST", "/console"),
        ("POST", "/write"),
        ("DELETE", "/v1/streams"),
        ("PUT", "/v1/streams"),
        ("HEAD", "/v1/streams"),
        ("OPTIONS", "/v1/streams"),
        ("get", "/v1/streams"),
        ("CONNECT", "/v1/streams"),
    ],
)
def test_requests_that_no_page_makes_are_not_signed(method: str, path: str) -> None:
    signer = Signer()
    signer.ask(path, method)
    assert (signer.status, signer.received) == ("404 Not Found", [])


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/console"),
        ("GET", "/console/assets/js/api.js"),
        ("GET", "/v1/streams"),
        ("GET", "/v1/streams/s/fields/a..b/values"),
        ("GET", "/v1/streams/s/fields/gr%C3%B6%2Fcm/values"),
        ("POST", "/v1/streams/s/events"),
    ],
)
def test_requests_of_the_pages_are_signed_as_they_are(method: str, path: str) -> None:
    signer = Signer()
    signer.ask(path, method)
    assert signer.status == "200 OK"
    assert [(request.method, str(request.url)) for request in signer.received] == [
        (method, f"https://tides.example.com{path}")
    ]


@pytest.mark.parametrize(
    "environ",
    [
        {"CONTENT_LENGTH": "-1"},
        {"CONTENT_LENGTH": "abc"},
        {"CONTENT_LENGTH": "1e3"},
        {"CONTENT_LENGTH": "+1"},
        {"CONTENT_LENGTH": "٣"},
        {"CONTENT_LENGTH": "10000001"},
        {"CONTENT_LENGTH": "9" * 5000},
        {"CONTENT_LENGTH": "5"},
        {"HTTP_TRANSFER_ENCODING": "chunked"},
    ],
)
def test_a_body_without_a_right_length_is_refused(environ: dict[str, str]) -> None:
    signer = Signer()
    signer.ask("/v1/streams/s/events", "POST", **environ)
    assert (signer.status, signer.received) == ("400 Bad Request", [])


def test_a_negative_length_does_not_keep_a_connection_open() -> None:
    signer = Signer()
    with open_server(signer.application, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
            cookie = f"tidetable-console-{server.server_port}={signer.application.token}"
            head = f"POST /v1/streams/s/events HTTP/1.0\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\nContent-Length: -1\r\n\r\n"
            connection.sendall(head.encode())
            answer = connection.recv(1000)
        server.shutdown()
    assert answer.startswith(b"HTTP/1.0 400 Bad Request")
