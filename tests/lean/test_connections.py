"""The lean client's connections: which are used again, which are closed, and which certificates are trusted."""

import socket
import ssl
import threading
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import pytest

from aws.http import client as lean
from aws.http.client import LeanClient, NoAnswer, ServiceRequest
from aws.http.credentials import Provider
from aws.http.roots import ROOTS_FILE
from tests.lean.scripted_server import KEYS, NOW, answer, served

pytestmark = pytest.mark.usefixtures("patience")


def test_answers_come_in_the_order_of_the_requests_over_few_connections() -> None:
    with served() as (server, client):
        for _ in range(3):
            requests = [ServiceRequest("Query", str(number).encode()) for number in range(50)]
            assert client.call_all(requests) == [request.body for request in requests]
    assert server.connections <= lean.CONNECTIONS


@pytest.mark.parametrize("connections", [lean.CONNECTIONS, 16])
def test_all_are_sent_before_the_first_answer_is_read(connections: int) -> None:
    """Otherwise this test would wait for ever: the server answers only after so many requests."""
    gate = threading.Barrier(connections, timeout=60)
    with served(connections=connections) as (server, client):
        whole = server._head

        def waiting(file: Any) -> list[str]:
            head = whole(file)
            if head:
                gate.wait()
            return head

        server._head = waiting  # type: ignore[method-assign]
        assert len(client.call_all([ServiceRequest("Query", b"{}")] * connections)) == connections
        assert len(client._idle) == connections


def test_a_connection_that_was_closed_while_it_was_idle_is_replaced_and_the_request_sent_again() -> None:
    with served((answer(), True)) as (server, client):
        assert client.call("Query", b"one") == b"{}"
        assert client.call("Query", b"two") == b"two"
    assert server.seen[-1] == b"two"


@pytest.mark.parametrize("header", ["Connection: close", "connection: Close"])
def test_connection_close_is_obeyed(header: str) -> None:
    with served((answer(b"{}", 200, header), False)) as (server, client):
        client.call("Query", b"one")
        client.call("Query", b"two")
    assert server.connections == 2


def test_a_request_is_sent_over_another_connection_once() -> None:
    """The server closes every connection that it has answered over before."""
    with served((answer(), False), (b"", True), (b"", True)) as (server, client):
        assert client.call("Query", b"one") == b"{}"
        assert isinstance(client.call("Query", b"two"), NoAnswer)
    assert server.seen == [b"one", b"two", b"two"]


def test_an_http_1_0_server_closes_each_connection() -> None:
    """It may do so a moment after its answer: a request that is sent in that moment is lost."""
    old = answer().replace(b"HTTP/1.1", b"HTTP/1.0")
    with served((old, False), (old, False)) as (server, client):
        assert [client.call("Query", b"one"), client.call("Query", b"two")] == [b"{}", b"{}"]
    assert server.connections == 2


@pytest.mark.parametrize(
    ("variables", "endpoint"),
    [
        ({}, "dynamodb.eu-west-1.amazonaws.com"),
        ({"AWS_ENDPOINT_URL": "https://all.example"}, "all.example"),
        ({"AWS_ENDPOINT_URL": "https://all.example", "AWS_ENDPOINT_URL_DYNAMODB": "https://db.example"}, "db.example"),
    ],
)
def test_the_endpoint_of_the_service_comes_before_that_of_all(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], endpoint: str
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"):
        monkeypatch.delenv(name, raising=False)
    for name, value in ({"AWS_REGION": "eu-west-1"} | variables).items():
        monkeypatch.setenv(name, value)
    assert LeanClient.of_process()._host == endpoint


@pytest.mark.parametrize(
    ("variables", "region"),
    [
        ({}, "us-east-1"),
        ({"AWS_DEFAULT_REGION": "eu-west-1"}, "eu-west-1"),
        ({"AWS_DEFAULT_REGION": "eu-west-1", "AWS_REGION": "eu-west-3"}, "eu-west-3"),
    ],
)
def test_the_region_of_the_function_comes_before_the_default(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], region: str
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert LeanClient.of_process()._host == f"dynamodb.{region}.amazonaws.com"


@pytest.mark.parametrize(
    ("endpoint", "host", "port"),
    [
        ("https://db.example", "db.example", 443),
        ("http://db.example", "db.example", 80),
        ("http://db.example:8000", "db.example:8000", 8000),
        ("https://db.example:443", "db.example:443", 443),
    ],
)
def test_an_endpoint_without_a_port_has_that_of_its_scheme(
    endpoint: str, host: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, int, bool]] = []
    heads: list[bytes] = []

    class Recording:
        def __init__(self, host: str, port: int, context: ssl.SSLContext | None, *_: float) -> None:
            asked.append((host, port, context is not None))

        def send(self, message: bytes) -> None:
            heads.append(message)
            raise OSError("enough")

    monkeypatch.setattr(lean, "Connection", Recording)
    tls_client(endpoint).call("Query", b"{}")
    assert asked == [("db.example", port, endpoint.startswith("https"))]
    assert f"\r\nHost: {host}\r\n".encode() in heads[0]


