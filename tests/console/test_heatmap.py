"""A heat map of many groups over many steps."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.console.browser import Browser
from tests.console.guarded import Guarded, guarded_console, text_of
from tests.console.pages import visit
from tests.worlds.examples import NOW

GROUPS, DAYS = 50, 3


@pytest.fixture(scope="module")
def console() -> Iterator[Guarded]:
    """A stream whose groups have an event three days ago and one of now, so each has thousands of steps without any."""
    starts = [(NOW - timedelta(days=DAYS)).isoformat(), NOW.isoformat()]
    rows = [
        {"start": start, "group": {"value": f"group {number}"}, "count": 1}
        for start in starts
        for number in range(GROUPS)
    ]
    with guarded_console() as console:
        console.add("everything", "write", "read", "operate")
        console.answers["/v1/streams/doors/aggregate"] = (200, {"aggregates": rows, "next": None, "gaps": []})
        yield console


def test_fifty_groups_of_three_days_by_the_minute_are_drawn(chromium: Browser, console: Guarded) -> None:
    view = f"explore?stream=doors&from=-{DAYS}d&by=value&top=50&step=1m&form=heat"
    visit(chromium, console, view, key=text_of("everything"))
    assert chromium.evaluate("document.querySelectorAll('.chart.heat canvas').length") == 1
    assert chromium.evaluate("document.querySelectorAll('.problem').length") == 0
