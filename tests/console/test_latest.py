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
        yield console


def test_a_search_that_stopped_says_so_and_goes_on_at_a_press(chromium: Browser, console: Guarded) -> None:
    event = {"series": "s", "time": "2026-03-02T05:00:00.000000Z", "id": "e", "ref": "r", "data": {"n": 41}}
    console.answers["/v1/streams/sensors/latest"] = (
        200,
        {
            "latest": [{"series": "s", "event": None, "stopped": True}],
            "searched_back_to": "2026-03-04T00:00:00.000000Z",
        },
    )
    visit(chromium, console, "latest?stream=sensors&series=s", key=text_of("everything"))
    text = chromium.text(".result")
    assert "no event yet: older tables were not searched" in text
    assert "Search older tables" in text
    console.answers["/v1/streams/sensors/latest"] = (
        200,
        {"latest": [{"series": "s", "event": event}], "searched_back_to": "2026-03-02T00:00:00.000000Z"},
    )
    chromium("click", selector=".result > button")
    chromium.wait("document.querySelector('.result')?.innerText.includes('41')")
    assert "Search older tables" not in chromium.text(".result")


def test_the_view_says_that_no_table_was_searched(chromium: Browser, console: Guarded) -> None:
    nothing = {"latest": [{"series": "s", "event": None}], "searched_back_to": None}
    console.answers["/v1/streams/sensors/latest"] = (200, nothing)
    visit(chromium, console, "latest?stream=sensors&series=s", key=text_of("everything"))
    text = chromium.text(".result")
    assert "No table could be searched" in text
    assert "1970" not in text
