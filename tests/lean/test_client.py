"""The lean client against a server that misbehaves by script: its answers, repetitions and failures."""

import json
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from importlib.resources import files
from typing import Any

import msgspec
import pytest

from aws.lean import client as lean
from aws.lean import connection
from aws.lean.client import LeanClient, NoAnswer, Refused, Request
from aws.lean.credentials import Provider
from aws.lean.roots import AMAZON_ROOTS

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)
# The server's reaction to a request: the bytes that it sends, and whether it then closes the connection.
Step = tuple[bytes, bool]


# The function answers within 30 s, so a connection or an answer is not waited for much longer than the service takes.
PATIENCE = lean.CONNECT_SECONDS, lean.READ_SECONDS


def test_a_connection_and_an_answer_are_waited_for_some_seconds() -> None:
    assert PATIENCE == (2.0, 5.0)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is in this process, on a machine that may be busy."""
    monkeypatch.setattr(lean, "CONNECT_SECONDS", 60.0)
    monkeypatch.setattr(lean, "READ_SECONDS", 60.0)


def answer(body: bytes = b"{}", status: int = 200, *headers: str, crc: int | None = None) -> bytes:
    checksum = f"x-amz-crc32: {zlib.crc32(body) if crc is None else crc}"
    lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", checksum, *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def refusal(code: str, *headers: str, status: int = 400) -> bytes:
    return answer(f'{{"__type":"com.amazonaws#{code}","message":"why"}}'.encode(), status, *headers)


class Server:
    """Answers requests in the order in which they come; ``seen`` has their bodies, ``dates`` the dates of their
    signatures.
    """

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self.seen: list[bytes] = []
        self.heads: list[str] = []
        self.connections = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as file:
            while head := self._head(file):
                length = next(int(line.split(":")[1]) for line in head if line.lower().startswith("content-length"))
                body = file.read(length)
                with self._lock:
                    self.seen.append(body)
                    self.heads.append("\n".join(head))
                    sent, close = self.steps.pop(0) if self.steps else (answer(body), False)
                connection.sendall(sent)
                if close:
                    return

    @staticmethod
    def _head(file: Any) -> list[str]:
        lines = []
        while (line := file.readline()) not in (b"\r\n", b""):
            lines.append(line.decode().strip())
        return lines

    def close(self) -> None:
        self._listener.close()


@contextmanager
def served(*steps: Step, clock: Callable[[], datetime] = lambda: NOW) -> Iterator[tuple[Server, LeanClient]]:
    server = Server(list(steps))
    try:
        yield server, LeanClient(server.endpoint, "us-east-1", Provider(KEYS, clock, lambda *_: b""), clock)
    finally:
        server.close()


def test_answers_come_in_the_order_of_the_requests_over_few_connections() -> None:
    with served() as (server, client):
        for _ in range(3):
            requests = [Request("Query", str(number).encode()) for number in range(50)]
            assert client.call_all(requests) == [request.body for request in requests]
    assert server.connections <= lean.CONNECTIONS


def test_all_are_sent_before_the_first_answer_is_read() -> None:
    """Otherwise this test would wait for ever: the server answers only after eight requests."""
    gate = threading.Barrier(lean.CONNECTIONS, timeout=60)
    with served() as (server, client):
        whole = server._head

        def waiting(file: Any) -> list[str]:
            head = whole(file)
            if head:
                gate.wait()
            return head

        server._head = waiting  # type: ignore[method-assign]
        assert len(client.call_all([Request("Query", b"{}")] * lean.CONNECTIONS)) == lean.CONNECTIONS


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n"


def test_a_chunked_answer_is_put_together_and_the_connection_kept() -> None:
    with served((CHUNKED, False)) as (server, client):
        assert client.call("Query", b"{}") == b"abcde"
        assert client.call("Query", b"next") == b"next"
    assert server.connections == 1


def test_the_length_of_a_chunk_is_hexadecimal() -> None:
    text = b"abcdefghijklmnopqrstuvwxyz"
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1A\r\n%s\r\n10\r\n%s\r\n0\r\n\r\n" % (
        text,
        text[:16],
    )
    with served((chunks, False)) as (_, client):
        assert client.call("Query", b"{}") == text + text[:16]


def test_a_connection_that_was_closed_while_it_was_idle_is_replaced_and_the_request_sent_again() -> None:
    with served((answer(), True)) as (server, client):
        assert client.call("Query", b"one") == b"{}"
        assert client.call("Query", b"two") == b"two"
    assert server.seen[-1] == b"two"


def test_connection_close_is_obeyed() -> None:
    with served((answer(b"{}", 200, "Connection: close"), False)) as (server, client):
        client.call("Query", b"one")
        client.call("Query", b"two")
    assert server.connections == 2


BROKEN = [
    ("closed at once", b"", "closed without an answer"),
    ("half a status line", b"HTTP/1.1 20", ""),
    ("half a header", b"HTTP/1.1 200 OK\r\nContent-Le", "ended early"),
    ("half a body", answer(b"0123456789")[:-3], "ended early"),
    ("half a chunk", CHUNKED[:-30], ""),
    ("no HTTP", b"SSH-2.0\r\n\r\n", ""),
    ("a damaged body", answer(b"{}", crc=1), "damaged"),
    ("a checksum that is no number", answer(b"{}").replace(b"crc32: ", b"crc32: abc"), "damaged"),
    ("an absurd length", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "too long"),
]


@pytest.mark.parametrize(("sent", "why"), [(sent, why) for _, sent, why in BROKEN], ids=[name for name, *_ in BROKEN])
def test_what_is_no_whole_answer_is_none_and_the_next_request_is_not_hurt(sent: bytes, why: str) -> None:
    with served((sent, True)) as (server, client):
        reply = client.call("Query", b"one")
        assert isinstance(reply, NoAnswer)
        assert why in reply.why
        assert client.call("Query", b"two") == b"two"
    assert server.seen.count(b"one") == 1, "it may have been done: to send it again is the caller's decision"


def test_an_answer_that_does_not_come_in_time_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean, "READ_SECONDS", 0.2)
    with served((b"", False)) as (_, client):
        reply = client.call("Query", b"one")
        assert isinstance(reply, NoAnswer)
        assert "timed out" in reply.why


def test_nobody_there_is_no_answer() -> None:
    with served() as (server, client):
        server.close()
        server._listener.close()
        client._port = 1
        assert isinstance(client.call("Query", b"{}"), NoAnswer)


def test_no_credentials_are_no_answer() -> None:
    with served() as (server, _):
        client = LeanClient(server.endpoint, "us-east-1", Provider({}, lambda: NOW, lambda *_: b""))
        reply = client.call("Query", b"{}")
    assert isinstance(reply, NoAnswer)
    assert "AWS_ACCESS_KEY_ID" in reply.why


def test_a_refusal_is_told_by_code_message_and_body() -> None:
    with served((refusal("ValidationException"), False), (b"HTTP/1.1 502 x\r\nContent-Length: 2\r\n\r\n<>", False)) as (
        _,
        client,
    ):
        reply = client.call("Query", b"{}")
        assert isinstance(reply, Refused)
        assert (reply.code, reply.message) == ("ValidationException", "why")
        bad = client.call("Query", b"{}")
        assert isinstance(bad, Refused)
        assert bad.code == "HTTP 502"


@pytest.mark.parametrize("hours", [-3, 5, 301 / 3_600, -301 / 3_600])
def test_a_clock_that_is_wrong_is_set_by_the_services_and_the_request_sent_again(hours: float) -> None:
    """DynamoDB refuses a signature that is more than five minutes old, or ahead."""
    wrong = NOW + timedelta(hours=hours)
    now = f"Date: {NOW:%a, %d %b %Y %H:%M:%S} GMT"
    with served((refusal("InvalidSignatureException", now), False), clock=lambda: wrong) as (server, client):
        assert client.call("Query", b"one") == b"one"
        assert client.call("Query", b"two") == b"two"
    lines = [line for head in server.heads for line in head.splitlines() if line.startswith("X-Amz-Date")]
    stamps = [datetime.strptime(line, "X-Amz-Date: %Y%m%dT%H%M%SZ").replace(tzinfo=UTC) for line in lines]
    far = [abs(stamp - NOW) > timedelta(minutes=5) for stamp in stamps]
    assert far == [True, False, False], "it stays set"


def test_a_clock_that_is_right_again_is_set_back() -> None:
    """A frozen function's clock is hours late for a moment; what was added for that must go when it is right."""
    clock = [NOW - timedelta(hours=3)]
    now = f"Date: {NOW:%a, %d %b %Y %H:%M:%S} GMT"
    refused = (refusal("InvalidSignatureException", now), False)
    with served(refused, (answer(b"1"), False), refused, clock=lambda: clock[0]) as (_, client):
        assert client.call("Query", b"one") == b"1"
        clock[0] = NOW
        assert client.call("Query", b"two") == b"two"


