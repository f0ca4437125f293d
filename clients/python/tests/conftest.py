"""The doubles, for every test of the client."""

import threading
from collections.abc import Iterator

import pytest

from doubles import ManualClock, Server
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
