"""A service that takes requests and never answers: how long the lean client waits, and what it still sends."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from aws.dynamodb.rollups import LeanRollups
from aws.http import client as lean
from aws.http import connection
from aws.http.client import LeanClient, NoAnswer, ServiceRequest
from aws.http.connection import Connection
from aws.http.credentials import Provider
from tests.lean.scripted_server import KEYS, NOW, answer
from tidetable.errors import StoreUnavailable
from tidetable.ports import NotePage

QUERY = ServiceRequest("Query", b"{}")
# The time of an answer counts from its request; at the last moment, it is waited for a tenth of a second.
ONE_TIME_OUT = 5 + 7 * 0.1


class Service:
    """Connections whose reads take the time that they may take. ``time`` is the time of the process.

    The first line of the ``answer`` comes at once, each other line after a pause of four seconds. Without an answer,
    nothing comes.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: bytes = b"") -> None:
        self.time, self.sent, self.answer, self.reachable = 100.0, 0, answer, 1_000
        monkeypatch.setattr(connection, "monotonic", lambda: self.time)
        monkeypatch.setattr(lean, "Connection", self._connect)
        self.client = LeanClient(
            "http://127.0.0.1:1", "us-east-1", Provider(KEYS, lambda: NOW, lambda *_: b"").get, lambda: NOW
        )

    def _connect(self, *_: Any) -> Any:
        if not self.reachable:
            raise ConnectionRefusedError("refused")
        self.reachable -= 1
        made: Any = object.__new__(Connection)
        made._socket, made._received, made._at = Line(self), b"", 0
        made._seconds, made.used, made.reusable = 5.0, False, True
        return made


class Line:
    """The socket of a connection, which receives a line at a time."""

    def __init__(self, service: Service) -> None:
        self._service, self._seconds, self._rest = service, 5.0, service.answer

    def sendall(self, _: bytes) -> None:
        self._service.sent += 1

    def settimeout(self, seconds: float) -> None:
        self._seconds = seconds

    def recv(self, _: int) -> bytes:
        pause = 60.0 if not self._rest else 0.0 if self._rest == self._service.answer else 4.0
        self._service.time += min(self._seconds, pause)
        if self._seconds < pause:
            raise TimeoutError("timed out")
        line, end, self._rest = self._rest.partition(b"\n")
        return line + end

    def close(self) -> None: ...


def test_eight_requests_to_a_silent_service_take_one_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(monkeypatch)
    assert service.client.call_all([QUERY] * 8) == [NoAnswer("timed out")] * 8
    assert service.time == pytest.approx(100 + ONE_TIME_OUT)


@pytest.mark.parametrize(("before", "end"), [(0.999, 105.999), (1.0, 105.0)])
def test_the_time_before_an_answers_turn_counts_from_one_second_on(
    monkeypatch: pytest.MonkeyPatch, before: float, end: float
) -> None:
    """A shorter time is not subtracted: two more system calls per answer would cost more than they save."""
    service = Service(monkeypatch)
    sent = service.client._send(QUERY)
    assert isinstance(sent, Connection)
    service.time += before
    assert service.client._receive(QUERY, sent) == NoAnswer("timed out")
    assert service.time == pytest.approx(end)


def test_a_caller_that_insists_has_all_its_requests_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(monkeypatch)
    assert service.client.call_all([QUERY] * 16) == [NoAnswer("timed out")] * 16
    assert service.sent == 16
    assert service.time == pytest.approx(100 + 2 * ONE_TIME_OUT)


def test_a_caller_that_does_not_insist_has_nothing_sent_after_a_request_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = Service(monkeypatch)
    replies = service.client.call_all([QUERY] * 100, insist=False)
    assert replies == [NoAnswer("timed out")] * 8 + [NoAnswer("not sent")] * 92
    assert service.sent == 8
    assert service.time == pytest.approx(100 + ONE_TIME_OUT)


def test_a_connection_that_cannot_be_made_is_no_answer_either(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(monkeypatch)
    service.reachable = 1
    replies = service.client.call_all([QUERY] * 4, insist=False)
    assert replies == [NoAnswer(why) for why in ("timed out", "refused", "not sent", "not sent")]
    service.reachable = 1
    replies = service.client.call_all([QUERY] * 4)
    assert replies == [NoAnswer(why) for why in ("timed out", "refused", "refused", "refused")]


def test_an_answer_that_has_begun_may_pause_as_long_as_an_answer_may_be_awaited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if the time of its beginning was almost up when it was read: the service is there."""
    service = Service(monkeypatch, answer(b"whole"))
    kept = service.client._send(QUERY)
    assert isinstance(kept, Connection)
    service.time += 60
    assert service.client._receive(QUERY, kept) == b"whole"
    assert service.time == 160 + 4 * 4


PUTS: dict[str, Callable[[LeanRollups], object]] = {
    "marks": lambda rollups: rollups.put_marks(
        "s", [NOW + timedelta(hours=number) for number in range(1_000)], 7, timedelta(hours=1)
    ),
    "notes": lambda rollups: rollups.put_notes(
        "s", "2026-03-15", [NotePage(number % 64, number, [f"device-{number}"]) for number in range(1_000)], 7
    ),
    "chains": lambda rollups: list(rollups.read_chains("s", "2026-03-15", dict.fromkeys(range(64), 0))),
}


@pytest.mark.parametrize("name", list(PUTS))
def test_marks_and_notes_end_after_one_time_out_however_many_there_are(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller waits for them, and API Gateway gives the caller up after 29 s."""
    service = Service(monkeypatch)
    with pytest.raises(StoreUnavailable, match="timed out"):
        PUTS[name](LeanRollups(service.client, "rollups"))
    assert service.sent == 8
    assert service.time == pytest.approx(100 + ONE_TIME_OUT)
