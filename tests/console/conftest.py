"""A browser, and the console of the example weblogs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.api.gateway import serving
from tests.console.browser import Browser, running_browser
from tests.console.pages import Locked, listening
from tests.console.serve import served_console
from tests.worlds.examples import Example


@pytest.fixture(scope="module")
def console() -> Iterator[Locked]:
    """The console of the example weblogs at an address of this machine."""
    example = Example("weblogs")
    for gateway in serving(example.stage, example.config):
        with served_console(gateway) as served:
            application = Locked(served, example)
            with listening(application) as application.url:
                yield application


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """One browser for all tests of the folder."""
    with running_browser() as browser:
        yield browser
