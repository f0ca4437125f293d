"""The control plane's client: requests that are refused for their rate are repeated, as long as a function can wait."""

import gc
import json
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError

from aws import clients
from aws.dynamodb.tables import DynamoTables
from tidetable.config import TableClass
from tidetable.errors import TableRefused
from tidetable.ports import TableSpec

SPEC = TableSpec("tidetable-t.s.2026-03-15", None, None, TableClass.STANDARD, {"project": "tidetable"})
TOO_MANY = {
    "__type": "com.amazon.coral.availability#ThrottlingException",
    "message": "The rate of control plane requests made by this account is too high",
}


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """The pauses between attempts; the tests do not wait."""
    taken: list[float] = []
    for name, value in (
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("botocore.endpoint.time.sleep", taken.append)
    clients.find_control_plane_client.cache_clear()
    yield taken
    clients.find_control_plane_client.cache_clear()


class _Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self._body


def answering(refusals: int) -> DynamoTables:
    """The adapter on a service that refuses a number of CreateTable calls before it accepts one."""
    client, left = clients.find_control_plane_client(), [refusals]

    def answer(request: Any, **_: Any) -> Any:
        refused = left[0] > 0
        left[0] -= 1
        document: dict[str, Any] = TOO_MANY if refused else {"TableDescription": {}}
        if request.headers["X-Amz-Target"].endswith(b"DescribeTable"):
            refused, document = True, {"__type": "x#ResourceNotFoundException", "message": ""}
        body = json.dumps(document).encode()
        headers: Any = {}
        return AWSResponse(request.url, 400 if refused else 200, headers, _Raw(body))

    client.meta.events.register("before-send.dynamodb", answer)
    return DynamoTables(client)


def test_a_creation_is_tried_eight_times_with_pauses_that_differ(pauses: list[float]) -> None:
    assert answering(7).create(SPEC)
    assert len(pauses) == 7
    assert len(set(pauses)) == 7, "jitter"
    assert all(pause <= 2**number for number, pause in enumerate(pauses))


def test_what_is_still_refused_then_may_be_had_by_fewer_at_once(pauses: list[float]) -> None:
    with pytest.raises(TableRefused) as refused:
        answering(99).create(SPEC)
    assert (refused.value.transient, refused.value.crowded) == (True, True)
    assert len(pauses) >= 7


def test_a_warm_process_keeps_few_clients_for_other_functions(pauses: list[float]) -> None:
    """Each run of a function waits for as long as it still may: nearly each of its calls has another limit."""
    made = [weakref.ref(clients.find_functions_client(seconds)) for seconds in range(10, 18)]
    gc.collect()
    assert sum(client() is not None for client in made) <= 2
    assert clients.find_functions_client(17) is made[-1]()


def test_threads_that_need_a_client_at_once_share_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two archived periods are read by two threads. The first client is finished when all threads have asked for it."""
    asked, made = Semaphore(0), list[object]()

    def make(*_: object, **__: object) -> object:
        made.append(object())
        if len(made) == 1:
            for _number in range(8):
                asked.acquire()
        return made[-1]

    def ask(_: int) -> object:
        asked.release()
        return clients.find_functions_client(25)

    clients.find_functions_client.cache_clear()
    monkeypatch.setattr("boto3.client", make)
    with ThreadPoolExecutor(8) as pool:
        shared = list(pool.map(ask, range(8)))
    clients.find_functions_client.cache_clear()
    assert made == [shared[0]]
    assert all(client is shared[0] for client in shared)


def test_a_call_of_another_function_is_not_repeated(pauses: list[float]) -> None:
    """A repeated call would start the same export, or the same read of an archive, a second time."""
    clients.find_functions_client.cache_clear()
    headers: Any = {}
    sent: list[str] = []

    def answer(request: Any, **_: Any) -> AWSResponse:
        sent.append(request.url)
        return AWSResponse(request.url, 503, headers, _Raw(b"{}"))

    client: Any = clients.find_functions_client(7)
    client.meta.events.register("before-send.lambda.Invoke", answer)
    with pytest.raises(ClientError):
        client.invoke(FunctionName="f", Payload=b"{}")
    clients.find_functions_client.cache_clear()
    assert len(sent) == 1
    assert pauses == []