def test_a_signature_that_is_wrong_for_another_reason_is_refused_once() -> None:
    now = f"Date: {NOW:%a, %d %b %Y %H:%M:%S} GMT"
    with served((refusal("InvalidSignatureException", now), False)) as (server, client):
        assert isinstance(client.call("Query", b"one"), Refused)
    assert len(server.seen) == 1


def test_a_request_is_sent_over_another_connection_once() -> None:
    """The server closes every connection that it has answered over before."""
    with served((answer(), False), (b"", True), (b"", True)) as (server, client):
        assert client.call("Query", b"one") == b"{}"
        assert isinstance(client.call("Query", b"two"), NoAnswer)
    assert server.seen == [b"one", b"two", b"two"]


def test_a_clock_that_stays_wrong_is_a_refusal() -> None:
    """The service may name another time with each refusal: the request is sent twice, and not for ever."""
    hours = [f"Date: {NOW + timedelta(hours=hour):%a, %d %b %Y %H:%M:%S} GMT" for hour in (1, 5, 9)]
    steps = [(refusal("RequestTimeTooSkewed", hour), False) for hour in hours]
    with served(*steps) as (server, client):
        assert isinstance(client.call("Query", b"one"), Refused)
    assert server.seen == [b"one", b"one"]


def test_the_beginning_of_an_answer_shows_that_the_request_was_seen() -> None:
    """It may be done: whoever repeats a write must decide that."""
    with served((answer(), False), (b"HTTP/1.1 200 OK\r\nContent-Le", True)) as (server, client):
        assert client.call("PutItem", b"one") == b"{}"
        assert isinstance(client.call("PutItem", b"two"), NoAnswer)
    assert server.seen == [b"one", b"two"]


