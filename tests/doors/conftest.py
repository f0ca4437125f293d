"""What the doors' tests share."""

import pytest

from tests.worlds.doors import Doors, config
from tests.worlds.functions import environment

__all__ = ["environment"]


@pytest.fixture
def doors() -> Doors:
    """The doors' function before a stream whose window is two days."""
    return Doors(config())
