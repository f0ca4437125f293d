"""Connections that are lost where no server of a test can lose them at will: on the way out, and while they are idle."""

import socket
import ssl
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from aws.http import client as lean
from aws.http.client import LeanClient, NoAnswer, ServiceRequest
from aws.http.connection import Broken, Connection, HttpAnswer
from aws.http.credentials import Credentials, NoCredentials, Provider

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)


def fail(error: Exception) -> Callable[..., Any]:
    def raising(*_: Any) -> Any:
        raise error

    return raising


def opened(monkeypatch: pytest.MonkeyPatch, *connections: Any) -> LeanClient:
    """A client that gets these connections, one after the other; an exception stands for one that cannot be made."""
    left = list(connections)

    def connect(*_: Any) -> Any:
        given = left.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    monkeypatch.setattr(lean, "Connection", connect)
    return LeanClient("http://127.0.0.1:1", "us-east-1", Provider(KEYS, lambda: NOW, lambda *_: b"").get, lambda: NOW)


def test_a_new_connection_that_ends_while_a_request_is_sent_gave_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = SimpleNamespace(send=fail(Broken("reset by peer", unanswered=False)), close=lambda: None)
    assert opened(monkeypatch, lost).call("Query", b"{}") == NoAnswer("reset by peer")


def test_a_service_that_cannot_be_reached_gave_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened(monkeypatch, ConnectionRefusedError("refused")).call("Query", b"{}") == NoAnswer("refused")


def test_a_request_that_is_to_be_repeated_over_no_connection_gave_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection was closed unseen, and the service cannot be reached any more, or only for a moment."""
    unseen = SimpleNamespace(send=lambda _: None, receive=fail(Broken("closed", unanswered=True)), close=lambda: None)
    lost = SimpleNamespace(send=fail(Broken("reset by peer", unanswered=False)), close=lambda: None)
    assert opened(monkeypatch, unseen, ConnectionRefusedError("refused")).call("Query", b"{}") == NoAnswer("refused")
    assert opened(monkeypatch, unseen, lost).call("Query", b"{}") == NoAnswer("reset by peer")


def test_a_request_is_repeated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service may be going down: then each new connection is closed unseen, too."""
    unseen = SimpleNamespace(send=lambda _: None, receive=fail(Broken("closed", unanswered=True)), close=lambda: None)
    client = opened(monkeypatch, unseen, unseen, make_answering_connection())
    assert client.call("Query", b"{}") == NoAnswer("closed")


def test_a_request_that_is_to_be_repeated_without_credentials_gave_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The credentials may expire between the request and its repetition."""
    unseen = SimpleNamespace(send=lambda _: None, receive=fail(Broken("closed", unanswered=True)), close=lambda: None)
    client = opened(monkeypatch, unseen, make_answering_connection())
    given = [Credentials("test", "test")]

    def get() -> Credentials:
        if not given:
            raise NoCredentials("expired")
        return given.pop()

    client._credentials = get
    assert client.call("Query", b"{}") == NoAnswer("expired")


def test_a_failure_without_words_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = SimpleNamespace(send=lambda _: None, receive=fail(TimeoutError()), close=lambda: None)
    assert opened(monkeypatch, silent).call("Query", b"{}") == NoAnswer("TimeoutError")


@pytest.mark.parametrize(
    ("waiting", "received", "quiet"),
    [
        (b"", BlockingIOError(), True),
        (b"", ssl.SSLWantReadError(), True),
        (b"", ConnectionResetError(), False),
        # The socket of a connection that was closed.
        (b"", OSError("Bad file descriptor"), False),
        (b"", b"", False),
        (b"", b"x", False),
        (b"x", BlockingIOError(), False),
    ],
)
def test_an_idle_connection_is_used_again_only_if_nothing_came_and_it_is_open(
    waiting: bytes, received: Exception | bytes, quiet: bool
) -> None:
    connection: Any = object.__new__(Connection)
    seconds: list[float] = []
    receive = fail(received) if isinstance(received, Exception) else lambda _: received
    connection._seconds = 5.0
    connection._received, connection._at = b"answer" + waiting, len(b"answer")
    connection._socket = SimpleNamespace(settimeout=seconds.append, recv=receive)
    assert connection.quiet() is quiet
    assert seconds == ([] if waiting else [0, 5.0]), "the next answer is waited for as before"


class Line:
    """The socket of a connection: nothing waits in it, and every read that waits, or every write, fails."""

    def __init__(self, *, read: Exception, write: Exception | None = None) -> None:
        self.read, self.write = read, write
        self.sent = 0
        self.closed = False
        self.seconds = 5.0

    def sendall(self, _: bytes) -> None:
        self.sent += 1
        if self.write is not None:
            raise self.write

    def recv(self, _: int) -> bytes:
        raise self.read if self.seconds else BlockingIOError()

    def settimeout(self, seconds: float) -> None:
        self.seconds = seconds

    def close(self) -> None:
        self.closed = True


def make_kept_connection(line: Line) -> Any:
    """A connection that has answered before."""
    connection: Any = object.__new__(Connection)
    connection._socket, connection._received, connection._at = line, b"", 0
    connection._seconds, connection.used, connection.reusable = 5.0, True, True
    return connection


@pytest.mark.parametrize("used", [True, False])
def test_only_a_connection_that_answered_before_can_have_lost_a_request_unseen(used: bool) -> None:
    """The other end may close an idle connection at any moment. It does not close a new connection before its answer."""
    reset = ConnectionResetError("reset by peer")
    sending, receiving = (
        make_kept_connection(Line(read=reset, write=BrokenPipeError("broken pipe"))),
        make_kept_connection(Line(read=reset)),
    )
    sending.used = receiving.used = used
    with pytest.raises(Broken, match="broken pipe") as unsent:
        sending.send(b"x")
    receiving.send(b"x")
    with pytest.raises(Broken, match="reset by peer") as unanswered:
        receiving.receive()
    assert (unsent.value.unanswered, unanswered.value.unanswered) == (used, used)


def make_answering_connection() -> Any:
    return SimpleNamespace(send=lambda _: None, receive=lambda: HttpAnswer(200, {}, b"new"), reusable=True)


def test_a_request_whose_answer_is_late_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service may be at work on it, even if the connection was kept from an earlier request."""
    client, late = opened(monkeypatch, make_answering_connection()), Line(read=TimeoutError("timed out"))
    client._give_back(make_kept_connection(late))
    assert client.call("PutItem", b"{}") == NoAnswer("timed out")
    assert (late.sent, late.closed) == (1, True)