def test_a_message_may_have_a_capital_and_a_page_of_a_proxy_is_cut() -> None:
    capital = answer(b'{"__type":"x#AccessDeniedException","Message":"not you"}', 400)
    with served((capital, False), (answer(b"<" + b"h" * 5_000, 503), False)) as (_, client):
        denied, page = client.call("Query", b"{}"), client.call("Query", b"{}")
    assert isinstance(denied, Refused)
    assert (denied.code, denied.message) == ("AccessDeniedException", "not you")
    assert isinstance(page, Refused)
    assert (page.code, len(page.message)) == ("HTTP 503", 200)


def test_an_http_1_0_server_closes_each_connection() -> None:
    """It may do so a moment after its answer: a request that is sent in that moment is lost."""
    old = answer().replace(b"HTTP/1.1", b"HTTP/1.0")
    with served((old, False), (old, False)) as (server, client):
        assert [client.call("Query", b"one"), client.call("Query", b"two")] == [b"{}", b"{}"]
    assert server.connections == 2


def test_an_answer_has_at_most_64_million_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """BatchGetItem answers 16 MB of items, which take up to four times as much as JSON; in chunks, too."""
    assert connection._LONGEST_BODY == 64_000_000
    monkeypatch.setattr(connection, "_LONGEST_BODY", 4)
    with served((CHUNKED, False), (answer(b"12345"), False), (answer(b"1234"), False)) as (_, client):
        chunked, long, fitting = (client.call("Query", b"{}") for _ in range(3))
    assert [isinstance(reply, NoAnswer) and reply.why for reply in (chunked, long)] == ["the answer is too long"] * 2
    assert fitting == b"1234"


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


