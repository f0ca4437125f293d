"""Numbers beyond 2^53, wide numbers beside a chart, a button that is pressed twice, and a drag that leaves a dialog."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console.browser import Browser
from tests.console.guarded import Guarded, guarded_console, text_of
from tests.console.pages import visit


@pytest.fixture(scope="module")
def console() -> Iterator[Guarded]:
    with guarded_console() as console:
        console.add("everything", "write", "read", "operate")
        console.send("doors", series="front", id="a", data={"width": 9_007_199_254_740_993})
        console.send("sensors", series="front", id="a", data={"bytes": 45_000_000_000})
        yield console


def test_a_ranking_shows_all_digits_of_a_large_number(chromium: Browser, console: Guarded) -> None:
    visit(chromium, console, "rankings?stream=doors", key=text_of("everything"))
    assert chromium.text(".result .problem") == ""
    assert chromium.text(".meter") == "9,007,199,254,740,993"


def test_the_numbers_beside_a_chart_have_the_room_that_they_need(chromium: Browser, console: Guarded) -> None:
    visit(
        chromium, console, "explore?stream=sensors&series=front&stat=max&field=bytes&step=1h", key=text_of("everything")
    )
    canvas = "document.querySelector('.chart canvas').getContext('2d')"
    needed = chromium.evaluate(
        f"(() => {{ {canvas}.font = '12px system-ui'; return {canvas}.measureText('48,000,000,000').width; }})()"
    )
    room = chromium.evaluate("document.querySelector('.u-over').offsetLeft")
    assert room >= needed


def test_a_second_click_does_not_read_the_same_periods_again(chromium: Browser, console: Guarded) -> None:
    path = "/v1/streams/doors/periods"
    period = {"state": "archived", "start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00Z"}
    console.answers[path] = (200, {"periods": [{**period, "period": "2026-01-02"}], "next": "more"})
    try:
        visit(chromium, console, "tide?show=table", key=text_of("everything"))
        console.answers[path] = (200, {"periods": [{**period, "period": "2026-01-01"}], "next": None})
        lane = "document.querySelector('.lane[aria-label=doors]')"
        button = f"{lane}.querySelector('.lanecontent > button')"
        chromium.evaluate(f"(() => {{ const button = {button}; button.click(); button.click(); }})()")
        chromium("settle")
        rows = chromium.evaluate(f"[...{lane}.querySelectorAll('tbody tr')].map((row) => row.cells[0].innerText)")
        assert rows == ["2026-01-02", "2026-01-01"]
    finally:
        console.answers = {}


def test_text_is_chosen_beyond_the_edge_of_a_dialog(chromium: Browser, console: Guarded) -> None:
    visit(chromium, console, "explore?stream=sensors&series=front&ask=events&show=table", key=text_of("everything"))
    chromium("click", selector="tbody tr")
    chromium.wait("document.querySelector('dialog .whole')")
    chromium("drag", selector="dialog pre", **{"from": 0.1, "to": 1.3})
    assert chromium.evaluate("document.querySelector('dialog').open")
    # Beside the dialog.
    chromium("drag", selector="dialog", **{"from": -0.1, "to": -0.1})
    chromium.wait("!document.querySelector('dialog')")
