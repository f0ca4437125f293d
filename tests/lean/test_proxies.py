"""Requests through a company's proxy, and certificates of its own authority."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aws.http import client as lean
from aws.http.client import LeanClient, NoAnswer
from aws.http.credentials import Provider
from aws.http.proxies import find_proxy, open_tunnel
from aws.http.roots import ROOTS_FILE
from tests.lean.scripted_server import KEYS, NOW

ENDPOINT = "https://dynamodb.us-east-1.amazonaws.com"
TUNNEL = b"HTTP/1.1 200 Connection established\r\n\r\n"
TLS_HANDSHAKE = 0x16


@contextmanager
def proxy_that_answers(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A proxy for one connection: its address, and what it read: the request, and the next bytes."""
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as file:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    head += file.readline()
                seen.append(head)
                connection.sendall(answer)
                if answer == TUNNEL:
                    seen.append(file.read1(1024))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", seen
        thread.join(60)


@pytest.fixture(autouse=True)
def _no_proxy_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "no_proxy", "all_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.usefixtures("patience")
def test_a_function_behind_a_proxy_opens_a_tunnel_and_speaks_tls_to_dynamodb(monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy_that_answers(TUNNEL) as (address, seen):
        for name, value in {**KEYS, "AWS_REGION": "us-east-1", "HTTPS_PROXY": f"http://me:p%40ss@{address}"}.items():
            monkeypatch.setenv(name, value)
        for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"):
            monkeypatch.delenv(name, raising=False)
        assert isinstance(LeanClient.of_process().call("Query", b"{}"), NoAnswer)
    head = seen[0].decode().split("\r\n")
    assert head[0].startswith("CONNECT dynamodb.us-east-1.amazonaws.com:443 HTTP/1.")
    # Base64 of me:p@ss
    assert "Proxy-Authorization: Basic bWU6cEBzcw==" in head
    assert seen[1][0] == TLS_HANDSHAKE


def test_bytes_pass_through_a_tunnel_as_they_are() -> None:
    with proxy_that_answers(TUNNEL) as (address, seen), open_tunnel(f"http://{address}", "h", 443, 60.0) as tunnel:
        tunnel.sendall(b"whatever")
    assert seen[1] == b"whatever"
    assert b"Proxy-Authorization" not in seen[0]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407"), (b"nonsense\r\n\r\n", "proxy cannot be read")],
)
def test_a_refusal_of_the_proxy_is_no_answer_with_its_reason(answer: bytes, reason: str) -> None:
    with proxy_that_answers(answer) as (address, _):
        client = LeanClient(
            ENDPOINT, "us-east-1", Provider(KEYS, lambda: NOW, lambda *_: b"").get, proxy=f"http://{address}"
        )
        reply = client.call("Query", b"{}")
    assert isinstance(reply, NoAnswer)
    assert reason in reply.why


@pytest.mark.parametrize(
    ("variables", "endpoint", "found"),
    [
        ({}, ENDPOINT, None),
        ({"HTTPS_PROXY": ""}, ENDPOINT, None),
        ({"HTTP_PROXY": "http://p:1"}, ENDPOINT, None),
        ({"HTTPS_PROXY": "http://p:1"}, ENDPOINT, "http://p:1"),
        ({"https_proxy": "p:1"}, ENDPOINT, "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".amazonaws.com"}, ENDPOINT, None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example.org"}, ENDPOINT, "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1"}, "http://127.0.0.1:4566", None),
    ],
)
def test_a_proxy_is_found_by_the_usual_variables(
    variables: dict[str, str], endpoint: str, found: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_proxy(endpoint) == found


def test_a_proxy_that_demands_tls_is_refused_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "https://me:secret@p:1")
    with pytest.raises(ValueError, match="HTTPS_PROXY begins with https://: only proxies") as refused:
        find_proxy(ENDPOINT)
    assert "secret" not in str(refused.value)


def test_with_a_bundle_only_its_authorities_are_trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    end = "-----END CERTIFICATE-----\n"
    bundle = tmp_path / "own.pem"
    bundle.write_text(ROOTS_FILE.read_text().split(end)[0] + end)
    tried: list[int] = []

    def connection(host: str, port: int, context: ssl.SSLContext, *_: object) -> None:
        tried.append(len(context.get_ca_certs()))
        raise ssl.SSLCertVerificationError("self-signed")

    monkeypatch.setattr(lean, "Connection", connection)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bundle))
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", ENDPOINT)
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    reply = LeanClient.of_process().call("Query", b"{}")
    assert isinstance(reply, NoAnswer)
    assert tried == [1]


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_bundle_that_cannot_be_used_is_named(content: str | None, tmp_path: Path) -> None:
    bundle = tmp_path / "own.pem"
    if content is not None:
        bundle.write_text(content)
    with pytest.raises(ValueError, match=r"AWS_CA_BUNDLE: .*own\.pem is not a file of certificates"):
        LeanClient(ENDPOINT, "us-east-1", Provider(KEYS, lambda: NOW, lambda *_: b"").get, authorities=str(bundle))