def test_an_answer_whose_body_cannot_be_read_is_none_and_the_others_are_kept() -> None:
    decode = msgspec.json.Decoder(dict[str, int]).decode
    with served((answer(b'{"n":1'), False), (answer(b'{"n":"x"}'), False), (answer(b'{"n":3}'), False)) as (_, client):
        replies = [client.call_all([Request("Query", b"{}", decode)])[0] for _ in range(3)]
    assert [isinstance(reply, NoAnswer) for reply in replies] == [True, True, False]
    assert replies[2] == {"n": 3}
    assert "cannot be read" in replies[0].why


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


@pytest.mark.parametrize(("seconds", "connections"), [(59, 1), (61, 2), (-3600, 2)])
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
        client.call_all([Request("Query", b"{}")] * lean.CONNECTIONS)
        before = server.connections
        clock.time += timedelta(hours=1)
        client.call("Query", b"{}")
        client.call("Query", b"{}")
    assert server.connections == before + 1


def test_connections_that_the_other_end_closed_are_found_before_anything_is_sent() -> None:
    """Otherwise each dead connection would cost a request without an answer."""
    with served(*[(answer(), True)] * lean.CONNECTIONS) as (_, client):
        client.call_all([Request("Query", b"{}")] * lean.CONNECTIONS)
        idle = [connection for connection, _ in client._idle]
        assert len(idle) == lean.CONNECTIONS
        for connection in idle:  # Until each connection is closed.
            connection._socket.recv(1, socket.MSG_PEEK)
        assert client._take() is None


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


def partitions() -> list[tuple[str, str]]:
    """Every Region of botocore's own list, with its partition's domain."""
    listed = json.loads(files("botocore").joinpath("data/partitions.json").read_text())["partitions"]
    return [
        (region, partition["outputs"]["dnsSuffix"])
        for partition in listed
        for region in partition["regions"]
        if not region.endswith("-global")
    ]


def test_an_endpoint_is_in_the_domain_of_its_regions_partition() -> None:
    regions = partitions()
    assert len(regions) > 30
    assert {region: lean.domain_of(region) for region, _ in regions} == dict(regions)
    assert lean.domain_of("eusc-de-east-1") == "amazonaws.eu"
    assert lean.domain_of("eu-west-1") == "amazonaws.com"


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
    certificates = [certificate + end for certificate in AMAZON_ROOTS.split(end) if certificate]
    assert {sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest() for certificate in certificates} == FINGERPRINTS


def tls_client(endpoint: str) -> LeanClient:
    return LeanClient(endpoint, "us-east-1", Provider(KEYS, lambda: NOW, lambda *_: b""))


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

    def connection(host: str, port: int, context: ssl.SSLContext, *_: float) -> None:
        tried.append(len(context.get_ca_certs()))
        raise ssl.SSLCertVerificationError("self-signed certificate in certificate chain")

    monkeypatch.setattr(lean, "Connection", connection)
    client = tls_client("https://dynamodb.us-east-1.amazonaws.com")
    reply = client.call("Query", b"{}")
    assert isinstance(reply, NoAnswer)
    assert "self-signed" in reply.why
    assert tried == [len(FINGERPRINTS), len(ssl.create_default_context().get_ca_certs())]
    roots_of(client)
