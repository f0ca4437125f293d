"""The strict service's answers over HTTP as they are sent, in front of an engine in memory; and its command."""

import json
import sys
import zlib
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from types import TracebackType
from typing import Any

import pytest

from strict import Fault, Kind, proxy
from strict.engines import LOCAL_UNKNOWN
from strict.proxy import Proxy
from tests.strict.console import Console, item


@pytest.fixture(scope="module")
def served() -> Iterator[Proxy]:
    console = Console()
    console.table()
    console.put()
    with Proxy(console.dynamo) as proxy:
        yield proxy


def ask(connection: HTTPConnection, operation: str, request: Any) -> tuple[HTTPResponse, bytes]:
    headers = {"X-Amz-Target": f"DynamoDB_20120810.{operation}"}
    connection.request("POST", "/", b"" if request is None else json.dumps(request).encode(), headers)
    answer = connection.getresponse()
    return answer, answer.read()


def connect(served: Proxy) -> HTTPConnection:
    return HTTPConnection(served.endpoint.removeprefix("http://"), timeout=20)


GET = {"TableName": "t", "Key": {"pk": {"S": "a"}, "sk": {"S": "1"}}, "ConsistentRead": True}


def test_answers_have_the_headers_of_the_service_and_keep_the_connection(served: Proxy) -> None:
    connection = connect(served)
    ids = set()
    for _ in range(2):
        answer, body = ask(connection, "GetItem", GET)
        assert (answer.status, json.loads(body)) == (200, {"Item": item()})
        assert answer.headers["Content-Type"] == "application/x-amz-json-1.0"
        assert answer.headers["Content-Length"] == str(len(body))
        assert answer.headers["x-amz-crc32"] == str(zlib.crc32(body))
        assert connection.sock is not None, "it is open"
        ids.add(answer.headers["x-amzn-RequestId"])
    assert [len(id) for id in ids] == [32, 32]
    connection.close()


def test_a_refusal_is_answered_with_its_status_and_its_code(served: Proxy) -> None:
    connection = connect(served)
    answer, body = ask(connection, "GetItem", {**GET, "TableName": "none"})
    kind = "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException"
    assert (answer.status, json.loads(body)["__type"]) == (400, kind)
    served.service.faults.add(Fault(Kind.SERVER_ERROR, times=1))
    answer, body = ask(connection, "GetItem", GET)
    assert (answer.status, json.loads(body)["__type"]) == (500, "com.amazon.coral.service#InternalServerError")
    assert ask(connection, "GetItem", GET)[0].status == 200
    connection.close()


def test_what_the_service_cannot_do_is_a_failure_and_not_a_silence(
    served: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request without a body is an empty one. The server's thread would print the error."""
    monkeypatch.setattr("strict.proxy._Server.handle_error", lambda *_: None)
    connection = connect(served)
    answer, body = ask(connection, "ListBackups", None)
    assert (answer.status, json.loads(body)) == (
        500,
        {"__type": "InternalFailure", "message": "the strict double failed: NotImplementedError: ListBackups"},
    )
    connection.close()


@pytest.mark.parametrize("kind", [Kind.RESET, Kind.GONE])
def test_a_lost_answer_resets_the_connection(served: Proxy, kind: Kind) -> None:
    served.service.faults.add(Fault(kind, times=1))
    with pytest.raises(ConnectionResetError):
        ask(connect(served), "GetItem", GET)


class Served:
    """A proxy that serves nothing, and ends at once; ``made`` has its engine and its port."""

    made: tuple[Any, ...] = ()

    def __init__(self, service: Any, port: int) -> None:
        self.endpoint = "http://here"
        Served.made = service.account.engine, port

    def __enter__(self) -> "Served":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End nothing."""


@pytest.mark.parametrize(
    ("words", "port", "unknown"),
    [([], 0, frozenset()), (["--port", "8001"], 8001, frozenset()), (["--local"], 0, LOCAL_UNKNOWN)],
)
def test_the_command_serves_an_engine_until_it_is_interrupted(
    words: list[str],
    port: int,
    unknown: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(proxy, "Proxy", Served)
    monkeypatch.setattr("strict.proxy.time.sleep", interrupt)
    monkeypatch.setattr(sys, "argv", ["proxy", "--engine", "http://engine", *words])
    proxy.main()
    engine, found = Served.made
    assert (engine._endpoint, engine._unknown, found) == ("http://engine", unknown, port)
    assert capsys.readouterr().out == "strict DynamoDB at http://here, in front of http://engine\n"
