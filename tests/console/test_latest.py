"""The latest events of series where no table can be searched."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console.browser import Browser
from tests.console.guarded import Guarded, guarded_console, text_of
from tests.console.pages import visit


@pytest.fixture(scope="module")
def console() -> Iterator[Guarded]:
    """A stream that is partitioned by series from its next table on."""
    with guarded_console() as console:
        console.add("everything", "write", "read", "operate")
        nothing = {"latest": [{"series": "s", "event": None}], "searched_back_to": None}
        console.answers["/v1/streams/sensors/latest"] = (200, nothing)
        yield console


def test_the_view_says_that_no_table_was_searched(chromium: Browser, console: Guarded) -> None:
    visit(chromium, console, "latest?stream=sensors&series=s", key=text_of("everything"))
    text = chromium.text(".result")
    assert "No table could be searched" in text
    assert "1970" not in text