def test_a_request_that_a_kept_connection_lost_is_sent_over_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other end had given up the connection: it refuses what comes over it, while the request is sent or afterwards."""
    reset = ConnectionResetError("reset by peer")
    for lost in (Line(read=reset), Line(read=reset, write=BrokenPipeError("broken pipe"))):
        client = opened(monkeypatch, make_answering_connection())
        client._give_back(make_kept_connection(lost))
        assert client.call("PutItem", b"{}") == b"new"
        assert (lost.sent, lost.closed) == (1, True)


def test_an_idle_connection_that_ended_is_closed_and_nothing_is_sent_over_it(monkeypatch: pytest.MonkeyPatch) -> None:
    client, ended = opened(monkeypatch, make_answering_connection()), Line(read=TimeoutError())
    monkeypatch.setattr(ended, "recv", lambda _: b"")
    client._give_back(make_kept_connection(ended))
    assert client.call("Query", b"{}") == b"new"
    assert (ended.sent, ended.closed) == (0, True)


def test_the_connection_that_was_idle_for_the_shortest_time_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the likeliest to be open; the others are closed after a minute if so many are not needed any more."""
    client, earlier, later = opened(monkeypatch), Line(read=TimeoutError()), Line(read=TimeoutError())
    for line in (earlier, later):
        client._give_back(make_kept_connection(line))
    client.call("Query", b"{}")
    assert (earlier.sent, later.sent) == (0, 1)


def test_a_request_that_cannot_be_sent_keeps_no_other_from_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = [make_answering_connection(), ConnectionRefusedError("refused"), make_answering_connection()]
    client = opened(monkeypatch, *connections)
    requests = [ServiceRequest("Query", b"{}", str) for _ in range(3)]
    assert client.call_all(requests) == ["b'new'", NoAnswer("refused"), "b'new'"]


def test_a_connection_whose_answer_was_damaged_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    damaged = SimpleNamespace(
        send=lambda _: None,
        receive=lambda: HttpAnswer(200, {b"x-amz-crc32": b"1"}, b"{}"),
        reusable=True,
        close=lambda: closed.append(True),
    )
    client = opened(monkeypatch, damaged, make_answering_connection())
    assert client.call("Query", b"{}") == NoAnswer("the answer was damaged on its way")
    assert closed == [True]
    assert client.call("Query", b"{}") == b"new"


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def test_a_connection_sends_small_requests_at_once_and_notices_that_the_other_end_is_gone(
    listening: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nagle's algorithm would hold a request back for an acknowledgement; a peer that is gone does not answer probes."""
    connect, asked = socket.create_connection, list[float]()

    def connect_within(address: tuple[str, int], timeout: float) -> socket.socket:
        asked.append(timeout)
        return connect(address, timeout)

    monkeypatch.setattr(socket, "create_connection", connect_within)
    connection = Connection("127.0.0.1", listening.getsockname()[1], None, 40.0, 50.0)
    assert connection._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert connection._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert (asked, connection._socket.gettimeout()) == ([40.0], 50.0)
    connection.close()


def test_a_connection_whose_certificate_is_refused_is_closed(listening: socket.socket) -> None:
    """The certificate must be of the host that was asked for."""
    wrapped: list[tuple[socket.socket, str]] = []

    def refuse(raw: socket.socket, server_hostname: str) -> None:
        wrapped.append((raw, server_hostname))
        raise ssl.SSLCertVerificationError("unknown root")

    context: Any = SimpleNamespace(wrap_socket=refuse)
    with pytest.raises(ssl.SSLCertVerificationError):
        Connection("127.0.0.1", listening.getsockname()[1], context, 40.0, 50.0)
    ((raw, host),) = wrapped
    assert (raw.fileno(), host) == (-1, "127.0.0.1")
