"""Connections that are lost where no server of a test can lose them at will: on the way out, and while they are idle."""

import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from aws.lean import client as lean
from aws.lean.client import LeanClient, NoAnswer
from aws.lean.connection import Broken, Connection
from aws.lean.credentials import Provider

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
    return LeanClient("http://127.0.0.1:1", "us-east-1", Provider(KEYS, lambda: NOW, lambda *_: b""), lambda: NOW)


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


def test_a_failure_without_words_has_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = SimpleNamespace(send=lambda _: None, receive=fail(TimeoutError()), close=lambda: None)
    assert opened(monkeypatch, silent).call("Query", b"{}") == NoAnswer("TimeoutError")


@pytest.mark.parametrize(
    ("waiting", "received", "quiet"),
    [
        (b"", BlockingIOError(), True),
        (b"", ssl.SSLWantReadError(), True),
        (b"", ConnectionResetError(), False),
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
    connection._file = SimpleNamespace(peek=lambda _: waiting)
    connection._socket = SimpleNamespace(settimeout=seconds.append, recv=receive)
    assert connection.quiet() is quiet
    assert seconds == [0, 5.0], "the next answer is waited for as before"
