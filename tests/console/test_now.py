"""The first view: how fast events come, how old the newest is, what lags; loading, silence, errors and stale figures."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.console.browser import Browser
from tests.console.pages import Locked, enter_key, find_axe_problems, of_key, visit
from tests.worlds.examples import NOW
from tidetable.activity import Counted
from tidetable.work.claim import WorkItem

READ = "document.querySelector('main .status').innerText.startsWith('As of')"


@pytest.fixture
def events(console: Locked) -> Iterator[Locked]:
    """The console of a stage with the metrics of ten events per second."""
    stage = console.example.stage
    minute = NOW.replace(second=0, microsecond=0) - timedelta(minutes=4)
    stage.gauges.counted = Counted(
        {f"tidetable-lapse.access.{NOW:%Y-%m-%d}": {minute: 600.0}}, {minute: 3000.0}, {}, {}, {}, {}
    )
    failing = stage.work.claim("seal", "access", "a worker", NOW, NOW + timedelta(minutes=5))
    assert failing is not None
    stage.work.release(failing, "", problem="no answer <b>yet</b>")
    stage.work.mark_sent(WorkItem("sweep", "objects"), NOW - timedelta(minutes=5), NOW)
    yield console
    console.down = False
    console.open.set()


def test_the_page_begins_with_the_present(chromium: Browser, events: Locked) -> None:
    enter_key(chromium, events, "")
    chromium.wait(READ)
    assert chromium.text("h1") == "Now"
    pulse = chromium.text("[data-stream=access]")
    # 600 units in one of five minutes; and the newest event has its age.
    assert "Write units\n2 per second" in pulse
    assert (
        chromium.evaluate("document.querySelector('[data-stream=access] time').dateTime") == "2026-03-31T09:59:25.000Z"
    )
    assert "Events\n1 per minute\nNewest event" in pulse
    assert "All events\n10 per second" in chromium.text(".facts-row")
    assert "none rings" in chromium.text(".facts-row")
    assert chromium.evaluate("document.querySelectorAll('[data-stream=access] .spark rect').length") == 30
    cells = chromium.evaluate(
        "[...document.querySelectorAll('.work tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))"
    )
    # The request waits two seconds until it sees earlier writes.
    assert cells == [
        ["seal", "access", "1", "0", "1", "", "no answer <b>yet</b> What to do", "bin/tidetable rollup access"],
        ["sweep", "the whole stage", "1", "0", "0", "5 min", "", ""],
    ]
    assert chromium.evaluate("document.querySelector('.work td a').hash") == "#runbook?section=rollupsfailing"
    assert find_axe_problems(chromium) == {}
    assert of_key(chromium.errors) == []
    chromium("click", selector="[data-stream=access] .pulse-links a:nth-of-type(2)")
    chromium.wait("!document.querySelector('.work') && document.querySelector('tbody tr')")
    assert "09:59:25" in chromium.text("tbody tr")


def test_readings_do_not_pile_up(chromium: Browser, events: Locked) -> None:
    visit(chromium, events, "now")
    chromium.wait(READ)
    before = len(chromium("log")["requests"])
    events.open.clear()
    for _ in range(5):
        chromium.evaluate("document.querySelector('[name=again]').click()")
    waiting = len(chromium("log")["requests"]) - before
    events.open.set()
    chromium("settle")
    assert 1 <= waiting <= 3, "activity, alarms and the events of a stream, once"
    assert len(chromium("log")["requests"]) - before == 3


def test_old_figures_stay_and_are_called_stale(chromium: Browser, events: Locked) -> None:
    visit(chromium, events, "now")
    chromium.wait(READ)
    events.down = True
    chromium("click", selector="[name=again]")
    chromium.wait("document.querySelector('main').classList.contains('stale')")
    assert chromium.text(".status").startswith("Stale: as of ")
    assert "503 unavailable" in chromium.text("[data-stream=access]")
    assert "Write units\n2 per second" in chromium.text("[data-stream=access]"), "the former figures"
    events.down = False
    chromium("click", selector="[name=again]")
    chromium.wait(READ)
    assert "503" not in chromium.text("main")
    assert chromium.evaluate("document.querySelector('main').classList.contains('stale')") is False


def test_a_view_that_is_left_reads_nothing_more(chromium: Browser, events: Locked) -> None:
    visit(chromium, events, "now")
    chromium.wait(READ)
    chromium.evaluate("location.hash = '#send'")
    chromium.wait("document.querySelector('.send')")
    assert chromium.evaluate("document.querySelector('main').classList.contains('stale')") is False
