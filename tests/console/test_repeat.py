"""A shared address of Explore: it asks once, and repeats nothing before somebody on the page wants that."""

from __future__ import annotations

from tests.console.browser import Browser
from tests.console.pages import Locked, visit

# The page's own timers, each with its delay in milliseconds.
TIMERS = """
(() => {
  const own = window.setTimeout;
  window.delays = [];
  window.setTimeout = (act, delay, ...rest) => { window.delays.push(delay); return own(act, delay, ...rest); };
})()
"""


def count_requests(browser: Browser) -> int:
    return sum("/aggregate" in request["url"] for request in browser("log")["requests"])


def test_a_shared_address_asks_once_and_repeats_after_a_click_every_five_seconds_at_most(
    chromium: Browser, console: Locked
) -> None:
    visit(chromium, console, "explore?stream=access&from=-1d")
    chromium.evaluate(TIMERS)
    asked = count_requests(chromium)
    # The address of a link, opened in a tab that has the page already.
    chromium.evaluate("location.hash = '#explore?stream=access&from=-2d&every=1s'")
    chromium.wait("document.querySelector('.repeat')")
    assert chromium.text(".repeat") == "Repeat every 5s"
    assert count_requests(chromium) == asked + 1
    assert [delay for delay in chromium.evaluate("window.delays") if delay and delay >= 1000] == []
    chromium.evaluate("document.querySelector('.repeat').click()")
    chromium.wait("window.delays.includes(5000)")
    assert 1000 not in chromium.evaluate("window.delays")
    # Whoever wanted the repetition keeps it while changing the question; another link does not inherit it.
    chromium.evaluate("window.delays = []; document.querySelectorAll('.tab')[1].click()")
    chromium.wait("window.delays.includes(5000)")
    chromium.evaluate("location.hash = '#explore?stream=access&from=-3d&every=5s'")
    chromium.wait("document.querySelector('.repeat')")
    chromium.evaluate("location.hash = '#send'")
    chromium.wait("document.querySelector('textarea')")


def test_a_choice_of_the_page_repeats_without_another_click(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-1d")
    chromium.evaluate(TIMERS)
    choice = "document.querySelector('select[name=every]')"
    chromium.evaluate(f"{choice}.value = '5s'; {choice}.dispatchEvent(new Event('change'))")
    chromium.wait("window.delays.includes(5000)")
    assert not chromium.evaluate("document.querySelector('.repeat')")
    chromium.evaluate("location.hash = '#send'")
    chromium.wait("document.querySelector('textarea')")
