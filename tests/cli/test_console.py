"""`tidetable console`: the address of a stage's console, and a server that signs the requests of its page alone."""

from __future__ import annotations

import gzip
import io
import json
import re
import socket
import threading
import webbrowser
from dataclasses import replace
from typing import Any
from wsgiref.simple_server import WSGIServer

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError, UnauthorizedSSOTokenError

from cli import common
from cli.account import Account
from cli.console import Signed, open_server
from tests.worlds.commands import FakeFunctions, run

ADDRESS = "https://abc.execute-api.eu-central-1.amazonaws.com/api/console"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that were opened in a browser."""
    addresses: list[str] = []
    monkeypatch.setattr(webbrowser, "open", addresses.append)
    return addresses


def with_outputs(monkeypatch: pytest.MonkeyPatch, outputs: dict[str, str]) -> None:
    account: Any = getattr(common, "connect")("t")  # noqa: B009
    deployed = replace(account, outputs=outputs)
    monkeypatch.setattr(common, "connect", lambda *_, **__: deployed)


def test_a_stage_with_keys_shows_and_opens_its_address(
    functions: FakeFunctions, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_outputs(monkeypatch, {"ConsoleUrl": ADDRESS, "ApiKeyId": "k"})
    assert run("console", "--no-open").stdout.strip() == ADDRESS
    assert opened == []
    assert run("console").exit_code == 0
    assert opened == [ADDRESS]


def test_a_stage_of_an_emulator_is_opened_at_the_emulators_address(
    functions: FakeFunctions, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = "https://abc123.execute-api.us-east-1.amazonaws.com/api/console"
    with_outputs(monkeypatch, {"ConsoleUrl": address, "ApiKeyId": "k"})
    result = run("console", "--endpoint-url", "http://127.0.0.1:4566/")
    assert result.stdout.strip() == "http://127.0.0.1:4566/restapis/abc123/api/_user_request_/console"
    assert opened == [result.stdout.strip()]


def test_a_stage_without_a_console_says_what_to_do(
    functions: FakeFunctions, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_outputs(monkeypatch, {})
    result = run("console")
    assert result.exit_code != 0
    assert "set console = true" in result.output
    assert opened == []


class Signer:
    """The server, the API behind it, and what the API received."""

    def __init__(self) -> None:
        self.received: list[httpx.Request] = []
        session = boto3.Session("AKIDEXAMPLE", "secret", region_name="eu-central-1")
        account: Any = Account(None, {}, session=session)  # type: ignore[arg-type]
        client = httpx.Client(transport=httpx.MockTransport(self._receive))
        self.application = Signed(account, ADDRESS, client)
        self.status = ""

    def _receive(self, request: httpx.Request) -> httpx.Response:
        self.received.append(request)
        if request.url.path.endswith("/v1/packed"):
            packed = {"Content-Encoding": "gzip", "Content-Length": "999", "ETag": "e", "Content-Type": "text/html"}
            return httpx.Response(299, headers=packed, content=gzip.compress(b"<p>"))
        if request.url.path.endswith("/v1/down"):
            raise httpx.ConnectError("refused")
        return httpx.Response(200, headers={"Tidetable-Read-Units": "2", "Connection": "close"}, content=b"{}")

    def ask(self, path: str, **environ: str) -> bytes:
        body = environ.pop("body", "").encode()

        def start(status: str, headers: list[tuple[str, str]]) -> None:
            self.status, self.headers = status, {name.lower(): value for name, value in headers}

        request = {
            "REQUEST_METHOD": "POST" if body else "GET", "PATH_INFO": path, "QUERY_STRING": "", "HTTP_HOST": "127.0.0.1:8080",
            "CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body), "SERVER_PORT": "8080",
            "HTTP_COOKIE": f"other=1; tidetable-console-8080={self.application.token}", **environ,
        }  # fmt: skip
        return b"".join(self.application(request, start))


def open_page(server: WSGIServer, signer: Signer) -> httpx.Client:
    """A browser that has opened the printed address: it keeps the cookie."""
    client = httpx.Client(base_url=f"http://127.0.0.1:{server.server_port}", timeout=20)
    entered = client.get(f"/enter/{signer.application.token}")
    assert (entered.status_code, entered.headers["location"]) == (303, "/console")
    assert entered.headers["set-cookie"].endswith("; Path=/; HttpOnly; SameSite=Strict")
    return client


def test_requests_are_signed_and_passed_on_with_their_query_and_body() -> None:
    signer = Signer()
    answer = signer.ask(
        "/v1/streams/s/events",
        QUERY_STRING="from=-1h&where.a=b%20c",
        HTTP_ACCEPT="application/json",
    )
    assert (signer.status, answer) == ("200 OK", b"{}")
    assert signer.headers["tidetable-read-units"] == "2"
    assert "connection" not in signer.headers
    (request,) = signer.received
    assert str(request.url) == ADDRESS.removesuffix("/console") + "/v1/streams/s/events?from=-1h&where.a=b%20c"
    scope = "/eu-central-1/execute-api/aws4_request"
    assert request.headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
    assert scope in request.headers["Authorization"]
    assert "cookie" not in request.headers
    signer.ask("/v1/streams/s/events", body='{"series": "a"}', CONTENT_TYPE="application/json")
    assert signer.received[1].content == b'{"series": "a"}'
    assert signer.received[1].headers["content-type"] == "application/json"


def test_the_query_is_sent_in_the_form_that_aws_signs() -> None:
    """AWS computes the signature of %20, %2A and ~, whatever was sent. A browser sends +, * and %7E."""
    signer = Signer()
    signer.ask("/v1/streams/s/events/r", QUERY_STRING="fields=*&series=front+door&series=b%2Bc%7E&where.n=%C3%BC&to=")
    (request,) = signer.received
    assert request.url.query == b"fields=%2A&series=front%20door&series=b%2Bc~&where.n=%C3%BC&to="


@pytest.mark.parametrize(
    "environ",
    [
        {"HTTP_HOST": "evil.example:8080"},
        {"HTTP_ORIGIN": "https://evil.example"},
        {"HTTP_SEC_FETCH_SITE": "cross-site"},
        {"HTTP_SEC_FETCH_SITE": "same-site"},
    ],
    ids=["another name of this machine", "another origin", "another site", "another port"],
)
def test_other_pages_of_the_browser_cannot_use_the_rights(environ: dict[str, str]) -> None:
    signer = Signer()
    signer.ask("/v1/streams", **environ)
    assert signer.status == "403 Forbidden"
    assert signer.received == []


def test_an_api_that_does_not_answer_is_told() -> None:
    """The page shows the detail of a problem; of other bodies it shows the status alone."""
    signer = Signer()
    problem = json.loads(signer.ask("/v1/down"))
    assert signer.status == "502 Bad Gateway"
    assert signer.headers["content-type"] == "application/problem+json"
    assert problem == {"status": 502, "code": "no_answer", "detail": "The API did not answer: refused"}


@pytest.mark.parametrize(
    "error",
    [
        UnauthorizedSSOTokenError(),
        ClientError({"Error": {"Code": "ExpiredToken", "Message": "expired"}}, "AssumeRole"),
        RuntimeError("Credentials were refreshed, but the refreshed credentials are still expired."),
    ],
    ids=["single sign-on", "a role", "a program that answers credentials"],
)
def test_credentials_that_ended_are_told_with_what_to_do(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> dict[str, str]:
        raise error

    monkeypatch.setattr(Account, "sign_request", refuse)
    signer = Signer()
    problem = json.loads(signer.ask("/v1/streams"))
    assert (signer.status, problem["status"], problem["code"]) == ("502 Bad Gateway", 502, "no_credentials")
    assert problem["detail"].startswith("Your AWS credentials cannot be used: ")
    assert str(error) in problem["detail"]
    assert "Log in again" in problem["detail"]
    assert signer.received == []


def test_a_connection_on_which_nothing_is_sent_holds_up_no_other() -> None:
    """Browsers open connections in advance."""
    signer = Signer()
    with open_server(signer.application, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with socket.create_connection(("127.0.0.1", server.server_port)):
            answer = open_page(server, signer).get("/v1/streams")
        server.shutdown()
    assert (answer.status_code, answer.content) == (200, b"{}")


def test_an_address_is_passed_on_as_the_page_wrote_it() -> None:
    """A field may have any name: here größe, and one with a slash."""
    signer = Signer()
    path = "/v1/streams/s/fields/gr%C3%B6%C3%9Fe%2Fcm/values"
    with open_server(signer.application, 0) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        open_page(server, signer).get(f"{path}?limit=5")
        server.shutdown()
    assert str(signer.received[0].url) == f"{ADDRESS.removesuffix('/console')}{path}?limit=5"


def test_an_answer_is_passed_on_as_it_is_without_its_packing() -> None:
    """The body is unpacked, so its length and its packing are others; a status without words gets some."""
    signer = Signer()
    assert signer.ask("/v1/packed") == b"<p>"
    assert (signer.status, signer.headers) == ("299 answer", {"etag": "e", "content-type": "text/html"})


def test_headers_that_the_api_reads_are_passed_on() -> None:
    signer = Signer()
    signer.ask("/v1/streams", HTTP_PREFER="count=none", HTTP_IF_NONE_MATCH='"e"', HTTP_ACCEPT_ENCODING="gzip")
    (request,) = signer.received
    assert (request.headers["prefer"], request.headers["if-none-match"]) == ("count=none", '"e"')
    assert "content-type" not in request.headers


@pytest.mark.parametrize(
    "environ",
    [
        {"HTTP_ORIGIN": "http://127.0.0.1:8080"},
        {"HTTP_SEC_FETCH_SITE": "same-origin"},
        # The address was typed.
        {"HTTP_SEC_FETCH_SITE": "none"},
    ],
)
def test_the_servers_own_page_may_ask(environ: dict[str, str]) -> None:
    signer = Signer()
    signer.ask("/v1/streams", **environ)
    assert (signer.status, len(signer.received)) == ("200 OK", 1)


def test_another_port_of_this_machine_is_another_origin() -> None:
    signer = Signer()
    signer.ask("/v1/streams", HTTP_ORIGIN="http://127.0.0.1:9090")
    assert signer.status == "403 Forbidden"


def test_the_server_listens_on_this_machine_alone_and_waits_longer_than_the_gateway() -> None:
    """API Gateway gives up after 29 seconds."""
    with open_server(Signer().application, 0) as server:
        assert server.server_address[0] == "127.0.0.1"
    application = Signed(Account(None, {}), ADDRESS)  # type: ignore[arg-type]
    assert application._client.timeout == httpx.Timeout(35.0)


@pytest.mark.parametrize(("words", "shown"), [([], True), (["--no-open"], False)])
def test_without_keys_a_server_of_this_machine_is_opened_until_it_is_ended(
    functions: FakeFunctions, opened: list[str], monkeypatch: pytest.MonkeyPatch, words: list[str], shown: bool
) -> None:
    with_outputs(monkeypatch, {"ConsoleUrl": ADDRESS})
    ports: list[int] = []

    def end(server: Any) -> None:
        ports.append(server.server_port)
        raise KeyboardInterrupt

    monkeypatch.setattr(WSGIServer, "serve_forever", end)
    result = run("console", *words)
    assert result.exit_code == 0, result.output
    first, last = result.stdout.splitlines()
    local = first.partition(" shows ")[0]
    assert (first, last) == (f"{local} shows {ADDRESS}. End with Ctrl-C.", "ended")
    assert re.fullmatch(rf"http://127\.0\.0\.1:{ports[0]}/enter/[A-Za-z0-9_-]{{43}}", local)
    assert opened == ([local] if shown else [])
