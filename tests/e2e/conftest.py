"""The real stack, deployed once for all end-to-end tests."""

from collections.abc import Callable, Iterator
from time import monotonic, sleep
from typing import TypeVar

import pytest

from local import Deployed, Emulator, deploy
from local.emulator import clock_can_move
from local.http import Api
from tests.e2e.clock import OFFSET

_T = TypeVar("_T")


@pytest.fixture(scope="session")
def stage() -> Iterator[tuple[Emulator, Deployed]]:
    with Emulator(clock=clock_can_move()) as emulator:
        made = deploy(emulator)
        # The clock is moved only now, because the CDK's command line waits for the stack's events by this machine's time.
        if clock_can_move():
            emulator.move_clock(OFFSET)
        yield emulator, made


@pytest.fixture(scope="session")
def deployed(stage: tuple[Emulator, Deployed]) -> Deployed:
    return stage[1]


@pytest.fixture(scope="session")
def api(deployed: Deployed) -> Api:
    return Api(deployed)


def eventually(probe: Callable[[], _T], holds: Callable[[_T], bool], seconds: float = 180) -> _T:
    """Repeat a request until its answer meets the condition; a failure shows the last answer."""
    deadline = monotonic() + seconds
    while not holds(answer := probe()):
        assert monotonic() < deadline, f"not within {seconds} s; the last answer was {str(answer)[-3000:]}"
        sleep(0.3)
    return answer
