"""The doubles, for every test of the client."""

import pytest

from doubles import ManualClock, Server


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server() -> Server:
    return Server()
