"""The doubles, for every test of the client."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from doubles import ManualClock, Server
from halves import HALVES, BlockingClient, Connect, make_client
from sockets import Api


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def api() -> Iterator[Api]:
    with Api() as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture(params=HALVES)
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    """A function that makes a client of either half."""
    clients: list[Any] = []

    def make(server: Server, clock: ManualClock, **options: Any) -> Any:
        clients.append(make_client(request.param, **{"transport": server.transport, "clock": clock} | options))
        return clients[-1]

    yield make
    for client in clients:
        if isinstance(client, BlockingClient):
            client.end()