@pytest.mark.parametrize("stray", [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstale", b"x", b"\r\n"])
def test_what_comes_after_an_answer_is_never_taken_for_the_next(stray: bytes) -> None:
    with served((answer() + stray, False)) as (server, client):
        assert client.call("Query", b"one") == b"{}"
        assert client.call("Query", b"two") == b"two"
        assert client.call("Query", b"three") == b"three"
    assert server.connections == 2


class Moving:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.time = NOW

    def __call__(self) -> datetime:
        return self.time


@pytest.mark.parametrize(("seconds", "connections"), [(60, 1), (61, 2), (-1, 2), (-3600, 2)])
def test_a_connection_that_was_idle_for_more_than_a_minute_is_not_used_again(seconds: float, connections: int) -> None:
    clock = Moving()
    with served(clock=clock) as (server, client):
        client.call("Query", b"one")
        clock.time += timedelta(seconds=seconds)
        assert client.call("Query", b"two") == b"two"
    assert server.connections == connections


def test_after_a_freeze_no_connection_of_before_is_tried() -> None:
    clock = Moving()
    with served(clock=clock) as (server, client):
        client.call_all([ServiceRequest("Query", b"{}")] * lean.CONNECTIONS)
        before = server.connections
        clock.time += timedelta(hours=1)
        client.call("Query", b"{}")
        client.call("Query", b"{}")
    assert server.connections == before + 1


def test_connections_that_the_other_end_closed_are_found_before_anything_is_sent() -> None:
    """Otherwise each dead connection would cost a request without an answer."""
    with served(*[(answer(), True)] * lean.CONNECTIONS) as (_, client):
        client.call_all([ServiceRequest("Query", b"{}")] * lean.CONNECTIONS)
        idle = [connection for connection, _ in client._idle]
        assert len(idle) == lean.CONNECTIONS
        for connection in idle:  # Until each connection is closed.
            connection._socket.recv(1, socket.MSG_PEEK)
        assert client._take_connection() is None


def test_no_more_connections_are_kept_than_one_call_uses() -> None:
    """Two calls at once, from two threads, have more."""

    class Idle:
        reusable = True
        closed = False

        def close(self) -> None:
            self.closed = True

    connections: list[Any] = [Idle() for _ in range(9)]
    with served() as (_, client):
        for connection in connections:
            client._give_back(connection)
        assert [connection.closed for connection in connections] == [False] * 8 + [True]
        assert len(client._idle) == 8


def test_a_closed_connection_holds_no_socket() -> None:
    with served() as (_, client):
        client.call("Query", b"{}")
        ((connection, _),) = client._idle
        connection.close()
        assert connection._socket.fileno() == -1


# https://www.amazontrust.com/repository/: SHA-256 of each root's certificate.
FINGERPRINTS = {
    "8ecde6884f3d87b1125ba31ac3fcb13d7016de7f57cc904fe1cb97c6ae98196e",
    "1ba5b2aa8c65401a82960118f80bec4f62304d83cec4713a19c39c011ea46db4",
    "18ce6cfe7bf14e60b2e347b8dfe868cb31d02ebb3ada271569f50343b46db3a4",
    "e35d28419ed02025cfa69038cd623962458da5c695fbdea3c22b0bfb25897092",
    "568d6905a2c88708a4b3025190edcfedb1974a606a13c6e5290fcb2ae63edab5",
}


def test_the_roots_are_those_of_amazon_trust_services() -> None:
    end = "-----END CERTIFICATE-----\n"
    certificates = [certificate + end for certificate in ROOTS_FILE.read_text().split(end) if certificate]
    assert {sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest() for certificate in certificates} == FINGERPRINTS


def tls_client(endpoint: str) -> LeanClient:
    return LeanClient(endpoint, "us-east-1", Provider(KEYS, lambda: NOW, lambda *_: b"").get)


def roots_of(client: LeanClient) -> int:
    assert client._context is not None
    assert client._context.verify_mode is ssl.CERT_REQUIRED
    assert client._context.check_hostname
    return len(client._context.get_ca_certs())


def test_only_endpoints_of_aws_are_verified_with_amazons_roots_alone() -> None:
    assert roots_of(tls_client("https://dynamodb.us-east-1.amazonaws.com")) == len(FINGERPRINTS)
    system = len(ssl.create_default_context().get_ca_certs())
    for other in ("dynamodb.cn-north-1.amazonaws.com.cn", "example.org", "amazonaws.com.example.org"):
        assert roots_of(tls_client(f"https://{other}")) == system


def test_a_certificate_of_another_root_is_verified_with_what_the_system_trusts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a company's proxy the system has its root: the first connection is slower, and every connection is verified."""
    tried: list[int] = []

    def connection(host: str, port: int, context: ssl.SSLContext, *_: object) -> None:
        tried.append(len(context.get_ca_certs()))
        raise ssl.SSLCertVerificationError("self-signed certificate in certificate chain")

    monkeypatch.setattr(lean, "Connection", connection)
    client = tls_client("https://dynamodb.us-east-1.amazonaws.com")
    reply = client.call("Query", b"{}")
    assert isinstance(reply, NoAnswer)
    assert "self-signed" in reply.why
    system = len(ssl.create_default_context().get_ca_certs())
    assert tried == [len(FINGERPRINTS), system]
    roots_of(client)
    client.call("Query", b"{}")
    assert tried[2:] == [system, system], "Amazon's roots are tried once"
